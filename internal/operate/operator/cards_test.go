package operator_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/store"
)

// TestA4TheTrailHasNoCardNumber: whatever an entry says, Record writes it without.
func TestA4TheTrailHasNoCardNumber(t *testing.T) {
	t.Parallel()
	s, db, _ := newService(t)
	const card = "4111-1111 1111.1111"
	if err := s.Record(t.Context(), operator.Entry{
		Who: "oidc:" + card, From: card, Action: "key.create", Object: card,
		Before: map[string]any{card: 1},
		After:  map[string]any{"label": "of " + card, "number": json.Number("4111111111111111"), "hash": strings.Repeat("c0ffee4111111111111111ab", 3)[:64]},
	}); err != nil {
		t.Fatal(err)
	}
	rows, err := db.AuditEntries(t.Context(), store.AuditQuery{Limit: 1})
	if err != nil || len(rows) != 1 || bytes.Contains(rows[0].Data, []byte("1111.1111")) || bytes.Contains(rows[0].Data, []byte(`"number":4`)) ||
		bytes.Count(rows[0].Data, []byte("***")) != 6 || !bytes.Contains(rows[0].Data, []byte("c0ffee4111111111111111ab")) {
		t.Errorf("%s, %v", rows[0].Data, err)
	}
}
