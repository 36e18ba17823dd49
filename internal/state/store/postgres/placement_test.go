package postgres

import (
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// TestHashOfAnIDIsThatOfPostgreSQL: a node knows where Citus puts a transaction, for it computes the same hash.
func TestHashOfAnIDIsThatOfPostgreSQL(t *testing.T) {
	conn := connect(t, pgtest.Get(t).URL())
	texts := []string{"b2385523-a66c-4907-ac3c-91848e8c0067", "\x7f", "é", "op.visa.1.2"}
	for n := range 40 {
		texts = append(texts, strings.Repeat("0123456789abcdef", 3)[:n])
	}
	for _, text := range texts {
		var want int32
		if err := conn.QueryRow(t.Context(), `SELECT hashtext($1 COLLATE "C")`, text).Scan(&want); err != nil {
			t.Fatal(err)
		}
		if got := hashText(text); got != want {
			t.Errorf("hash of %q: %d, want %d", text, got, want)
		}
	}
}
