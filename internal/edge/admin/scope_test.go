package admin_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unscoped are the functions that read the journal without the scope of an actor. What they read is for the server
// itself, or only for those who see all merchants.
var unscoped = []string{
	"readTraffic",   // the counts of directories, which only those see who see all merchants
	"countNow",      // notices, each of which says whose it is
	"describeLast",  // the same
	"exportJournal", // an act that is not for groups and merchants
}

// scoped are the functions that make a reader within a scope.
var scoped = []string{"countForOverview", "openJournal", "past"}

// TestAnswersReadTheJournalWithinAScope: no other function of this package touches the journal, so each answer
// is read within the scope of its actor.
func TestAnswersReadTheJournalWithinAScope(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range file.Decls {
			f, isFunction := declared.(*ast.FuncDecl)
			if !isFunction {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, isSelector := n.(*ast.SelectorExpr); isSelector && s.Sel.Name == "Journal" {
					found = append(found, f.Name.Name)
				}
				return true
			})
		}
	}
	slices.Sort(found)
	if found, want := slices.Compact(found), slices.Sorted(slices.Values(slices.Concat(unscoped, scoped))); !slices.Equal(found, want) {
		t.Errorf("the journal is read in %q, want %q", found, want)
	}
}
