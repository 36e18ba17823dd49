package journal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// keysWith returns keys of their own, which have more keys of card hashes behind the first one, and
// all keys of card hashes.
func keysWith(t *testing.T, more ...string) (*journal.Keys, []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal-keys.json")
	if _, err := journal.LoadOrCreateKeys(path, ""); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]json.RawMessage
	var hash []string
	if err := errors.Join(json.Unmarshal(text, &file), json.Unmarshal(file["hash"], &hash)); err != nil {
		t.Fatal(err)
	}
	hash = append(hash, more...)
	if file["hash"], err = json.Marshal(hash); err == nil {
		text, err = json.Marshal(file)
	}
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	keys, err := journal.LoadKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	return keys, hash
}

// aTrail is an audit trail of one entry.
type aTrail struct{ keys *journal.Keys }

func (a aTrail) Export(_ context.Context, _ journal.Query, line func(journal.ExportedEntry) error) error {
	content := []byte("{}")
	digest := journal.DigestOf(nil, content)
	link := journal.NextLink(nil, digest)
	return line(journal.ExportedEntry{
		Chain: journal.AuditChain, Seq: 1, Digest: digest, Link: link, MAC: a.keys.LinkMAC(journal.AuditChain, 1, link), Content: content,
	})
}

// openBoth opens a journal of either kind for keys.
func openBoth(t *testing.T, keys *journal.Keys) map[string]journal.Store {
	t.Helper()
	files, err := journal.OpenFiles(t.TempDir(), keys)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := journal.OpenPostgres(t.Context(), pgtest.Get(t).Schema(t), keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = files.Close(), tables.Close() })
	return map[string]journal.Store{"sqlite": files, "postgres": tables}
}

// fillForExport writes 30 authentications of two cards over two months, each with a moment that names no card.
func fillForExport(t *testing.T, st journal.Store, keys *journal.Keys) {
	t.Helper()
	for n := range 30 {
		claimed, answered := entry(keys, n*3, journal.Claimed), entry(keys, n*3, journal.Answered)
		if n%3 == 0 {
			claimed.CardHash, answered.CardHash = keys.CardHash("4000000000000010"), keys.CardHash("4000000000000010")
		}
		moment := entry(keys, n*3, journal.Collected)
		moment.CardHash, moment.Record.Card = nil, journal.Card{}
		write(t, st, claimed, answered, moment)
	}
}

func importOf(t *testing.T, st journal.Store, keys *journal.Keys, text string, from *journal.Keys) (journal.Imported, error) {
	t.Helper()
	return journal.Import(t.Context(), st, keys, strings.NewReader(text), from.PublicKey())
}

// TestD124ImportTakesAnExportIntoAnotherStore: from either kind of store into either. Search and show say the same
// there, the export of the other store verifies, and a second import changes nothing.
func TestD124ImportTakesAnExportIntoAnotherStore(t *testing.T) {
	t.Parallel()
	old, hashKeys := keysWith(t, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	ours, _ := keysWith(t, hashKeys...)
	for kind, from := range openBoth(t, old) {
		fillForExport(t, from, old)
		if err := from.Sign(t.Context(), day.AddDate(1, 0, 0)); err != nil {
			t.Fatal(err)
		}
		text := export(t, from, old, journal.Query{})
		for other, to := range openBoth(t, ours) {
			name := kind + " into " + other
			if got, err := importOf(t, to, ours, text, old); err != nil || got != (journal.Imported{Added: 90}) {
				t.Fatalf("%s: %+v, %v", name, got, err)
			}
			for _, q := range []journal.Query{{Limit: 99}, {Card: testCard, Limit: 99}, {Card: "4000000000000010"}, {Merchant: "shop 1"}, {Reference: "order 9"}} {
				want, err := from.Search(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				got, err := to.Search(t.Context(), q)
				if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s: %+v finds %d records, %v; want %d", name, q, len(got.Records), err, len(want.Records))
				}
			}
			want, err := from.Show(t.Context(), "00000000-0000-4000-8000-000000000009")
			if err != nil {
				t.Fatal(err)
			}
			if got, err := to.Show(t.Context(), want.ID); err != nil || fmt.Sprint(got) != fmt.Sprint(want) || len(got.Steps) != 3 || len(got.Steps[0].Message) == 0 {
				t.Errorf("%s: shows %+v, %v", name, got, err)
			}
			if got, err := importOf(t, to, ours, text, old); err != nil || got != (journal.Imported{Present: 90}) {
				t.Errorf("%s, again: %+v, %v", name, got, err)
			}
			if got, err := journal.Verify(strings.NewReader(export(t, to, ours, journal.Query{})), ours.PublicKey()); err != nil || got.Records != 90 {
				t.Errorf("%s: the export is verified as %+v, %v", name, got, err)
			}
		}
	}
}

// TestD124EraseReachesWhatWasImported: a card that is erased after an import is gone, also under the key that only the
// exporting journal used; what is imported again does not bring it back.
func TestD124EraseReachesWhatWasImported(t *testing.T) {
	t.Parallel()
	old, hashKeys := keysWith(t)
	from, err := journal.OpenFiles(t.TempDir(), old)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = from.Close() })
	fillForExport(t, from, old)
	text := export(t, from, old, journal.Query{})
	for _, kind := range []string{"sqlite", "postgres"} {
		ours, _ := keysWith(t, hashKeys...) // each journal has its own, for an erasure forgets keys of both
		st := openBoth(t, ours)[kind]
		if _, err := importOf(t, st, ours, text, old); err != nil {
			t.Fatal(err)
		}
		if a, r, err := st.Erase(t.Context(), journal.Query{Card: "4000000000000010"}); err != nil || a != 10 || r != 30 {
			t.Errorf("%s: erased %d authentications, %d records, %v", kind, a, r, err)
		}
		if got, err := importOf(t, st, ours, text, old); err != nil || got != (journal.Imported{Present: 90}) {
			t.Errorf("%s: imported again: %+v, %v", kind, got, err)
		}
		if page, err := st.Search(t.Context(), journal.Query{Card: "4000000000000010"}); err != nil || len(page.Records) != 0 {
			t.Errorf("%s: found after the erasure: %d records, %v", kind, len(page.Records), err)
		}
		if page, err := st.Search(t.Context(), journal.Query{Card: testCard}); err != nil || len(page.Records) != 20 {
			t.Errorf("%s: of the other card there are %d records, %v", kind, len(page.Records), err)
		}
		got, err := journal.Verify(strings.NewReader(export(t, st, ours, journal.Query{})), ours.PublicKey())
		if want := (journal.Verified{Records: 60, Erased: 30, Days: 5}); err != nil || got != want {
			t.Errorf("%s: verified %+v, %v", kind, got, err)
		}
	}
}

