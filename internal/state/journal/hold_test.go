package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// heldCard is the card of one authentication of each day of fillForArchive, at shop 1.
const heldCard = "4000000000000010"

// addHold sets a legal hold.
func addHold(t *testing.T, st journal.Store, h journal.Hold) {
	t.Helper()
	h.Reason, h.By = "a dispute", "cli:jo"
	if _, err := st.AddHold(t.Context(), h); err != nil {
		t.Fatal(err)
	}
}

// countFound counts the authentications that a search finds.
func countFound(t *testing.T, st journal.Store, q journal.Query) int {
	t.Helper()
	q.Limit = 1000
	page, err := st.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Records)
}

// TestJ6AnErasureLeavesOutWhatAHoldHolds: by card, by merchant, by days and by all of these. The erasure says how many
// stay, and for which hold. When the hold is lifted, what was left out goes without being asked for again, unless
// another hold holds it. The journal verifies all the time.
func TestJ6AnErasureLeavesOutWhatAHoldHolds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		hold journal.Hold
		held int // of the 12 authentications of shop 1
	}{
		{"a card", journal.Hold{Card: heldCard}, 4},
		{"the merchant", journal.Hold{Merchant: "shop 1"}, 12},
		{"another merchant", journal.Hold{Merchant: "shop 0"}, 0},
		{"days", journal.Hold{From: "2026-03-31", To: "2026-04-01"}, 6},
		{"a card at a merchant on a day", journal.Hold{Card: heldCard, Merchant: "shop 1", To: "2026-03-30"}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
				fillForArchive(t, st, keys)
				test.hold.Name = "case 1"
				addHold(t, st, test.hold)
				if _, err := st.AddHold(t.Context(), test.hold); !errors.Is(err, journal.ErrHoldExists) {
					t.Errorf("a second hold of the name: %v", err)
				}
				q := journal.Query{Merchant: "shop 1", By: "cli:kim"}
				held, err := st.CountHeld(t.Context(), q)
				want := []journal.HeldBack{{Hold: "case 1", Authentications: test.held}}
				if test.held == 0 {
					want = nil
				}
				if err != nil || !slices.Equal(held, want) {
					t.Errorf("would stay: %+v, %v, want %+v", held, err, want)
				}
				for range 2 { // the second time nothing is remembered twice
					if _, _, err := st.Erase(t.Context(), q); err != nil {
						t.Fatal(err)
					}
				}
				if n := countFound(t, st, q); n != test.held {
					t.Errorf("%d authentications of the merchant stay, want %d", n, test.held)
				}
				if n := countFound(t, st, journal.Query{Merchant: "shop 0"}); n != 11 {
					t.Errorf("%d authentications of the other merchant stay, want 11", n)
				}
				checkWhole(t, st, keys, archiveNow.AddDate(0, 0, 1), 22+2*test.held, 0)

				addHold(t, st, journal.Hold{Name: "case 2", Merchant: "shop 1", To: "2026-03-30"})
				if done, err := st.EraseDue(t.Context()); err != nil || done.Authentications != 0 {
					t.Errorf("%+v went while the hold stands, %v", done, err)
				}
				if err := st.LiftHold(t.Context(), "case 1", "cli:jo"); err != nil {
					t.Fatal(err)
				}
				if err := st.LiftHold(t.Context(), "case 1", "cli:jo"); !errors.Is(err, journal.ErrNoHold) {
					t.Errorf("a hold that was lifted: %v", err)
				}
				if _, err := st.EraseDue(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n := countFound(t, st, journal.Query{Merchant: "shop 1", From: day.Add(12 * time.Hour)}); n != 0 {
					t.Errorf("%d authentications stay that no hold holds", n)
				}
				if err := st.LiftHold(t.Context(), "case 2", "cli:jo"); err != nil {
					t.Fatal(err)
				}
				if _, err := st.EraseDue(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n := countFound(t, st, q); n != 0 {
					t.Errorf("%d authentications stay after both were lifted", n)
				}
				if list, err := st.Holds(t.Context()); err != nil || len(list.Data) > 0 || list.Waiting > 0 {
					t.Errorf("after all was lifted: %+v, %v", list, err)
				}
				checkWhole(t, st, keys, archiveNow.AddDate(0, 0, 2), 22, 0)
			})
		})
	}
}

