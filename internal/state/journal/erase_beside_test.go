package journal

import (
	"errors"
	"fmt"
	"testing"

	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// TestJ6AWriterThatReadsKeysAgainEndsNoErasure: an entry comes late, after its day was signed, and its writer reads the
// keys of all days again. An erasure goes on meanwhile. It would end the server if it looked for the key of a frame
// once more than it has opened the frame with.
func TestJ6AWriterThatReadsKeysAgainEndsNoErasure(t *testing.T) {
	t.Parallel()
	eachTwice(t, func(t *testing.T, keys *Keys, open func() (Store, error)) {
		st, _ := openRace(t, keys, open)
		const frames = 200
		for n := range frames {
			if _, err := st.Write(t.Context(), []Entry{{Kind: Answered, Record: Record{
				ID: fmt.Sprintf("00000000-0000-4000-8001-%012d", n), Created: raceDay, Updated: raceDay, API: "emv",
				Merchant: "shop 2", Status: "completed", TransStatus: "Y",
			}}}); err != nil {
				t.Fatal(err)
			}
		}
		db, err := st.(evidenceParts).partOf(t.Context(), dayOf(raceDay))
		if err != nil {
			t.Fatal(err)
		}
		end, ended := make(chan struct{}), make(chan struct{})
		go func() { // does what write does after errClosed
			defer close(ended)
			for {
				select {
				case <-end:
					return
				default:
				}
				db.mu.Lock()
				db.keys.Clear()
				db.mu.Unlock()
			}
		}()
		n, _, err := st.Erase(t.Context(), Query{Merchant: "shop 2"})
		close(end)
		<-ended
		if err != nil || n != frames {
			t.Errorf("%d were erased, %v; want %d", n, err, frames)
		}
	})
}

// TestJ6ADayThatComesBackIsReadByAllNodes: journal.keep was too short for a while on a node, so that a day has gone.
// An import brings it back, and the day has another key then. A node that remembers the key of before would say that
// somebody has changed the entries, and an erasure would leave them out.
func TestJ6ADayThatComesBackIsReadByAllNodes(t *testing.T) {
	t.Parallel()
	at, keys := pgtest.Get(t).Schema(t), NewKeys()
	st, other := openRace(t, keys, func() (Store, error) { return OpenPostgres(t.Context(), at, keys) })
	id := "00000000-0000-4000-8000-000000000000"
	if d, err := other.Show(t.Context(), id); err != nil || d.IsChanged {
		t.Fatal(d, err)
	}
	if err := errors.Join(st.Expire(t.Context(), raceDay.AddDate(0, 0, 3)),
		st.Expire(t.Context(), raceDay.AddDate(-1, 0, 0))); err != nil {
		t.Fatal(err)
	}
	again := Entry{Kind: Answered, CardHash: keys.CardHash("4000000000000002"), Record: Record{
		ID: id, Created: raceDay, Updated: raceDay, API: "emv", Merchant: "shop 0", Status: "completed", TransStatus: "Y",
	}}
	if _, err := st.Write(t.Context(), []Entry{again}); err != nil {
		t.Fatal(err)
	}
	if d, err := other.Show(t.Context(), id); err != nil || d.IsChanged || d.TransStatus != "Y" {
		t.Errorf("another node shows %+v, %v", d.Record, err)
	}
	if n, _, err := other.Erase(t.Context(), Query{Card: "4000000000000002"}); err != nil || n != 1 {
		t.Errorf("another node erases %d, %v; want 1", n, err)
	}
}
