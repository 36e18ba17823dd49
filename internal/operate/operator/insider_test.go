package operator_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// tamperedTrail is an audit trail whose rows somebody changes who has the database, and no keys.
type tamperedTrail struct {
	*storetest.Memory
	rows *[]store.AuditEntry // in the place of those of the store; nil for those
}

func (s tamperedTrail) AuditEntries(ctx context.Context, q store.AuditQuery) ([]store.AuditEntry, error) {
	if *s.rows == nil {
		return s.Memory.AuditEntries(ctx, q)
	}
	var all []store.AuditEntry
	for _, e := range *s.rows {
		if e.Seq > q.After && (q.Before == 0 || e.Seq < q.Before) && (q.From.IsZero() || !e.At.Before(q.From)) && (q.To.IsZero() || e.At.Before(q.To)) {
			all = append(all, e)
		}
	}
	if !q.Oldest {
		slices.Reverse(all)
	}
	return all[:min(len(all), q.Limit)], nil
}

// AppendAudit appends to the rows that were changed.
func (s tamperedTrail) AppendAudit(ctx context.Context, e store.AuditEntry) error {
	if *s.rows == nil {
		return s.Memory.AppendAudit(ctx, e)
	}
	*s.rows = append(*s.rows, e)
	return nil
}

// linkAgain links entries from one on again by SHA-256, which needs no key. The MACs stay as they were.
func linkAgain(rows []store.AuditEntry) []store.AuditEntry {
	var before []byte
	for i := range rows {
		salt, mac := rows[i].Link[:16], rows[i].Link[16+32:]
		before = journal.NextLink(before, journal.DigestOf(salt, rows[i].Data))
		rows[i].Seq, rows[i].Link = int64(i+1), slices.Concat(salt, before, mac)
	}
	return rows
}

// trailTricks are what an insider may do to the audit trail.
var trailTricks = map[string]func(rows []store.AuditEntry) []store.AuditEntry{
	"changes an entry": func(rows []store.AuditEntry) []store.AuditEntry {
		rows[2].Data = bytes.Replace(rows[2].Data, []byte("token:ci"), []byte("token:xx"), 1)
		return rows
	},
	"deletes an entry": func(rows []store.AuditEntry) []store.AuditEntry { return slices.Delete(rows, 2, 3) },
	"deletes an entry, and links the rest again": func(rows []store.AuditEntry) []store.AuditEntry {
		return linkAgain(slices.Delete(rows, 2, 3))
	},
	"removes the signature of a day, and links the rest again": func(rows []store.AuditEntry) []store.AuditEntry {
		return linkAgain(slices.DeleteFunc(rows, func(e store.AuditEntry) bool { return bytes.Contains(e.Data, []byte("audit.sign")) }))
	},
	"cuts off the newest entries": func(rows []store.AuditEntry) []store.AuditEntry { return rows[:3] },
	"swaps two entries": func(rows []store.AuditEntry) []store.AuditEntry {
		rows[1].Data, rows[2].Data = rows[2].Data, rows[1].Data
		return rows
	},
	"adds an entry without the keys": func(rows []store.AuditEntry) []store.AuditEntry {
		last := rows[len(rows)-1]
		return linkAgain(append(rows, store.AuditEntry{Seq: last.Seq + 1, At: last.At, Data: []byte(`{"who":"token:mallory"}`), Link: last.Link}))
	},
}

// TestA2AnInsiderIsNoticedInTheAuditTrail: whatever somebody changes who has the database and no keys, the server says
// so, signs neither the trail nor an export of it, and verify refuses the export.
func TestA2AnInsiderIsNoticedInTheAuditTrail(t *testing.T) {
	t.Parallel()
	for name, change := range trailTricks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, db, now := newService(t)
			var rows []store.AuditEntry
			s.Store = tamperedTrail{db, &rows}
			record(t, s, 5)
			*now = now.AddDate(0, 0, 1)
			signDay(t, s, "node:a")
			record(t, s, 2)
			if _, err := s.CheckTrail(t.Context()); err != nil {
				t.Fatal(err)
			}
			before, err := db.AuditEntries(t.Context(), store.AuditQuery{Oldest: true, Limit: 100})
			if err != nil || len(before) != 8 {
				t.Fatal(len(before), err)
			}
			rows = change(slices.Clone(before))
			count := len(rows)
			*now = now.AddDate(0, 0, 1)
			restarted := &operator.Service{Now: s.Now, Keys: s.Keys, Store: s.Store}
			restarted.ExpectTrail(journal.ChainEnd{Chain: journal.AuditChain, Seq: 8, Link: operator.LinkOf(before[7].Link)}) // as a head of the journal says
			noticed := 0
			for _, server := range []*operator.Service{s, restarted} {
				err := server.SignDay(t.Context(), "node:a", now.UTC().Truncate(24*time.Hour))
				if journal.IsChanged(err) {
					noticed++
				} else if err != nil {
					t.Error(err)
				}
				if len(rows) != count {
					t.Errorf("the server signed it: %d entries, %v", len(rows), err)
				}
			}
			var b strings.Builder
			_, err = restarted.Export(t.Context(), &b, s.Keys, operator.Query{})
			_, verified := journal.Verify(strings.NewReader(b.String()), s.Keys.PublicKey())
			if isCut := strings.HasPrefix(name, "cuts"); noticed != 2 || !isCut && (!journal.IsChanged(err) || verified == nil) {
				t.Errorf("noticed %d times, export %v, verify %v", noticed, err, verified)
			}
		})
	}
}
