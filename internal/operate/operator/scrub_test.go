package operator_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
)

// TestA4TheTrailHasNoCardNumber: whatever an entry says, Record writes it without.
func TestA4TheTrailHasNoCardNumber(t *testing.T) {
	t.Parallel()
	s, db, _ := newService(t)
	const card = "4111-1111 1111.1111"
	if err := s.Record(t.Context(), operator.Entry{
		Who: "oidc:" + card, From: card, Action: "key.create", Object: card,
		Before: map[string]any{card: 1}, After: map[string]any{"label": "of " + card, "number": json.Number("4111111111111111"), "hash": strings.Repeat("c0ffee4111111111111111ab", 3)[:64]},
	}); err != nil {
		t.Fatal(err)
	}
	rows, err := db.AuditEntries(t.Context(), store.AuditQuery{Limit: 1})
	if err != nil || len(rows) != 1 || bytes.Contains(rows[0].Data, []byte("1111.1111")) || bytes.Contains(rows[0].Data, []byte(`"number":4`)) ||
		bytes.Count(rows[0].Data, []byte("***")) != 6 || !bytes.Contains(rows[0].Data, []byte("c0ffee4111111111111111ab")) {
		t.Errorf("%s, %v", rows[0].Data, err)
	}
}

// TestA4ScrubMasksOlderEntries: the numbers are gone from every file, exports verify and say how many entries are masked,
// and an entry that was masked without a trace is noticed.
func TestA4ScrubMasksOlderEntries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := &operator.Service{Store: db, Now: func() time.Time { return time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC) }}
	keys := journal.NewKeys()
	record(t, s, 2)
	const card = "4111 1111 1111 1111"
	for range 3 { // as an earlier release has written them
		if err := s.RecordUnmasked(t.Context(), operator.Entry{Who: "token:ci", Action: "merchant.change", Object: "Shop " + card}); err != nil {
			t.Fatal(err)
		}
	}
	record(t, s, 1)
	if err := s.SignDay(t.Context(), keys, "node:a", time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	if n, err := s.CountCards(t.Context()); n != 3 || err != nil {
		t.Errorf("%d entries have a card number, %v; want 3", n, err)
	}
	if n, err := s.MaskCards(t.Context(), db, operator.Entry{Who: "cli:jo@host"}); n != 3 || err != nil {
		t.Fatalf("%d entries are masked, %v; want 3", n, err)
	}
	if n, err := s.CountCards(t.Context()); n != 0 || err != nil {
		t.Errorf("%d entries are left, %v", n, err)
	}
	record(t, s, 1)
	text, err := export(t, s, keys, operator.Query{})
	if err != nil || strings.Contains(text, "1111 1111") || !strings.Contains(text, "Shop ***") {
		t.Errorf("the export: %v\n%s", err, text)
	}
	wantVerified(t, text, keys.PublicKey(), journal.Verified{Records: 6, Erased: 3, Days: 1})
	found, err := s.Search(t.Context(), operator.Query{Action: "audit.scrub", Limit: 9})
	if err != nil || len(found) != 1 || found[0].Who != "cli:jo@host" {
		t.Errorf("%+v, %v", found, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && bytes.Contains(data, []byte("1111 1111")) {
			t.Errorf("%s holds the number", file)
		}
	}
	rows, err := db.AuditEntries(t.Context(), store.AuditQuery{Limit: 99, Oldest: true})
	if err != nil {
		t.Fatal(err)
	}
	first := rows[0]
	if err := db.ChangeRows(t.Context(), func(tx store.RowTx) error {
		return tx.MaskAudit(t.Context(), first.Seq, append(operator.DigestOf(&first), operator.LinkOf(first.Link)...), []byte(`{}`))
	}); err != nil {
		t.Fatal(err)
	}
	var broken *operator.ChainError
	if _, err := export(t, s, keys, operator.Query{}); !errors.As(err, &broken) || broken.Seq != first.Seq {
		t.Errorf("an entry that was masked without a trace: %v", err)
	}
}