// TestD126RetentionKeepsDaysThatAHoldHolds: a day with something held stays whole, with its messages and personal data.
// The days before and behind it go. Searches, exports and billing have what stays. A day that has gone does not come
// back for a later hold. After the hold is lifted, the next sweep takes the day.
func TestD126RetentionKeepsDaysThatAHoldHolds(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		personal := entry(keys, 30, journal.Answered) // on 31 March
		personal.Record.ID, personal.Record.Merchant = "00000000-0000-4000-8000-000000000099", "shop 0"
		personal.Steps[0].Personal = []byte(`{"email":"jo@shop.example"}`)
		write(t, st, personal)
		sign := archiveNow.AddDate(0, 0, 1)
		if err := st.Sign(t.Context(), sign); err != nil {
			t.Fatal(err)
		}
		billed, err := st.Billing(t.Context(), allMonths)
		if err != nil {
			t.Fatal(err)
		}
		addHold(t, st, journal.Hold{Name: "case 1", Card: heldCard, From: "2026-03-31", To: "2026-03-31"})
		sweep := func(before time.Time) {
			t.Helper()
			for range 2 { // the second sweep has nothing to do
				for _, expire := range []func() error{
					func() error { return st.Expire(t.Context(), before) },
					func() error { return st.ExpireMessages(t.Context(), before) },
					func() error { return st.ExpirePersonal(t.Context(), before) },
				} {
					if err := expire(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		days := func() string {
			t.Helper()
			var all []string
			if err := st.Export(t.Context(), journal.Query{}, func(e journal.ExportedEntry) error {
				if day := e.Chain[:10]; !slices.Contains(all, day) {
					all = append(all, day)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			slices.Sort(all)
			return strings.Join(all, " ")
		}
		april2 := time.Date(2026, 4, 2, 7, 0, 0, 0, time.UTC)
		sweep(april2)
		if got := days(); got != "2026-03-31 2026-04-02" {
			t.Errorf("there are %s", got)
		}
		if n := countFound(t, st, journal.Query{}); n != 13 {
			t.Errorf("%d authentications are found, want 7 of the day that is held and 6 of the last one", n)
		}
		kept, err := st.Show(t.Context(), personal.Record.ID)
		if err != nil || len(kept.Steps) != 1 || kept.Steps[0].Message == nil || kept.Steps[0].Personal == nil {
			t.Errorf("of the day that is held: %+v, %v", kept, err)
		}
		if now, err := st.Billing(t.Context(), allMonths); err != nil || fmt.Sprint(now) != fmt.Sprint(billed) {
			t.Errorf("billed:\n%v, %v, was\n%v", now, err, billed)
		}
		if list, err := st.Holds(t.Context()); err != nil || list.Days != 1 || len(list.Data) != 1 || !list.Data[0].HasCard {
			t.Errorf("the list has %+v, %v", list, err)
		}
		var b bytes.Buffer
		if _, err := journal.WriteJSONLines(t.Context(), &b, st, keys, journal.Query{At: sign}); err != nil {
			t.Error(err)
		}
		if strings.Contains(b.String(), "a dispute") || strings.Contains(b.String(), "case 1") {
			t.Error("an export says what the hold is about")
		}
		got, err := journal.Verify(&b, keys.PublicKey())
		if err != nil || got.Held != 1 || got.Holds != 1 || got.Records != 25 {
			t.Errorf("verified %+v, %v", got, err)
		}

		addHold(t, st, journal.Hold{Name: "case 2", Merchant: "shop 0", To: "2026-04-01"})
		sweep(april2)
		if got := days(); got != "2026-03-31 2026-04-02" {
			t.Errorf("after a hold on days that have gone there are %s", got)
		}
		if err := st.LiftHold(t.Context(), "case 2", "cli:jo"); err != nil {
			t.Fatal(err)
		}
		if err := st.LiftHold(t.Context(), "case 1", "cli:jo"); err != nil {
			t.Fatal(err)
		}
		sweep(april2)
		if got := days(); got != "2026-04-02" {
			t.Errorf("after the holds were lifted there are %s", got)
		}
		if now, err := st.Billing(t.Context(), allMonths); err != nil || fmt.Sprint(now) != fmt.Sprint(billed) {
			t.Errorf("billed after all:\n%v, %v, was\n%v", now, err, billed)
		}
		if _, err := st.Show(t.Context(), personal.Record.ID); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("the day that was held: %v", err)
		}
		checkWhole(t, st, keys, sign, 12, 0)
	})
}

// TestD126MessagesOfHeldDaysStay: the messages of a day with something held stay while its records are kept anyway. All
// others go.
func TestD126MessagesOfHeldDaysStay(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		addHold(t, st, journal.Hold{Name: "case 1", Card: heldCard, From: "2026-03-31", To: "2026-03-31"})
		messages := func() string {
			t.Helper()
			days := map[string]bool{}
			if err := st.Export(t.Context(), journal.Query{}, func(e journal.ExportedEntry) error {
				if e.Messages != nil {
					days[e.Chain[:10]] = true
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(days)
		}
		for _, want := range []string{"map[2026-03-31:true]", "map[]"} {
			if err := st.ExpireMessages(t.Context(), archiveNow); err != nil {
				t.Fatal(err)
			}
			if got := messages(); got != want {
				t.Errorf("there are messages of %s, want %s", got, want)
			}
			_ = st.LiftHold(t.Context(), "case 1", "cli:jo") // the second time there is none
		}
	})
}

// TestA2NothingGoesWhileHoldsAreNotKnown: somebody without the keys deletes or changes a hold in the database. A process
// that has read it goes on to heed it. One that starts later finds that out: nothing is erased, and no sweep takes
// anything.
func TestA2NothingGoesWhileHoldsAreNotKnown(t *testing.T) {
	t.Parallel()
	for name, trick := range map[string]string{
		"deleted": `DELETE FROM journal_seals WHERE text LIKE '%kind hold%'`,
		"changed": `UPDATE journal_seals SET text = replace(text, 'hold ', 'hold A') WHERE text LIKE '%kind hold%'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
				fillForArchive(t, st, keys)
				addHold(t, st, journal.Hold{Name: "case 1", Merchant: "shop 1"})
				if _, err := st.Head(t.Context(), archiveNow.Add(time.Hour), nil); err != nil {
					t.Fatal(err)
				}
				for _, db := range journal.AllDatabases(t, st) {
					if _, err := db.ExecContext(t.Context(), trick); err != nil {
						t.Fatal(err)
					}
				}
				before := countFound(t, st, journal.Query{})
				if _, _, err := st.Erase(t.Context(), journal.Query{Merchant: "shop 1"}); err != nil {
					t.Fatal(err)
				}
				if n := countFound(t, st, journal.Query{}); n != before {
					t.Errorf("%d of %d authentications are left by a process that knows the hold", n, before)
				}
				journal.ForgetSeals(t, st)
				if _, _, err := st.Erase(t.Context(), journal.Query{Merchant: "shop 1"}); err == nil ||
					!strings.Contains(err.Error(), "legal holds are not known, and nothing was erased") {
					t.Errorf("an erasure: %v", err)
				}
				for _, expire := range []error{
					st.Expire(t.Context(), archiveNow), st.ExpireMessages(t.Context(), archiveNow), st.ExpirePersonal(t.Context(), archiveNow),
				} {
					if expire != nil {
						t.Errorf("a sweep: %v", expire)
					}
				}
				rows := 0 // what is over its time is not shown, and nothing of it has gone
				for _, db := range journal.AllDatabases(t, st) {
					var n int
					if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM journal_records`).Scan(&n); err != nil {
						t.Fatal(err)
					}
					rows += n
				}
				if rows != before || len(st.Faults()) == 0 {
					t.Errorf("%d of %d authentications are left, and the journal says %q", rows, before, st.Faults())
				}
			})
		})
	}
}

