package conformance

import (
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// samplesJSON is what legal messages hold: entries whose members ("has") are part of every
// message that all words of "for" apply to. The words are message type, version (2.2+ and
// -2.2: from and up to 2.2.0), channel, category and transStatus. Later entries win.
//
//go:embed samples.json
var samplesJSON []byte

type sampleRow struct {
	For string `json:"for"`
	Has object `json:"has"`
}

var sampleRows = sync.OnceValue(func() []sampleRow {
	var rows []sampleRow
	panicOnError(json.Unmarshal(samplesJSON, &rows))
	return rows
})

// The versions of the protocol.
const (
	v210 = "2.1.0"
	v220 = "2.2.0"
	v231 = "2.3.1"
)

var (
	allVersions = []string{v210, v220, v231}
	since220    = []string{v220, v231}
	until220    = []string{v210, v220}
)

// Channels and categories by the codes of their members.
var (
	channelCodes  = map[string]string{"APP": "01", "BRW": "02", "3RI": "03"}
	categoryCodes = map[string]string{"PA": "01", "NPA": "02"}
)

// sample is a legal message without ids. The words are channel, category and transStatus,
// as far as the message depends on them.
func sample(messageType, version string, words ...string) object {
	words = append(words, messageType, version)
	if version != v210 {
		words = append(words, "2.2+")
	}
	if version != v231 {
		words = append(words, "-2.2")
	}
	o := object{"messageVersion": version}
	for _, row := range sampleRows() {
		fits := func(word string) bool { return slices.Contains(words, word) }
		if !slices.ContainsFunc(strings.Fields(row.For), func(word string) bool { return !fits(word) }) {
			maps.Copy(o, plain(row.Has).(object))
		}
	}
	return o
}

// newID is a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// aresTo is a legal answer with that transStatus to an AReq.
func aresTo(areq object, status string) object {
	channel, category := "BRW", "PA"
	for name, code := range channelCodes {
		if areq.text("deviceChannel") == code {
			channel = name
		}
	}
	for name, code := range categoryCodes {
		if areq.text("messageCategory") == code {
			category = name
		}
	}
	o := sample("ARes", areq.text("messageVersion"), channel, category, status)
	o["threeDSServerTransID"], o["acsTransID"], o["dsTransID"] = areq["threeDSServerTransID"], newID(), newID()
	o["transStatus"] = status
	if channel == "APP" {
		o["sdkTransID"] = areq["sdkTransID"]
	}
	return o
}
