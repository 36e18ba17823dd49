package journal_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// indexesAt returns the definitions of the indexes of a journal that hold no partition's name.
func indexesAt(t *testing.T, url string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()
		AND tablename IN ('journal_records', 'journal_frames', 'journal_places', 'journal_messages', 'journal_postings') ORDER BY indexdef`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestD124GenerateLeavesAllIndexes: those that are away while records are generated are there afterwards, and each
// record is there once, in chains that verify.
func TestD124GenerateLeavesAllIndexes(t *testing.T) {
	t.Parallel()
	url := pgtest.Get(t).Schema(t)
	keys := journal.NewKeys()
	st, err := journal.OpenPostgres(t.Context(), url, keys)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	before := indexesAt(t, url)
	const n = 5_123 // two batches, the last one not full
	g := journal.Generation{Authentications: n, Days: 3, Merchants: 7, Seed: 1}
	now, last, calls := time.Now(), 0, 0
	if err := journal.Generate(t.Context(), st, keys, g, now, func(n int) { last, calls = max(last, n), calls+1 }); err != nil {
		t.Fatal(err)
	}
	if after := indexesAt(t, url); !slices.Equal(before, after) || len(before) < 12 {
		t.Errorf("the indexes were\n%q\nand are\n%q", before, after)
	}
	if last != n || calls != 2 {
		t.Errorf("%d records in %d calls, want %d in 2", last, calls, n)
	}
	got, err := journal.Verify(strings.NewReader(export(t, st, keys, journal.Query{})), keys.PublicKey())
	if err != nil || got.Records != n || got.Erased != 0 {
		t.Errorf("verified %+v, %v, want %d records", got, err, n)
	}
	for _, i := range []int{0, 5000, n - 1} {
		if d, err := st.Show(t.Context(), g.ID(i, now)); err != nil || len(d.Steps) != 4 {
			t.Errorf("authentication %d: %+v, %v", i, d, err)
		}
	}
}
