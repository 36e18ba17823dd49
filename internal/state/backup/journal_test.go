package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

const (
	cardKept   = "4000000000000002"
	cardErased = "4000000000000010"
)

// opener returns the Journal of a place: the one that is open, for a Journal closes what it has opened.
func opener(keys *journal.Keys, open func() (journal.Store, error)) *Journal {
	return &Journal{Keys: keys, Open: func(context.Context) (journal.Store, error) { return open() }}
}

// journals returns an empty journal of each kind, with keys as they are now: what one forgets later the other one keeps.
func journals(t *testing.T, keys *journal.Keys) map[string]*Journal {
	dir, at := t.TempDir(), pgtest.Get(t).Schema(t)
	ofFiles, ofTables := copyKeys(t, keys), copyKeys(t, keys)
	return map[string]*Journal{
		"sqlite":   opener(ofFiles, func() (journal.Store, error) { return journal.OpenFiles(dir, ofFiles) }),
		"postgres": opener(ofTables, func() (journal.Store, error) { return journal.OpenPostgres(t.Context(), at, ofTables) }),
	}
}

// copyKeys returns the same keys, as another node has them.
func copyKeys(t *testing.T, keys *journal.Keys) *journal.Keys {
	path := filepath.Join(t.TempDir(), "journal-keys.json")
	must(t, keys.CreateFile(path))
	copied, err := journal.LoadKeys(path)
	must(t, err)
	return copied
}

// with opens a journal for do.
func (j *Journal) with(t *testing.T, do func(journal.Store)) {
	t.Helper()
	st, err := j.Open(t.Context())
	must(t, err)
	defer st.Close()
	do(st)
}

// entryOf returns the nth entry of a kind: two of each day, of two cards in turn.
func entryOf(keys *journal.Keys, n int, kind journal.Kind) journal.Entry {
	at := time.Date(2026, 3, 30, 12+n%2, 0, 0, 0, time.UTC).AddDate(0, 0, n/2)
	card := []string{cardKept, cardErased}[n%2]
	return journal.Entry{
		Kind: kind, CardHash: keys.CardHash(card), Steps: []journal.Step{{Step: string(kind), At: at, Message: []byte(`{"messageType":"AReq"}`)}},
		Record: journal.Record{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Created: at, Updated: at, API: "emv", Merchant: "Shop 1", Status: "completed",
			Reference: fmt.Sprintf("order %d", n), Card: journal.Card{Scheme: "visa", BIN: card[:8], Last4: card[12:]}, TransStatus: "Y",
		},
	}
}

// fillJournal writes ten authentications over two months, signs their days and erases one card.
func fillJournal(t *testing.T, j *Journal) {
	j.with(t, func(st journal.Store) {
		for n := range 10 {
			_, err := st.Write(t.Context(), []journal.Entry{entryOf(j.Keys, n, journal.Claimed), entryOf(j.Keys, n, journal.Answered)})
			must(t, err)
		}
		must(t, st.Sign(t.Context(), afterFilling))
		if a, _, err := st.Erase(t.Context(), journal.Query{Card: cardErased}); err != nil || a != 5 {
			t.Fatalf("erased %d, %v", a, err)
		}
	})
}

// afterFilling is when all days of fillJournal are over.
var afterFilling = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

func exportOf(t *testing.T, j *Journal) (text string) {
	j.with(t, func(st journal.Store) {
		var b bytes.Buffer
		must(t, st.Sign(t.Context(), afterFilling))
		_, err := journal.WriteJSONLines(t.Context(), &b, st, j.Keys, journal.Query{At: afterFilling})
		must(t, err)
		text = b.String()
	})
	return text
}

// wantRecords checks how many records of a card a journal has.
func wantRecords(t *testing.T, name string, j *Journal, card string, want int) {
	t.Helper()
	j.with(t, func(st journal.Store) {
		if page, err := st.Search(t.Context(), journal.Query{Card: card}); err != nil || len(page.Records) != want {
			t.Errorf("%s: %d records of a card, %v; want %d", name, len(page.Records), err, want)
		}
	})
}

