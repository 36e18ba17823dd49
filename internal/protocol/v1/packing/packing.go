// Package packing packs messages of 3-D Secure 1.0.2 for the form fields of a browser, and unpacks what came through
// one. Use [Deflate] and [Inflate].
package packing

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Limits of a PARes. Real ones have less than a tenth of that.
const (
	MaxText = 64 << 10  // characters, as it comes through the browser
	MaxXML  = 128 << 10 // bytes, unpacked
)

// Deflate packs a message for a form field: zlib, then base64 with padding and without
// line breaks.
func Deflate(doc []byte) string {
	var packed bytes.Buffer
	z := packers.Get().(*zlib.Writer)
	defer packers.Put(z)
	z.Reset(&packed)
	z.Write(doc) // a Buffer takes everything
	z.Close()
	return base64.StdEncoding.EncodeToString(packed.Bytes())
}

// packers holds *zlib.Writer for reuse: each takes 800 KB.
var packers = sync.Pool{New: func() any { return zlib.NewWriter(nil) }}

var (
	errText    = fmt.Errorf("v1: more than %d characters", MaxText)
	errXML     = fmt.Errorf("v1: unpacks to more than %d bytes", MaxXML)
	errBase64  = errors.New("v1: not base64")
	errDeflate = errors.New("v1: not zlib, or cut short or changed on the way")
	errRest    = errors.New("v1: something follows the packed message")
)

// Inflate unpacks a message that came through a browser. It repairs what happens on the way: line breaks and
// blanks that were added, padding that was lost, "+" that became a blank, and one percent-encoding too many. It
// also takes a message that is packed without the header and checksum of zlib; then raw is true, so that such
// senders can be counted.
func Inflate(text string) (doc []byte, raw bool, err error) {
	if len(text) > MaxText {
		return nil, false, errText
	}
	for _, reading := range readings(text) {
		packed, ok := decode(reading)
		if !ok {
			continue
		}
		if doc, raw, err = unpack(packed); err == nil || errors.Is(err, errXML) {
			return doc, raw, err
		}
	}
	if err == nil {
		err = errBase64
	}
	return nil, false, err
}

// cleaner removes line breaks and tabs. It also undoes one percent-encoding of the characters
// that a client encodes before its form does so again. Base64 has no "%", so a text that was
// encoded more often, or that has other characters encoded, is refused as before.
var cleaner = strings.NewReplacer("\r", "", "\n", "", "\t", "",
	"%0D", "", "%0d", "", "%0A", "", "%0a", "",
	"%2B", "+", "%2b", "+", "%2F", "/", "%2f", "/", "%3D", "=", "%3d", "=")

// readings returns what text may have been, the likeliest first: each blank was a "+", or
// was added.
func readings(text string) []string {
	text = cleaner.Replace(text)
	trimmed := strings.Trim(text, " ")
	if trimmed == text && !strings.Contains(text, " ") {
		return []string{text}
	}
	return []string{
		strings.ReplaceAll(trimmed, " ", "+"),
		strings.ReplaceAll(text, " ", "+"),
		strings.ReplaceAll(text, " ", ""),
	}
}

// decode decodes base64, with padding, a part of it, or none.
func decode(s string) ([]byte, bool) {
	digits := strings.TrimRight(s, "=")
	if padding := len(s) - len(digits); padding > (4-len(digits)%4)%4 {
		return nil, false
	}
	b, err := base64.RawStdEncoding.Strict().DecodeString(digits)
	return b, err == nil && len(b) > 0
}

func unpack(packed []byte) (doc []byte, raw bool, err error) {
	source := bytes.NewReader(packed)
	z, err := zlib.NewReader(source)
	if raw = errors.Is(err, zlib.ErrHeader); raw {
		source.Reset(packed)
		z = flate.NewReader(source)
	} else if err != nil {
		return nil, false, errDeflate
	}
	// Both readers read no further in a bytes.Reader than they need, so source.Len is what
	// follows the packed message.
	doc, err = io.ReadAll(io.LimitReader(z, MaxXML+1))
	switch {
	case len(doc) > MaxXML:
		return nil, raw, errXML
	case err != nil:
		return nil, raw, errDeflate
	case source.Len() > 0:
		return nil, raw, errRest
	}
	return doc, raw, nil
}
