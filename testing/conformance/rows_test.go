package conformance

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// counts are how many rows each group has.
var counts = map[string]int{
	"MC": 73, "MX": 18, "VG": 37, "VA": 33, "VR": 21, "VP": 21, "VO": 4, "ID": 16, "TM": 15, "BR": 21, "AP": 14, "RI": 8,
	"DA": 10, "SP": 12, "PR": 32, "OP": 8, "TO": 13, "RT": 6, "TL": 13, "HT": 13, "EN": 9, "VN": 9, "CF": 18,
}

// checked are the ids of the rows that are shown by checks, in order.
func checked() []string {
	var ids []string
	for _, g := range groups {
		for _, c := range g.checks {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// TestRows holds the list complete, and true about what shows each row.
func TestRows(t *testing.T) {
	var want, got []string
	for _, g := range groups {
		for n := range counts[g.prefix] {
			want = append(want, fmt.Sprintf("%s-%02d", g.prefix, n+1))
		}
	}
	checks := checked()
	for _, row := range Rows() {
		got = append(got, row.ID)
		if has := slices.Contains(checks, row.ID); has != row.How.hasCheck() && row.How != Open {
			t.Errorf("%s is shown by %q, and has a check: %t; want a check for box and shop alone", row.ID, row.How, has)
		}
		for _, ref := range row.unitTests() {
			if err := carries(ref, row.ID); err != nil {
				t.Errorf("%s: %v", row.ID, err)
			}
		}
		switch row.How {
		case Box, Shop:
			if row.By != "" && len(row.unitTests()) == 0 {
				t.Errorf("%s: %q after %s, want nothing, or unit and the tests", row.ID, row.By, row.How)
			}
		case Unit:
		case Docs:
			for file := range strings.FieldsSeq(row.By) {
				if _, err := os.Stat(filepath.Join("../..", file)); err != nil {
					t.Errorf("%s: %v", row.ID, err)
				}
			}
		case NotApplicable, Deviation, Missing:
		case Open:
			t.Errorf("%s is open", row.ID)
		default:
			t.Errorf("%s: shown by %q", row.ID, row.How)
		}
		if !row.How.hasCheck() && row.By == "" {
			t.Errorf("%s: nothing after %s", row.ID, row.How)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d, each once and in order: %v", len(got), len(want), symmetric(got, want))
	}
	for _, id := range checks {
		if !slices.Contains(got, id) {
			t.Errorf("a check of %s, which is no row", id)
		}
	}
	if twice := len(checks) - len(slices.Compact(slices.Sorted(slices.Values(checks)))); twice > 0 {
		t.Errorf("%d rows have two checks", twice)
	}
}

// symmetric is what is in only one of two lists.
func symmetric(a, b []string) []string {
	var diff []string
	for _, s := range slices.Concat(a, b) {
		if !slices.Contains(a, s) || !slices.Contains(b, s) {
			diff = append(diff, s)
		}
	}
	return diff
}

// carries returns what is wrong with a reference DIR.Test: the test has to exist, and its
// comment or its code has to name the row.
func carries(ref, id string) error {
	i := strings.LastIndex(ref, ".")
	if i < 0 {
		return fmt.Errorf("%s is not DIR.Test", ref)
	}
	dir, name := ref[:i], ref[i+1:]
	files, err := filepath.Glob(filepath.Join("../..", filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, data, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || fn.Name.Name != name {
				continue
			}
			from := fn.Pos()
			if fn.Doc != nil {
				from = fn.Doc.Pos()
			}
			source := string(data[fset.Position(from).Offset:fset.Position(fn.End()).Offset])
			if !strings.Contains(source, id) {
				return fmt.Errorf("%s does not mention the row", ref)
			}
			return nil
		}
	}
	return fmt.Errorf("there is no %s", ref)
}