// TestD109BackupOfTheJournalIntoTheOtherKind: what a backup takes over has the same export, byte for byte, with
// signatures and with what was erased. Search finds it, an erasure reaches it, and a second restore does not bring
// erased records back.
func TestD109BackupOfTheJournalIntoTheOtherKind(t *testing.T) {
	t.Parallel()
	keys := journal.NewKeys()
	for kind, from := range journals(t, keys) {
		fillJournal(t, from)
		var file strings.Builder
		counts, err := Write(t.Context(), &file, openDir(t), from, at)
		must(t, err)
		if counts[EntryRows] != 20 {
			t.Errorf("%s: backed up %v", kind, counts)
		}
		for _, secret := range []string{cardKept, "order 2", "Shop 1\",\"status"} {
			if strings.Contains(file.String(), secret) {
				t.Errorf("%s: the backup shows %q", kind, secret)
			}
		}
		want := exportOf(t, from)
		for other, to := range journals(t, from.Keys) {
			name := kind + " into " + other
			st := openDir(t)
			restore := func(want int) {
				t.Helper()
				report, err := Restore(t.Context(), st, strings.NewReader(file.String()), true, to)
				if err != nil || report.Added[EntryRows] != want {
					t.Fatalf("%s: restored %v, %v; want %d entries", name, report.Added, err, want)
				}
			}
			restore(10)
			text := exportOf(t, to)
			if text != want {
				t.Errorf("%s: the export is another one", name)
			}
			got, err := journal.Verify(strings.NewReader(text), keys.PublicKey())
			if want := (journal.Verified{Records: 10, Erased: 10, Days: 5}); err != nil || got != want {
				t.Errorf("%s: verified %+v, %v", name, got, err)
			}
			wantRecords(t, name, to, cardKept, 5)
			restore(0)
			to.with(t, func(st journal.Store) {
				if a, r, err := st.Erase(t.Context(), journal.Query{Card: cardKept}); err != nil || a != 5 || r != 10 {
					t.Errorf("%s: erased %d authentications, %d records, %v", name, a, r, err)
				}
			})
			restore(0)
			wantRecords(t, name, to, cardKept, 0)
		}
	}
}

// billingOf returns the counters for billing of a journal.
func billingOf(t *testing.T, j *Journal) (all []journal.BillingCount) {
	t.Helper()
	j.with(t, func(st journal.Store) {
		var err error
		all, err = st.Billing(t.Context(), journal.BillingQuery{From: time.Unix(0, 0), To: at.AddDate(10, 0, 0)})
		must(t, err)
	})
	return all
}

// TestK5BillingOfABackup: an empty journal gets the counters of the backup, with those of records that were erased or
// are no longer kept. A second restore adds nothing to them, and a journal that is not empty keeps its own counters.
func TestK5BillingOfABackup(t *testing.T) {
	t.Parallel()
	keys, empty := journal.NewKeys(), openDir(t)
	for kind, from := range journals(t, keys) {
		fillJournal(t, from)
		from.with(t, func(st journal.Store) {
			must(t, st.Expire(t.Context(), time.Date(2026, 4, 2, 0, 0, 0, 0, time.UTC)))
		})
		want := billingOf(t, from)
		total := int64(0)
		for _, c := range want {
			total += c.Count
		}
		if len(want) != 2 || total != 10 {
			t.Fatalf("%s: counters %+v of %d authentications", kind, want, total)
		}
		var file strings.Builder
		_, err := Write(t.Context(), &file, empty, from, at)
		must(t, err)
		for other, to := range journals(t, from.Keys) {
			for range 2 {
				_, err := Restore(t.Context(), empty, strings.NewReader(file.String()), false, to)
				must(t, err)
				if got := billingOf(t, to); !slices.Equal(got, want) {
					t.Errorf("%s into %s: counters %+v, want %+v", kind, other, got, want)
				}
			}
			to.with(t, func(st journal.Store) {
				late := entryOf(keys, 1, journal.Answered) // This entry is of a month that is closed.
				late.Record.ID = "00000000-0000-4000-8000-000000000099"
				_, err := st.Write(t.Context(), []journal.Entry{late})
				must(t, err)
			})
			if got := billingOf(t, to); !slices.Equal(got, want) {
				t.Errorf("%s into %s, after a late record: counters %+v, want %+v", kind, other, got, want)
			}
			to.with(t, func(st journal.Store) {
				must(t, st.Expire(t.Context(), time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)))
			})
			if got := billingOf(t, to); !slices.Equal(got, want) {
				t.Errorf("%s into %s, after the records went: counters %+v, want %+v", kind, other, got, want)
			}
		}
		for other, to := range journals(t, from.Keys) {
			to.with(t, func(st journal.Store) {
				_, err := st.Write(t.Context(), []journal.Entry{entryOf(keys, 12, journal.Answered)})
				must(t, err)
			})
			_, err := Restore(t.Context(), empty, strings.NewReader(file.String()), false, to)
			must(t, err)
			present := int64(0)
			to.with(t, func(st journal.Store) {
				page, err := st.Search(t.Context(), journal.Query{Limit: 100})
				must(t, err)
				present = int64(len(page.Records))
			})
			total := int64(0)
			for _, c := range billingOf(t, to) {
				total += c.Count
			}
			if total != present || present < 2 {
				t.Errorf("%s beside %s: %d counted, %d records", kind, other, total, present)
			}
		}
	}
}

