package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// TestK10TheDatabaseKeepsTheAuditTrail: it refuses statements that would change or remove an entry, even after a
// restore, and even from a connection that does not fire ordinary triggers.
func TestK10TheDatabaseKeepsTheAuditTrail(t *testing.T) {
	t.Parallel()
	at := pgtest.Get(t).Schema(t)
	db, err := Open(t.Context(), at, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	raw, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close(t.Context()) })
	if _, err := raw.Exec(t.Context(), "SET session_replication_role = replica"); err != nil {
		t.Fatal(err)
	}
	entry := store.AuditEntry{Seq: 1, At: time.Now().UTC().Truncate(time.Millisecond), Link: []byte("l"), Data: []byte("{}")}
	for _, when := range []string{"at first", "after a restore"} {
		if err := db.AppendAudit(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{"UPDATE audit SET data = ''", "DELETE FROM audit WHERE seq = 1", "TRUNCATE audit"} {
			if _, err := raw.Exec(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "append-only") {
				t.Errorf("%s: %s: %v", when, statement, err)
			}
		}
		if err := db.ChangeRows(t.Context(), func(tx store.RowTx) error { return tx.Clear(t.Context(), store.AuditRows) }); err != nil {
			t.Fatal(err)
		}
	}
}