// TestD124ImportRefusesWhatItCannotVouchFor: a damaged export, one whose cards could not be found, one of another
// journal and one of the audit trail are refused with their line, and nothing of them is imported.
func TestD124ImportRefusesWhatItCannotVouchFor(t *testing.T) {
	t.Parallel()
	old, hashKeys := keysWith(t)
	from, err := journal.OpenFiles(t.TempDir(), old)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = from.Close() })
	fillForExport(t, from, old)
	text := export(t, from, old, journal.Query{At: day}) // no day is over, so that there are no seals
	lines := strings.SplitAfter(text, "\n")
	changed := bytes.Replace([]byte(text), []byte("order 3"), []byte("order 4"), 1)
	var trail bytes.Buffer
	if _, err := journal.WriteJSONLines(t.Context(), &trail, aTrail{old}, old, journal.Query{}); err != nil {
		t.Fatal(err)
	}
	good, _ := keysWith(t, hashKeys...)
	strange, _ := keysWith(t, "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=")
	for _, test := range []struct {
		name, text string
		keys       *journal.Keys
		line       int
		what       string
	}{
		{"a changed record", string(changed), good, 5, "the digest does not fit"},
		{"a missing line", strings.Join(append(lines[:3:3], lines[4:]...), ""), good, 4, "entries are missing"},
		{"a cut file", text[:len(text)/2], good, strings.Count(text[:len(text)/2], "\n") + 1, "not a line of an export"},
		{"no last line", strings.Join(lines[:len(lines)-2], ""), good, len(lines) - 1, "the file was cut"},
		{"another card", strings.Replace(text, `"card":"`, `"card":"00`, 1), good, 2, "card is not a hash"},
		{"a hash under a key that is not here", text, strange, 2, `add the key to the list "hash"`},
		{"an export of the audit trail", trail.String(), good, 2, "audit trail"},
	} {
		st, err := journal.OpenFiles(t.TempDir(), test.keys)
		if err != nil {
			t.Fatal(err)
		}
		got, err := importOf(t, st, test.keys, test.text, old)
		wrong, ok := errors.AsType[*journal.LineError](err)
		if !ok || wrong.Line != test.line || !strings.Contains(wrong.What, test.what) {
			t.Errorf("%s: %v; want line %d with %q", test.name, err, test.line, test.what)
		}
		if page, err := st.Search(t.Context(), journal.Query{}); err != nil || len(page.Records) != 0 || got != (journal.Imported{}) {
			t.Errorf("%s: imported %+v, %v", test.name, got, err)
		}
		_ = st.Close()
	}
	if _, err := journal.Import(t.Context(), nil, good, strings.NewReader(text), good.PublicKey()); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("by the keys of another journal: %v", err)
	}
}

// TestD124ImportReadsAllBeforeItWrites: of an export that is damaged at its end nothing is imported, though it has more
// entries than are written at once.
func TestD124ImportReadsAllBeforeItWrites(t *testing.T) {
	t.Parallel()
	keys := journal.NewKeys()
	from, err := journal.OpenFiles(t.TempDir(), keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = from.Close() })
	g := journal.Generation{Authentications: 1200, Days: 2, Merchants: 2, Seed: 3}
	if err := journal.Generate(t.Context(), from, keys, g, day, func(int) {}); err != nil {
		t.Fatal(err)
	}
	text := export(t, from, keys, journal.Query{})
	to, err := journal.OpenFiles(t.TempDir(), keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	if got, err := importOf(t, to, keys, strings.TrimSuffix(text, "\n")+" \n", keys); err == nil || got != (journal.Imported{}) {
		t.Errorf("a changed last line: %+v, %v", got, err)
	}
	if page, err := to.Search(t.Context(), journal.Query{}); err != nil || len(page.Records) != 0 {
		t.Errorf("%d records, %v", len(page.Records), err)
	}
	if got, err := importOf(t, to, keys, text, keys); err != nil || got.Added != 1200 {
		t.Errorf("the export as it was: %+v, %v", got, err)
	}
}
