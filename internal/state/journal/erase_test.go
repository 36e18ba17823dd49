package journal_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestJ6AnErasureThatFailsLeavesNoTombstone: when an entry of the last day does not open, nothing is erased and nothing
// says so. An export of the days before is signed as ever.
func TestJ6AnErasureThatFailsLeavesNoTombstone(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		for n := 0; n < 48; n += 24 { // two days of one month, which SQLite has in one file
			write(t, st, entry(keys, n, journal.Answered))
		}
		i := &insider{t: t, all: journal.Databases(t, st)}
		last := day.AddDate(0, 0, 1).Truncate(24 * time.Hour)
		i.do(fmt.Sprintf(`UPDATE journal_frames SET body = mac WHERE made = %d`, last.UnixMilli()))
		if _, _, err := st.Erase(t.Context(), journal.Query{Card: testCard}); err == nil {
			t.Error("an entry that does not open was erased")
		}
		if err := st.ReadSeals(t.Context(), 1, func(s journal.Seal) error {
			if strings.Contains(s.Text, "kind erasure") {
				t.Errorf("nothing was erased, and a seal says:\n%s", s.Text)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if n, err := journal.WriteJSONLines(t.Context(), &b, st, keys, journal.Query{To: last}); err != nil || n != 1 {
			t.Errorf("an export of the days before has %d records, %v", n, err)
		}
	})
}

// TestJ6AnErasureReachesWhatAPlaceSaysWasErased: somebody without the keys says of an entry that it was erased, and it
// was not. An erasure of its card takes its content all the same.
func TestJ6AnErasureReachesWhatAPlaceSaysWasErased(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		write(t, st, entry(keys, 0, journal.Claimed), entry(keys, 0, journal.Answered))
		i := &insider{t: t, all: journal.Databases(t, st)}
		i.do(`UPDATE journal_places SET gone = 1 WHERE kind = 'claimed'`)
		if _, n, err := st.Erase(t.Context(), journal.Query{Card: testCard}); err != nil || n != 2 {
			t.Errorf("%d entries were erased, %v", n, err)
		}
		var b bytes.Buffer
		if n, err := journal.WriteJSONLines(t.Context(), &b, st, keys, journal.Query{}); err != nil || n != 0 {
			t.Errorf("after the erasure an export has %d records, %v", n, err)
		}
	})
}
