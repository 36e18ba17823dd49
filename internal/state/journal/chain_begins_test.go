package journal

import (
	"context"
	"testing"
	"time"
)

// partsWithWriter are the parts of a store in which another process writes as soon as the chains of a day were closed.
type partsWithWriter struct {
	evidenceParts
	write func()
}

func (p *partsWithWriter) eachPart(ctx context.Context, do func(name string, db *database) error) error {
	err := p.evidenceParts.eachPart(ctx, do)
	if write := p.write; write != nil && err == nil {
		p.write = nil
		write()
	}
	return err
}

// TestD121AChainThatBeginsWhileItsDayIsSignedIsNoFault: a node closes the chains of yesterday to sign them. Another one
// has a result of yesterday, so it begins another chain, before the first one has read which chains there are. If that
// chain were signed as ended, what comes later would count as changed in the store.
func TestD121AChainThatBeginsWhileItsDayIsSignedIsNoFault(t *testing.T) {
	EachStore(t, func(t *testing.T, st Store, keys *Keys) {
		at := time.Date(2026, 3, 30, 23, 59, 0, 0, time.UTC)
		add := func(id string) {
			t.Helper()
			if n, err := st.Write(t.Context(), []Entry{{Kind: Answered, CardHash: keys.CardHash("4000000000000002"), Record: Record{
				ID: id, Created: at, Updated: at, API: "emv", Merchant: "shop", Status: "completed", TransStatus: "Y",
			}}}); err != nil || n != 1 {
				t.Fatal(n, err)
			}
		}
		add("00000000-0000-4000-8000-000000000001")
		e := st.(heldParts).evidenceOf()
		parts := &partsWithWriter{evidenceParts: e.parts}
		e.parts = parts
		calls := 0
		parts.write = func() { // signDays looks at the chains once before it closes them
			calls++
			parts.write = func() { add("00000000-0000-4000-8000-000000000002") }
		}
		if err := st.Sign(t.Context(), at.Add(2*time.Minute)); err != nil {
			t.Fatal(err)
		}
		add("00000000-0000-4000-8000-000000000003")
		for days := range 3 {
			if err := st.Sign(t.Context(), at.AddDate(0, 0, days).Add(2*time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := st.Head(t.Context(), at.AddDate(0, 0, days).Add(3*time.Minute), nil); err != nil {
				t.Fatal(err)
			}
		}
		if faults := st.Faults(); len(faults) > 0 || calls == 0 {
			t.Errorf("nobody has changed anything, and the faults are %q", faults)
		}
	})
}
