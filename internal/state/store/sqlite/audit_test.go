package sqlite

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// TestK10TheDatabaseKeepsTheAuditTrail: it refuses statements that would change or remove an entry, even after a
// restore.
func TestK10TheDatabaseKeepsTheAuditTrail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	entry := store.AuditEntry{Seq: 1, At: time.Now().UTC().Truncate(time.Millisecond), Link: []byte("l"), Data: []byte("{}")}
	for _, when := range []string{"at first", "after a restore"} {
		if err := db.AppendAudit(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
		raw, err := sql.Open("sqlite", filepath.Join(dir, "threeds.db"))
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{"UPDATE audit SET data = x'00'", "DELETE FROM audit WHERE seq = 1"} {
			if _, err := raw.ExecContext(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "append-only") {
				t.Errorf("%s: %s: %v", when, statement, err)
			}
		}
		if err := raw.Close(); err != nil {
			t.Error(err)
		}
		if err := db.ChangeRows(t.Context(), func(tx store.RowTx) error { return tx.Clear(t.Context(), store.AuditRows) }); err != nil {
			t.Fatal(err)
		}
	}
}