// TestD109JournalOfABackupBesideAnother: if the journal already has entries, those of the backup get chains of their
// own, and all chains can be verified.
func TestD109JournalOfABackupBesideAnother(t *testing.T) {
	t.Parallel()
	keys := journal.NewKeys()
	from := journals(t, keys)["sqlite"]
	fillJournal(t, from)
	var file strings.Builder
	_, err := Write(t.Context(), &file, openDir(t), from, at)
	must(t, err)
	for kind, to := range journals(t, from.Keys) {
		to.with(t, func(st journal.Store) {
			_, err := st.Write(t.Context(), []journal.Entry{entryOf(keys, 2, journal.Claimed), entryOf(keys, 12, journal.Answered)})
			must(t, err)
		})
		report, err := Restore(t.Context(), openDir(t), strings.NewReader(file.String()), false, to)
		if err != nil || report.Added[EntryRows] != 9 {
			t.Errorf("%s: restored %v, %v", kind, report.Added, err)
		}
		wantRecords(t, kind, to, cardKept, 6)
		if got, err := journal.Verify(strings.NewReader(exportOf(t, to)), keys.PublicKey()); err != nil || got.Records != 11 {
			t.Errorf("%s: verified %+v, %v", kind, got, err)
		}
	}
}

// TestD109JournalOfABackupIsRefused: without a journal, or under other keys, nothing is restored. What is wrong in the
// journal itself is reported after the rest was restored.
func TestD109JournalOfABackupIsRefused(t *testing.T) {
	t.Parallel()
	keys := journal.NewKeys()
	from := journals(t, keys)["sqlite"]
	fillJournal(t, from)
	source := openDir(t)
	fill(t, source)
	var file strings.Builder
	_, err := Write(t.Context(), &file, source, from, at)
	must(t, err)
	st := openDir(t)
	for want, j := range map[string]*Journal{"the configuration has none": nil, "journal-keys.json has other keys": journals(t, journal.NewKeys())["sqlite"]} {
		before := backUp(t, st)
		if _, err := Restore(t.Context(), st, strings.NewReader(file.String()), true, j); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
		if backUp(t, st) != before {
			t.Errorf("want %q: the store has changed", want)
		}
	}
	lines := strings.SplitAfter(file.String(), "\n")
	for i, line := range slices.Backward(lines) { // the last frame of its chain
		if strings.HasPrefix(line, `{"type":"journalFrame"`) {
			lines = append(lines[:i:i], lines[i+1:]...)
			break
		}
	}
	to := journals(t, from.Keys)["sqlite"]
	report, err := Restore(t.Context(), st, strings.NewReader(resum(strings.Join(lines, ""))), true, to)
	if _, ok := errors.AsType[*JournalError](err); !ok || !strings.Contains(err.Error(), "has 2 entries, not 4") ||
		report.Added["key"] != 2 {
		t.Errorf("a frame is missing: %v, %v", report.Added, err)
	}
	checkFilled(t, st)
}
