package journal

import (
	"testing"

	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// TestJ3JournalsOfADatabaseDoNotWaitForEachOther: while one journal waits for a table, to write and to erase, another
// one in the same database writes entries of a new day.
func TestJ3JournalsOfADatabaseDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	g := Generation{Authentications: 1, Days: 1, Merchants: 1}
	// A new day needs a partition of journal_records. journal_dirty is written when the lock for entries is held.
	for _, table := range []string{"journal_records", "journal_dirty"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			keys := NewKeys() // an erasure forgets the key of an authentication, also for others with the same keys
			entry := g.entry(0, planned, keys, newRandom(g))
			open := func() *tableStore {
				st, err := OpenPostgres(t.Context(), pgtest.Get(t).Schema(t)+"&application_name=waits_for_"+table, keys)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = st.Close() })
				return st.(*tableStore)
			}
			ctx := t.Context()
			stuck, free := open(), open()
			ended := make(chan error, 2)
			// Others in the database make them wait for a moment, too, such as for a place in a catalog.
			const forTable, forWriters = `relation = to_regclass($2)`, `(relation = to_regclass($2) OR locktype = 'advisory')`
			awaitWaiting := func(want int, what string) {
				for waiting := 0; waiting < want; {
					select {
					case err := <-ended:
						t.Fatalf("one of %d that should wait has ended: %v", want, err)
					default:
					}
					if err := stuck.QueryRowContext(ctx, `SELECT count(DISTINCT pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
						WHERE application_name = $1 AND NOT granted AND `+what, "waits_for_"+table, table).Scan(&waiting); err != nil {
						t.Fatal(err)
					}
				}
			}
			holder, err := stuck.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer holder.Rollback() // nothing after the one below
			if _, err := holder.ExecContext(t.Context(), `LOCK TABLE `+table); err != nil {
				t.Fatal(err)
			}
			go func() { _, err := stuck.Write(t.Context(), []Entry{entry}); ended <- err }()
			awaitWaiting(1, forTable)
			go func() { _, _, err := stuck.Erase(t.Context(), Query{Merchant: entry.Record.Merchant}); ended <- err }()
			awaitWaiting(2, forWriters)
			if n, err := free.Write(ctx, []Entry{entry}); n != 1 || err != nil {
				t.Errorf("wrote %d entries of the other journal, %v", n, err)
			}
			if err := holder.Rollback(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		})
	}
}
