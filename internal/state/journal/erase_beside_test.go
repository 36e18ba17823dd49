package journal

import (
	"fmt"
	"testing"
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