// TestJ7FilesOfArchivedDaysThatAHoldHolds: an erasure in a folder leaves out what is held, and says so. When the journal
// does not keep a day any more, a check of the folder names its file while something in it is held.
func TestJ7FilesOfArchivedDaysThatAHoldHolds(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		dir := t.TempDir()
		archive(t, st, keys, dir)
		addHold(t, st, journal.Hold{Name: "case 1", Card: heldCard, To: "2026-03-31"})
		folder := &journal.Folder{Dir: dir, Keys: keys}
		done, err := folder.Erase(t.Context(), st, journal.Query{Merchant: "shop 1"})
		want := []journal.HeldBack{{Hold: "case 1", Authentications: 2}}
		if err != nil || !slices.Equal(done.Held, want) || done.Entries != 14 || len(done.Faults) > 0 {
			t.Errorf("erased %+v, %v; want 14 entries, and %+v held", done, err, want)
		}
		if page, err := folder.Search(t.Context(), st, journal.Query{Card: heldCard}); err != nil || len(page.Records) != 2 {
			t.Errorf("%d records of the card are found, %v", len(page.Records), err)
		}
		if err := st.Expire(t.Context(), archiveNow); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"[2026-03-30.jsonl 2026-03-31.jsonl]", "[]"} {
			if got, err := folder.Verify(t.Context(), st); err != nil || got.Old != 3 || fmt.Sprint(got.Held) != want {
				t.Errorf("verified %+v, %v; want %s to stay", got, err, want)
			}
			_ = st.LiftHold(t.Context(), "case 1", "cli:jo") // the second time there is none
		}
		if _, err := os.Stat(filepath.Join(dir, "2026-03-30.jsonl")); err != nil {
			t.Error(err)
		}
	})
}

