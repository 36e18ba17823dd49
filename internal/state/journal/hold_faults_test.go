package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// countFrames counts the frames and the messages of a day.
func countFrames(t *testing.T, st journal.Store, day string) (frames, messages int) {
	t.Helper()
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		t.Fatal(err)
	}
	for _, db := range journal.Databases(t, st) {
		for table, to := range map[string]*int{"journal_frames": &frames, "journal_messages": &messages} {
			var n int
			if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table+` WHERE made = $1`,
				at.UnixMilli()).Scan(&n); err != nil {
				t.Fatal(err)
			}
			*to += n
		}
	}
	return frames, messages
}

// TestD126AHeldDayStaysWhenTheTimeGetsLonger: another node's clock is behind at midnight, or journal.keep is longer
// since. A sweep with an earlier day forgets no day that is held.
func TestD126AHeldDayStaysWhenTheTimeGetsLonger(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		addHold(t, st, journal.Hold{Name: "case 1", Card: heldCard, From: "2026-03-31", To: "2026-03-31"})
		april1 := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
		for _, before := range []time.Time{april1, april1.Add(-time.Second), april1, april1.AddDate(0, 0, -2), april1} {
			if err := st.Expire(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			if list, err := st.Holds(t.Context()); err != nil || list.Days != 1 {
				t.Errorf("after a sweep before %s %d days are kept, %v", before, list.Days, err)
			}
		}
		if n := countFound(t, st, journal.Query{}); n != 18 {
			t.Errorf("%d authentications are found, want 18: 6 of the day that is held, and 12 of later ones", n)
		}
		checkWhole(t, st, keys, archiveNow.AddDate(0, 0, 1), 36, 0)
		if err := st.LiftHold(t.Context(), "case 1", "cli:jo"); err != nil {
			t.Fatal(err)
		}
		if err := st.Expire(t.Context(), april1.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if n := countFound(t, st, journal.Query{}); n != 12 {
			t.Errorf("%d authentications are found after the hold was lifted, want 12", n)
		}
	})
}

