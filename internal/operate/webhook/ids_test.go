package webhook

import (
	"encoding/binary"
	"testing"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/uuid"
	"github.com/openthreeds/threeds/internal/state/store"
)

// TestIDsOfEventsAreNoCardNumbers: nothing that hides the numbers of cards cuts into the id of an event.
func TestIDsOfEventsAreNoCardNumbers(t *testing.T) {
	t.Parallel()
	for n := range 20000 {
		about, shop := uuid.New(), string(binary.BigEndian.AppendUint64(nil, uint64(n)))
		for _, id := range []string{newEventID(about, shop), newEventID("", shop)} {
			if scrubbed, masked := cardnumber.Scrub(id), cardnumber.Mask(id); scrubbed != id || masked != id {
				t.Fatalf("the id %s becomes %s, %s", id, scrubbed, masked)
			}
			if key := store.EventKey(id); key != about && store.AboutOf(key) != "" {
				t.Fatalf("the id %s has the key %q", id, key)
			}
		}
	}
}
