package operators

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestD21OutcomesPrintsEveryRow holds the members of the table and that it has every scheme.
func TestD21OutcomesPrintsEveryRow(t *testing.T) {
	t.Parallel()
	var out, faults bytes.Buffer
	if code := rig.Run(t.Context(), []string{"outcomes", "--json"}, nil, &out, &faults); code != 0 {
		t.Fatalf("exit status %d: %s", code, &faults)
	}
	var rows []map[string]any
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	want := []string{"action", "because", "category", "eci", "result", "scheme", "shifts", "since", "source", "transStatus"}
	schemes := make(map[any]bool)
	for _, row := range rows {
		var names []string
		for name := range row {
			names = append(names, name)
		}
		slices.Sort(names)
		if !slices.Equal(names, want) {
			t.Fatalf("members %v, want %v", names, want)
		}
		schemes[row["scheme"]] = true
	}
	if !schemes["visa"] || !schemes["standin"] {
		t.Errorf("schemes %v", schemes)
	}
	out.Reset()
	if code := rig.Run(t.Context(), []string{"outcomes"}, nil, &out, io.Discard); code != 0 || strings.Count(out.String(), "\n") != len(rows)+1 {
		t.Errorf("exit status %d; as text there are %d lines, as JSON %d rows", code, strings.Count(out.String(), "\n"), len(rows))
	}
}
