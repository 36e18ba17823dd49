package message_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/messagetest"
)

func mustParse(t testing.TB, data []byte) *message.Message {
	t.Helper()
	m, err := message.Parse(data, message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFactsHoldWhatLaterChecksNeed(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`{"messageType":"AReq","messageVersion":"2.2.0","acctNumber":"4000000000000002","deviceChannel":"02","messageCategory":"01","purchaseAmount":"1",
			"threeDSServerTransID":"x","threeDSRequestorChallengeInd":"04","threeDSRequestorDecReqInd":"Y","threeDSRequestorDecMaxTime":"00010","sdkTransID":null}`,
			`{"deviceChannel":"02","messageCategory":"01","messageType":"AReq","messageVersion":"2.2.0","threeDSRequestorChallengeInd":"04","threeDSServerTransID":"x","threeDSRequestorDecMaxTime":"00010","threeDSRequestorDecReqInd":"Y"}`},
		{`{"messageType":"ARes","messageVersion":"2.2.0","transStatus":"D","acsDecConInd":"Y","acsTransID":"a","dsTransID":"d","authenticationValue":"AAAA","eci":"05","acsURL":"u"}`,
			`{"acsTransID":"a","acsDecConInd":"Y","dsTransID":"d","messageType":"ARes","messageVersion":"2.2.0","transStatus":"D"}`},
		{`{"messageType":"Erro","messageVersion":"2.2.0"}`, `{}`},
		{`{"messageType":"AReq","messageVersion":"9","acctNumber":"4000000000000002"}`, `{}`},
		{`{}`, `{}`},
	} {
		var got, want map[string]any
		if err := json.Unmarshal(mustParse(t, []byte(test.text)).Facts(), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(test.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := difftest.Diff(want, got); diff != "" {
			t.Errorf("facts (-want +got):\n%s", diff)
		}
	}
}

// Facts leave out all elements that are masked.
func TestFactsHoldNoCardData(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		for _, v := range message.Versions() {
			for _, typ := range message.Types() {
				if !typ.In(v) {
					continue
				}
				data := messagetest.Sample(rand.New(rand.NewPCG(seed, 4)), typ, v, message.Channels()[seed%3], message.Categories()[seed%2], true)
				var facts map[string]json.RawMessage
				if err := json.Unmarshal(mustParse(t, data).Facts(), &facts); err != nil {
					t.Fatal(err)
				}
				for name := range facts {
					if f := message.TableOf(typ, v).Field(name); f == nil || f.Mask != message.Clear || f.Kind == message.Object || f.Kind == message.JSON {
						t.Errorf("%s %s: %s is remembered", v, typ, name)
					}
				}
			}
		}
	}
}

// The checks of later messages have the same result with the facts as with the messages
// themselves.
func TestFactsReplaceTheMessageInAContext(t *testing.T) {
	var faulty int
	seeds := uint64(200)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 5))
		v, ch, cat := message.Versions()[seed%3], message.Channels()[seed/3%3], message.Categories()[seed/9%2]
		sample := func(typ message.Type) []byte {
			return messagetest.Sample(random, typ, v, ch, cat, random.IntN(2) == 0)
		}
		areq := mustParse(t, sample(message.AReq))
		ares := mustParse(t, sample(message.ARes))
		if random.IntN(2) == 0 {
			areq, ares = factsOf(t, areq), factsOf(t, ares)
		}
		full := message.Context{AReq: areq, ARes: ares}
		facts := message.Context{AReq: mustParse(t, areq.Facts()), ARes: mustParse(t, ares.Facts())}
		for _, typ := range []message.Type{message.ARes, message.RReq, message.CRes, message.CReq} {
			m := mustParse(t, sample(typ))
			if random.IntN(2) == 0 {
				m = factsOf(t, m)
			}
			want, got := m.Check(full), m.Check(facts)
			if diff := difftest.Diff(want, got); diff != "" {
				t.Fatalf("seed %d: %s %s with messages, with facts:\n%s", seed, v, typ, diff)
			}
			faulty += min(len(want), 1)
		}
	}
	if all := 4 * int(seeds); faulty == 0 || faulty == all {
		t.Errorf("%d of %d messages did not fit their transaction: this shows nothing", faulty, all)
	}
}

// ofOne is m with the ids of one and the same transaction.
func factsOf(t testing.TB, m *message.Message) *message.Message {
	t.Helper()
	typ, _ := m.Type()
	v, _ := m.Version()
	var members []message.Member
	for _, f := range message.TableOf(typ, v).Fields {
		raw := m.Raw(f.Name)
		if raw != nil && slices.Contains([]string{"threeDSServerTransID", "dsTransID", "acsTransID", "sdkTransID"}, f.Name) {
			raw = []byte(`"8a880dc0-d2d2-4067-bcb1-b08d1690b26e"`)
		}
		members = append(members, message.Member{Name: f.Name, Raw: raw})
	}
	return mustParse(t, message.MustCompose(typ, v, members...))
}