// TestJ6AHoldThatDoesNotOpenHoldsEverything: its key is gone from the file of keys.
func TestJ6AHoldThatDoesNotOpenHoldsEverything(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, _ journal.Store, keys *journal.Keys) {
		dir := t.TempDir()
		first, err := journal.OpenFiles(dir, keys)
		if err != nil {
			t.Fatal(err)
		}
		write(t, first, entry(keys, 0, journal.Answered))
		addHold(t, first, journal.Hold{Name: "case 1", Merchant: "another shop"})
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		st, err := journal.OpenFiles(dir, journal.WithOtherWrapping(keys))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		held, err := st.CountHeld(t.Context(), journal.Query{Merchant: "shop 0"})
		if err != nil || len(held) != 1 || held[0].Authentications != 1 {
			t.Errorf("held: %+v, %v", held, err)
		}
		list, err := st.Holds(t.Context())
		if err != nil || len(list.Data) != 1 || !list.Data[0].IsUnreadable {
			t.Fatalf("the list has %+v, %v", list, err)
		}
		if err := st.LiftHold(t.Context(), list.Data[0].Name, "cli:jo"); err != nil {
			t.Error(err)
		}
	})
}

// A lineWaiter sends on found when a line with a text is written to it.
type lineWaiter struct {
	text  string
	found chan string
}

func (w *lineWaiter) Write(line []byte) (int, error) {
	if strings.Contains(string(line), w.text) {
		w.found <- string(line)
	}
	return len(line), nil
}

// TestD126TheLogSaysWhatHoldsKeep: the duties of each minute say how many days stay for a hold, and what they have
// erased since one was lifted.
func TestD126TheLogSaysWhatHoldsKeep(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		addHold(t, st, journal.Hold{Name: "case 1", Card: heldCard, To: "2026-03-31"})
		if _, _, err := st.Erase(t.Context(), journal.Query{Card: heldCard}); err != nil {
			t.Fatal(err)
		}
		duties := func(keep time.Duration, text string) string {
			t.Helper()
			log := &lineWaiter{text, make(chan string, 10)}
			j := journal.New(st, keys, slog.New(slog.NewTextHandler(log, nil)), func() time.Time { return archiveNow })
			j.KeepFor(keep, keep)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { j.RunDuties(ctx); close(done) }()
			line := <-log.found
			cancel()
			<-done
			return line
		}
		if line := duties(aDay, "kept by a legal hold"); !strings.Contains(line, "days=2 holds=1") {
			t.Errorf("the log says %s", line)
		}
		if err := st.LiftHold(t.Context(), "case 1", "cli:jo"); err != nil {
			t.Fatal(err)
		}
		if line := duties(365*aDay, "what a legal hold had kept"); !strings.Contains(line, "authentications=2") {
			t.Errorf("after the lift the log says %s", line)
		}
	})
}
