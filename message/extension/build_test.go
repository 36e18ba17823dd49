package extension_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// plainOf returns the fields of a sample as a requestor writes them in "extensions".
func plainOf(t *testing.T, e *extension.Extension, data string) string {
	t.Helper()
	if e.Keyed || e.Single {
		var keyed map[string]json.RawMessage
		if err := json.Unmarshal([]byte(data), &keyed); err != nil {
			t.Fatal(err)
		}
		return string(keyed[e.ID])
	}
	return data
}

// request reads a request with the plain fields of one extension.
func request(t *testing.T, word, plain string, more ...string) *message.Request {
	t.Helper()
	r, err := message.ReadRequest(fmt.Appendf(nil,
		`{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"02","messageCategory":"01"%s,"extensions":{%q:%s}}`,
		strings.Join(more, ""), word, plain), message.Limits{Depth: -1, Members: -1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// targetOf returns a target that takes an extension.
func targetOf(e *extension.Extension) extension.Target {
	to := extension.Target{Version: message.V220, Channel: message.BRW, IDs: map[string]string{"visaDAF": "A000000003-ours"}}
	if e.Channels != nil {
		to.Channel = e.Channels[0]
	}
	if e.Schemes != nil {
		to.Scheme = e.Schemes[0]
	}
	for _, v := range e.Versions {
		to.Listed = append(to.Listed, extension.Supported{ID: e.ID, Version: v})
	}
	return to
}

// eachRequestSample calls check for each sample that a requestor can write.
func eachRequestSample(t *testing.T, check func(t *testing.T, e *extension.Extension, data string)) {
	eachSample(t, func(t *testing.T, kind message.Type, e *extension.Extension, data string) {
		if kind == message.AReq {
			check(t, e, data)
		}
	})
}

func TestPlainFieldsBecomeExtension(t *testing.T) {
	eachRequestSample(t, func(t *testing.T, e *extension.Extension, data string) {
		for _, word := range []string{e.Word, strings.ToUpper(e.Word)} {
			r := request(t, word, plainOf(t, e, data))
			changes, found := extension.Build(r, targetOf(e))
			if len(found) > 0 || len(changes) != 1 {
				t.Fatalf("%v %v", changes, found)
			}
			m, _ := r.Build(message.Context{})
			if got := string(m.Raw("messageExtension[0].data")); got != data {
				t.Errorf("data %s\nwant %s", got, data)
			}
			if m.Text("messageExtension[0].id") != idOf(e) || m.Text("messageExtension[0].name") != e.Name ||
				string(m.Raw("messageExtension[0].criticalityIndicator")) != "false" {
				t.Errorf("%s", m.Raw("messageExtension"))
			}
			if m.Has("extensions") {
				t.Error("extensions goes to the directory")
			}
		}
	})
}

// TestMutatedPlainFieldsAreRefusedWithPath: the path is that of the field as the requestor wrote it.
func TestMutatedPlainFieldsAreRefusedWithPath(t *testing.T) {
	eachRequestSample(t, func(t *testing.T, e *extension.Extension, data string) {
		rows := rowsOf(e, withExtension(t, message.AReq, e, data))
		random := rand.New(rand.NewPCG(30, 4))
		for n := range 1000 {
			row := rows[random.IntN(len(rows))]
			if e.Single {
				row.path = message.Path("messageExtension[0].data." + e.ID)
			}
			broken := mutate(t, random, data, row)
			plain := strings.TrimPrefix(string(row.path), "messageExtension[0].data")
			if e.ID != "" {
				plain = strings.TrimPrefix(plain, "."+e.ID)
			}
			plain = "extensions." + e.Word + plain
			r := request(t, e.Word, plainOf(t, e, broken))
			changes, found := extension.Build(r, targetOf(e))
			if len(found) == 0 {
				// A value that is empty counts as absent, as everywhere in a request (R2, R3).
				m, _ := r.Build(message.Context{})
				if value := m.Raw(string(row.path)); value != nil && row.Need != "RR RR RR" {
					t.Fatalf("mutation %d of %s: accepted %s: %s", n, plain, value, broken)
				}
				continue
			}
			if !slices.ContainsFunc(found, func(p message.Problem) bool { return strings.HasPrefix(p.Note, plain) }) || len(changes) > 0 {
				t.Fatalf("mutation %d of %s: %v: %s", n, plain, found, broken)
			}
		}
	})
}

func TestExtensionsThatAreNotTakenAreLeftOut(t *testing.T) {
	eachRequestSample(t, func(t *testing.T, e *extension.Extension, data string) {
		good := targetOf(e)
		targets := map[string]extension.Target{}
		if e.Until < message.V231 {
			to := good
			to.Version = message.V231
			targets["version"] = to
		}
		if e.Schemes != nil {
			to := good
			to.Scheme = "jcb"
			targets["scheme"] = to
		}
		if e.Channels != nil {
			to := good
			to.Channel = message.ThreeRI
			targets["channel"] = to
		}
		if e.Schemes == nil {
			to := good
			to.Listed = []extension.Supported{{ID: "A000000802-009", Version: "1.0"}}
			targets["range"] = to
		}
		if e.ID == "" {
			to := good
			to.IDs = nil
			targets["directory without its id"] = to
		}
		if e.OnlyListed {
			to := good
			to.Listed = nil
			targets["range that lists nothing"] = to
		}
		for name, to := range targets {
			r := request(t, e.Word, plainOf(t, e, data))
			changes, found := extension.Build(r, to)
			if m, _ := r.Build(message.Context{}); len(found) > 0 || m.Has("messageExtension") {
				t.Errorf("another %s: %v: %s", name, found, m.Raw("messageExtension"))
			}
			if len(changes) != 1 || !strings.HasPrefix(changes[0].What, "left out") {
				t.Errorf("another %s: %v", name, changes)
			}
		}
	})
}

// TestVersionIsOneThatTheRangeLists: without a version the newest that the range lists is sent (MC-53).
func TestVersionIsOneThatTheRangeLists(t *testing.T) {
	for listed, want := range map[string]string{"1.0": "1.0", "2.0": "2.0", "3.0": "", "": ""} {
		to := extension.Target{Version: message.V220, Channel: message.BRW}
		if listed != "" {
			to.Listed = []extension.Supported{{ID: extension.BridgingID, Version: listed}}
		}
		r := request(t, "bridging", `{"addData":{"transChar":["01"]}}`)
		if _, found := extension.Build(r, to); len(found) > 0 {
			t.Fatal(found)
		}
		m, _ := r.Build(message.Context{})
		if got := m.Text("messageExtension[0].data.version"); got != want {
			t.Errorf("the range lists %q: version %q, want %q", listed, got, want)
		}
	}
}

func TestFaultsOfExtensionsMember(t *testing.T) {
	raw := `,"messageExtension":[{"criticalityIndicator":false,"data":{"a":"é"},"id":"A000000802-002","name":"Travel Industry"}]`
	for plain, want := range map[string]string{
		`{"travelIndustry":{"agencyIndicater":"Y"}}`:                             "203 extensions.travelIndustry.agencyIndicater",
		`{"travelIndustry":{"air":{"itineraryInfo":{"segments":[{},{"x":1}]}}}}`: "203 extensions.travelIndustry.air.itineraryInfo.segments[1].x",
		`{"travelIndustry":"Y"}`:                                                 "203 extensions.travelIndustry",
		`{"travelIndustries":{"agencyIndicator":"Y"}}`:                           "203 extensions.travelIndustries",
		`{"4000000000000002":"Y"}`:                                               "203 extensions.unknown",
		`{"mirRbaScoring":{"totalScore":1}}`:                                     "203 extensions.mirRbaScoring",
		`"travel"`:                                                               "203 extensions",
		`{"cbItems":7}`:                                                          "203 extensions.cbItems",
		`{"deviceAcknowledgement":{"version":"9.0","sdkType":"02"}}`:             "203 extensions.deviceAcknowledgement.version",
	} {
		r, err := message.ReadRequest([]byte(`{"messageVersion":"2.2.0","extensions":`+plain+`}`), message.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		changes, found := extension.Build(r, extension.Target{Version: message.V220, Scheme: "cb", Channel: message.APP})
		if len(found) == 0 || len(changes) > 0 || found[0].String() != want {
			t.Errorf("%s: %v %v, want %s", plain, changes, found, want)
		}
	}
	r := request(t, "travelIndustry", `{"agencyIndicator":"Y"}`, raw)
	if _, found := extension.Build(r, extension.Target{Version: message.V220}); len(found) != 1 || found[0].String() != "204 extensions.travelIndustry" {
		t.Errorf("the same extension twice: %v", found)
	}
	for _, empty := range []string{`null`, `{}`, `{"travelIndustry":null}`, `{"travelIndustry":{"agencyIndicator":"","air":{}}}`} {
		r, err := message.ReadRequest([]byte(`{"messageVersion":"2.2.0","extensions":`+empty+`}`), message.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if changes, found := extension.Build(r, extension.Target{Version: message.V220}); len(changes)+len(found) > 0 {
			t.Errorf("%s: %v %v", empty, changes, found)
		}
	}
}

// TestBuiltExtensionsFollowThoseOfTheRequestor: those stay as they are, byte for byte.
func TestBuiltExtensionsFollowThoseOfTheRequestor(t *testing.T) {
	data := `{ "b":1.50, "a":"é", "n":null, "e":{} }`
	r := request(t, "travelIndustry", `{"agencyIndicator":"Y"}`,
		`,"messageExtension":[{"criticalityIndicator":false,"data":`+data+`,"id":"A000000999-x","name":"x"}]`)
	if _, found := extension.Build(r, extension.Target{Version: message.V220}); len(found) > 0 {
		t.Fatal(found)
	}
	m, _ := r.Build(message.Context{})
	if got := string(m.Raw("messageExtension[0].data")); got != data {
		t.Errorf("%s", got)
	}
	if got := m.Text("messageExtension[1].id"); got != "A000000802-002" {
		t.Errorf("%s", m.Raw("messageExtension"))
	}
}
