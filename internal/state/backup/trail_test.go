package backup

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/store"
)

// addTrail appends entries to the audit trail of a store, with links made of a name.
func addTrail(t *testing.T, st archive, from, to int64, name string) {
	t.Helper()
	for seq := from; seq <= to; seq++ {
		must(t, st.AppendAudit(t.Context(), store.AuditEntry{Seq: seq, At: at, Link: fmt.Appendf(nil, "%s %d", name, seq), Data: []byte("{}")}))
	}
}

// wantTrail checks the links of the audit trail of a store.
func wantTrail(t *testing.T, st archive, want ...string) {
	t.Helper()
	all, err := st.AuditEntries(t.Context(), store.AuditQuery{Oldest: true, Limit: 99})
	must(t, err)
	var got []string
	for _, e := range all {
		got = append(got, string(e.Link))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the trail is %q, want %q", got, want)
	}
}

// TestK10RestoreDoesNotShortenTheAuditTrail: after the restore of an older backup, the store keeps the entries that
// came since; from a newer backup, it takes the entries that it lacks. Only the trail of another store replaces the
// present one, and the report says so.
func TestK10RestoreDoesNotShortenTheAuditTrail(t *testing.T) {
	for name, open := range map[string]func(*testing.T) archive{"sqlite": openDir, "postgres": openDatabase} {
		t.Run(name, func(t *testing.T) {
			st := open(t)
			addTrail(t, st, 1, 2, "a")
			older := backUp(t, st)
			addTrail(t, st, 3, 4, "a")
			newer := backUp(t, st)
			restore := func(into archive, text string) Report {
				t.Helper()
				report, err := Restore(t.Context(), into, strings.NewReader(text), true, nil)
				must(t, err)
				return report
			}
			if report := restore(st, older); report.ReplacedTrail != nil || report.Added[store.AuditRows] != 0 {
				t.Errorf("an older backup: %+v", report)
			}
			wantTrail(t, st, "a 1", "a 2", "a 3", "a 4")
			other := open(t)
			restore(other, older)
			if report := restore(other, newer); report.ReplacedTrail != nil || report.Added[store.AuditRows] != 2 {
				t.Errorf("a newer backup: %+v", report)
			}
			wantTrail(t, other, "a 1", "a 2", "a 3", "a 4")
			another := open(t)
			addTrail(t, another, 1, 1, "a")
			addTrail(t, another, 2, 3, "b")
			report := restore(another, newer)
			if !bytes.Equal(report.ReplacedTrail, []byte("b 3")) || report.Replaced[store.AuditRows] != 3 {
				t.Errorf("a backup of another store: %+v", report)
			}
			wantTrail(t, another, "a 1", "a 2", "a 3", "a 4")
			addTrail(t, another, 5, 5, "a")
		})
	}
}
