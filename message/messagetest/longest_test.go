package messagetest_test

import (
	"math/rand/v2"
	"testing"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/messagetest"
)

func TestNoSampleIsLongerThanLongest(t *testing.T) {
	forEachMessage(t, func(t *testing.T, typ message.Type, v message.Version, ch message.Channel, cat message.Category) {
		ascii, members := messagetest.Longest(typ, v, 1, 100)
		wide, again := messagetest.Longest(typ, v, 4, 100)
		t.Logf("%d bytes, %d of UTF-8, %d members", ascii, wide, members)
		for seed := range uint64(4) {
			if n := len(messagetest.Sample(rand.New(rand.NewPCG(seed, 1)), typ, v, ch, cat, true)); n > wide {
				t.Errorf("a sample has %d bytes, more than %d", n, wide)
			}
		}
		if ascii <= 0 || wide < ascii || wide > 4*ascii || members != again {
			t.Errorf("%d, %d bytes; %d, %d members", ascii, wide, members, again)
		}
	})
}
