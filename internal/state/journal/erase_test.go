package journal_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestJ6AnErasureReachesAllDaysButADamagedOne: a day with an entry that does not open stays as it is, without a
// tombstone, and the error names it. The days before and behind it are erased.
func TestJ6AnErasureReachesAllDaysButADamagedOne(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		damaged := time.Date(2026, 3, 20, 0, 0, 0, 0, time.UTC)
		for n := range 3 { // days of one month, which SQLite has in one file
			e := entry(keys, n, journal.Answered)
			e.Record.Created = damaged.AddDate(0, 0, n-1)
			write(t, st, e)
		}
		i := &insider{t: t, all: journal.Databases(t, st)}
		i.do(fmt.Sprintf(`UPDATE journal_frames SET body = mac WHERE made = %d`, damaged.UnixMilli()))
		_, n, err := st.Erase(t.Context(), journal.Query{Card: testCard})
		if err == nil || !strings.Contains(err.Error(), "nothing of the day 2026-03-20 was erased") || n != 2 {
			t.Errorf("%d entries were erased, %v; want 2, and the day that stays", n, err)
		}
		if err := st.ReadSeals(t.Context(), 1, func(s journal.Seal) error {
			if strings.Contains(s.Text, "erased 2026-03-20") {
				t.Errorf("nothing of that day was erased, and a seal says:\n%s", s.Text)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if n, err := journal.WriteJSONLines(t.Context(), &b, st, keys, journal.Query{To: damaged}); err != nil || n != 0 {
			t.Errorf("an export of the day before has %d records, %v", n, err)
		}
		if page, err := st.Search(t.Context(), journal.Query{}); err != nil || len(page.Records) != 1 {
			t.Errorf("%d records are found, %v; want that of the damaged day", len(page.Records), err)
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
