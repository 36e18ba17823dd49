package message_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/messagetest"
)

// areqs calls f with samples of every kind of AReq.
func forEachAReq(t *testing.T, seeds uint64, f func(t *testing.T, random *rand.Rand, data []byte)) {
	for _, v := range message.Versions() {
		for _, ch := range message.Channels() {
			for _, cat := range message.Categories() {
				t.Run(fmt.Sprintf("%s/%s/%s", v, ch, cat), func(t *testing.T) {
					for seed := range seeds {
						random := rand.New(rand.NewPCG(seed, 6))
						f(t, random, messagetest.Sample(random, message.AReq, v, ch, cat, seed%2 == 0))
					}
				})
			}
		}
	}
}

func buildBytes(t *testing.T, data []byte, normalise bool) []byte {
	t.Helper()
	r, err := message.ReadRequest(data, message.Limits{Members: -1})
	if err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	if normalise {
		if changes := r.Normalise(); changes != nil {
			t.Fatalf("a good request was changed: %v", changes)
		}
	}
	m, p := r.Build(message.Context{})
	if p != nil {
		t.Fatalf("%v of\n%s", p, data)
	}
	return m.Bytes()
}

// A message that a 3DS Server could send stays the same byte for byte.
func TestBuildKeepsValidMessages(t *testing.T) {
	forEachAReq(t, 20, func(t *testing.T, _ *rand.Rand, data []byte) {
		for _, normalise := range []bool{false, true} {
			if diff := difftest.Diff(string(data), string(buildBytes(t, data, normalise))); diff != "" {
				t.Fatalf("normalise %v (-in +out):\n%s", normalise, diff)
			}
		}
	})
}

// Build returns the same AReq whatever the case and the order of names, and whatever nulls,
// empty values, unknown members and white space the request has.
func TestBuildIgnoresCaseOrderAndEmptyMembers(t *testing.T) {
	each := uint64(20)
	if testing.Short() {
		each = 4
	}
	forEachAReq(t, each, func(t *testing.T, random *rand.Rand, data []byte) {
		m, err := message.Parse(data, message.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		v, _ := m.Version()
		noisy := addNoise(t, random, message.TableOf(message.AReq, v), data)
		if diff := difftest.Diff(string(data), string(buildBytes(t, noisy, true))); diff != "" {
			t.Fatalf("(-plain +noisy):\n%s\nof %s", diff, noisy)
		}
	})
}

// noise writes an object, and the objects with tables in it, as a careless
// requestor would. What has no table stays as it is.
func addNoise(t *testing.T, random *rand.Rand, table *message.Table, data []byte) []byte {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		t.Fatal(err)
	}
	var parts []string
	add := func(name, raw string) {
		blank := []string{"", " ", "\n\t"}[random.IntN(3)]
		parts = append(parts, blank+`"`+name+`"`+blank+":"+blank+raw+blank)
	}
	for i := range table.Fields {
		f := &table.Fields[i]
		raw, ok := members[f.Name]
		switch {
		case ok && f.Name == "sdkEphemPubKey": // passes as it is
			add(mixCase(random, f.Name), string(raw))
		case ok && f.Of != nil && !f.Array:
			add(mixCase(random, f.Name), string(addNoise(t, random, f.Of, raw)))
		case ok && f.Of != nil:
			add(mixCase(random, f.Name), string(addNoiseToItems(t, random, f.Of, raw)))
		case ok:
			add(mixCase(random, f.Name), string(raw))
		case random.IntN(3) == 0:
			add(mixCase(random, f.Name), []string{"null", `""`, "{}", "[]", `[null,""]`, `{"x":null}`}[random.IntN(6)])
		}
	}
	for i := range random.IntN(4) {
		add(fmt.Sprintf("unknown%d", i), []string{"1.0", "null", `"é"`, `{"a":[{}]}`}[random.IntN(4)])
	}
	random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return []byte("{" + strings.Join(parts, ",") + "}")
}

func addNoiseToItems(t *testing.T, random *rand.Rand, table *message.Table, data []byte) []byte {
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for _, item := range items {
		out = append(out, addNoise(t, random, table, item))
		if random.IntN(2) == 0 {
			out = append(out, []byte([]string{"null", "{}", `""`}[random.IntN(3)]))
		}
	}
	return append(append([]byte{'['}, bytes.Join(out, []byte(","))...), ']')
}

func mixCase(random *rand.Rand, name string) string {
	b := []byte(name)
	for i := range b {
		switch random.IntN(4) {
		case 0:
			b[i] = strings.ToUpper(name)[i]
		case 1:
			b[i] = strings.ToLower(name)[i]
		}
	}
	return string(b)
}