// TestA2HeldDaysStayWhenTheirRowsAreChanged: somebody without the keys changes or deletes what tells which days have
// something held. The sealed entries say it, so neither a sweep nor an erasure takes what is held.
func TestA2HeldDaysStayWhenTheirRowsAreChanged(t *testing.T) {
	t.Parallel()
	for name, trick := range map[string]string{
		"another merchant": `UPDATE journal_records SET merchant = 'shop 0' WHERE merchant = 'shop 1'`,
		"no card":          `UPDATE journal_records SET card = NULL`,
		"another time":     `UPDATE journal_records SET made = made + 86400000 WHERE made < 1774915200000`,
		"rows deleted":     `DELETE FROM journal_records`,
		"chains deleted":   `DELETE FROM journal_chains WHERE day = '2026-03-30'`,
		"chains archived":  `UPDATE journal_chains SET closed = 2 WHERE day = '2026-03-30'`,
		"chains empty":     `UPDATE journal_chains SET seq = 0 WHERE day = '2026-03-30'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
				fillForArchive(t, st, keys)
				addHold(t, st, journal.Hold{Name: "case 1", Card: heldCard, Merchant: "shop 1", To: "2026-03-30"})
				frames, messages := countFrames(t, st, "2026-03-30")
				for _, db := range journal.Databases(t, st) {
					if _, err := db.ExecContext(t.Context(), trick); err != nil {
						t.Fatal(err)
					}
				}
				may1 := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
				for range 2 {
					if err := st.ExpireMessages(t.Context(), may1); err != nil {
						t.Fatal(err)
					}
					if err := st.Expire(t.Context(), may1); err != nil {
						t.Fatal(err)
					}
				}
				if f, m := countFrames(t, st, "2026-03-30"); f != frames || m != messages || f == 0 || m == 0 {
					t.Errorf("%d frames and %d messages are left of %d and %d", f, m, frames, messages)
				}
				if f, m := countFrames(t, st, "2026-03-31"); f+m != 0 {
					t.Errorf("of a day with nothing held there are %d frames and %d messages", f, m)
				}
				if strings.HasPrefix(name, "chains") && len(st.Faults()) == 0 {
					t.Error("the journal says nothing of the chains")
				}
			})
		})
	}
}

// TestA2AnErasureHeedsTheEntriesThatAreHeld: somebody without the keys changes the row of an authentication that a hold
// holds, so that an erasure would take it.
func TestA2AnErasureHeedsTheEntriesThatAreHeld(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		addHold(t, st, journal.Hold{Name: "case 1", Card: heldCard, To: "2026-03-30"})
		for _, db := range journal.Databases(t, st) {
			if _, err := db.ExecContext(t.Context(), `UPDATE journal_records SET card = NULL`); err != nil {
				t.Fatal(err)
			}
		}
		_, n, err := st.Erase(t.Context(), journal.Query{Merchant: "shop 1"})
		if n != 18 || err == nil || !strings.Contains(err.Error(), "nothing of the day 2026-03-30 was erased") {
			t.Errorf("%d entries were erased, %v; want those of the three other days, and an error", n, err)
		}
	})
}

// TestJ6WhatCameAfterAnErasureStays: an erasure that waits for a hold takes what there was when it was asked for, and
// nothing that came later. If it is asked for again, it takes that, too.
func TestJ6WhatCameAfterAnErasureStays(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		addHold(t, st, journal.Hold{Name: "case 1", Merchant: "shop 1"})
		addHold(t, st, journal.Hold{Name: "case 2", Merchant: "shop 1", To: "2026-03-30"})
		erase := func() {
			t.Helper()
			if _, _, err := st.Erase(t.Context(), journal.Query{Merchant: "shop 1"}); err != nil {
				t.Fatal(err)
			}
		}
		erase()
		later := entry(keys, 0, journal.Answered)
		later.Record.ID, later.Record.Merchant = "00000000-0000-4000-8000-000000000099", "shop 1"
		later.Record.Created = time.Now().UTC().Truncate(time.Millisecond).Add(2 * time.Millisecond)
		write(t, st, later)
		for _, name := range []string{"case 1", "case 2"} {
			if err := st.LiftHold(t.Context(), name, "cli:jo"); err != nil {
				t.Fatal(err)
			}
			if _, err := st.EraseDue(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := countFound(t, st, journal.Query{Merchant: "shop 1"}); n != 1 {
			t.Errorf("%d authentications stay, want the one that came after the erasure", n)
		}

		addHold(t, st, journal.Hold{Name: "case 3", Merchant: "shop 1"})
		erase()
		erase()
		if list, err := st.Holds(t.Context()); err != nil || list.Waiting != 1 {
			t.Errorf("%d erasures wait, %v", list.Waiting, err)
		}
		if err := st.LiftHold(t.Context(), "case 3", "cli:jo"); err != nil {
			t.Fatal(err)
		}
		if _, err := st.EraseDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := countFound(t, st, journal.Query{Merchant: "shop 1"}); n != 0 {
			t.Errorf("%d authentications stay after the second erasure", n)
		}
	})
}

// TestJ6ADamagedDayKeepsNoOtherErasureBack: an erasure that waits cannot be done as a whole. It waits on, and all
// others are done.
func TestJ6ADamagedDayKeepsNoOtherErasureBack(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		addHold(t, st, journal.Hold{Name: "case 1", To: "2026-04-01"})
		for _, shop := range []string{"shop 1", "shop 0"} {
			if _, _, err := st.Erase(t.Context(), journal.Query{Merchant: shop}); err != nil {
				t.Fatal(err)
			}
		}
		if err := st.LiftHold(t.Context(), "case 1", "cli:jo"); err != nil {
			t.Fatal(err)
		}
		for _, db := range journal.Databases(t, st) {
			if _, err := db.ExecContext(t.Context(),
				`UPDATE journal_frames SET body = link WHERE chain LIKE '2026-03-30/%'`); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := st.EraseDue(t.Context()); err == nil {
			t.Error("nothing says that a day cannot be erased")
		}
		if n := countFound(t, st, journal.Query{From: time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC)}); n != 0 {
			t.Errorf("%d authentications of other days stay", n)
		}
	})
}

// TestJ6OfTwoHoldsOfOneNameOneIsSet: several processes set a hold of the same name at the same time.
func TestJ6OfTwoHoldsOfOneNameOneIsSet(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, _ *journal.Keys) {
		errs := make([]error, 8)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				_, errs[i] = st.AddHold(t.Context(), journal.Hold{
					Name: "case 1", Merchant: fmt.Sprintf("shop %d", i), Reason: "a dispute", By: "cli:jo",
				})
			})
		}
		all.Wait()
		errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, journal.ErrHoldExists) })
		if list, err := st.Holds(t.Context()); err != nil || len(list.Data) != 1 || len(errs) != 1 || errs[0] != nil {
			t.Errorf("%d holds were set, %v; the errors are %v", len(list.Data), err, errs)
		}
	})
}
