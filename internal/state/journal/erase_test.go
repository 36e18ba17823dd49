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

// TestJ6AnErasureReachesWhatWasHidden: somebody without the keys deletes rows, so that neither searches nor places lead
// to an entry. An erasure of its card or merchant takes its content all the same, also of a day that goes on.
func TestJ6AnErasureReachesWhatWasHidden(t *testing.T) {
	t.Parallel()
	for name, text := range map[string][]string{
		"records":               {`DELETE FROM journal_records`},
		"records, and hours":    {`DELETE FROM journal_records`, `DELETE FROM journal_hours`},
		"places":                {`DELETE FROM journal_places WHERE kind = 'claimed'`},
		"records and places":    {`DELETE FROM journal_records`, `DELETE FROM journal_places`},
		"a place, which exists": {`UPDATE journal_places SET frame = 1 WHERE kind = 'claimed'`, `DELETE FROM journal_places WHERE kind = 'answered'`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
				now := time.Now().UTC()
				for n, at := range []time.Time{day, day.Add(time.Hour), now} {
					claimed, answered := entry(keys, n, journal.Claimed), entry(keys, n, journal.Answered)
					claimed.Record.Created, answered.Record.Created = at, at
					write(t, st, claimed)
					write(t, st, answered)
				}
				other := entry(keys, 3, journal.Answered)
				other.CardHash = keys.CardHash("4000000000000010")
				write(t, st, other)
				if err := st.Sign(t.Context(), day.AddDate(0, 0, 2)); err != nil {
					t.Fatal(err)
				}
				i := &insider{t: t, all: journal.Databases(t, st)}
				for _, text := range text {
					i.do(text)
				}
				if _, n, err := st.Erase(t.Context(), journal.Query{Card: testCard}); err != nil || n != 6 {
					t.Errorf("%d entries were erased, %v; want 6", n, err)
				}
				if len(st.Faults()) == 0 {
					t.Error("nothing is reported")
				}
				left := 0
				if err := st.Export(t.Context(), journal.Query{}, func(e journal.ExportedEntry) error {
					if e.Content != nil {
						left++
					}
					return nil
				}); err != nil || left != 1 {
					t.Errorf("%d entries have content, %v; want that of the other card", left, err)
				}
			})
		})
	}
}

// TestJ6AnErasureSaysWhatItCannotLookAt: a day has an entry that does not open, and the record of another one was
// deleted. The error names the day and the chain. What can be looked at is erased.
func TestJ6AnErasureSaysWhatItCannotLookAt(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		for n := range 2 {
			e := entry(keys, n, journal.Answered)
			e.Record.Created = day.Add(time.Duration(n) * time.Minute)
			write(t, st, e)
		}
		i := &insider{t: t, all: journal.Databases(t, st)}
		i.do(`DELETE FROM journal_records`)
		i.do(`UPDATE journal_frames SET body = mac WHERE` + frameOf(1))
		_, n, err := st.Erase(t.Context(), journal.Query{Card: testCard})
		if err == nil || !strings.Contains(err.Error(), "the day 2026-03-30 cannot be looked at as a whole: entries from 2 on of the chain") || n != 1 {
			t.Errorf("%d entries were erased, %v", n, err)
		}
	})
}
