package messagetest_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/messagetest"
)

// forEachMessage calls f for every type, version, channel and category.
func forEachMessage(t *testing.T, f func(t *testing.T, typ message.Type, v message.Version, ch message.Channel, cat message.Category)) {
	for _, v := range message.Versions() {
		for _, typ := range message.Types() {
			if !typ.In(v) {
				continue
			}
			for _, ch := range message.Channels() {
				for _, cat := range message.Categories() {
					t.Run(fmt.Sprintf("%s/%s/%s/%s", v, typ, ch, cat), func(t *testing.T) { f(t, typ, v, ch, cat) })
				}
			}
		}
	}
}

func TestSamplesAreValid(t *testing.T) {
	forEachMessage(t, func(t *testing.T, typ message.Type, v message.Version, ch message.Channel, cat message.Category) {
		for seed := range uint64(12) {
			full := seed < 4
			data := messagetest.Sample(rand.New(rand.NewPCG(seed, 1)), typ, v, ch, cat, full)
			again := messagetest.Sample(rand.New(rand.NewPCG(seed, 1)), typ, v, ch, cat, full)
			if !bytes.Equal(data, again) {
				t.Fatalf("seed %d makes two messages", seed)
			}
			m, err := message.Parse(data, message.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if p := m.Check(message.Context{}); p != nil {
				t.Fatalf("seed %d: Check = %v of\n%s", seed, p, data)
			}
		}
	})
}

func TestFullSamplesHoldEveryOptionalMember(t *testing.T) {
	forEachMessage(t, func(t *testing.T, typ message.Type, v message.Version, ch message.Channel, cat message.Category) {
		m, err := message.Parse(messagetest.Sample(rand.New(rand.NewPCG(7, 7)), typ, v, ch, cat, true), message.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range message.TableOf(typ, v).Fields {
			if need := f.Need.At(ch, cat); (need == 'O' || need == 'R') && !f.DS && !m.Has(f.Name) {
				t.Errorf("%s is not there", f.Name)
			}
		}
	})
}
