package threeds_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/openthreeds/threeds/internal/operate/ops"
)

// changesAudit finds a statement that changes or removes entries of the audit trail.
var changesAudit = regexp.MustCompile(`(?i)\b(update|delete\s+from|truncate(\s+table)?|drop\s+table(\s+if\s+exists)?)\s+"?audit\b`)

// TestK10NothingInTheCodeChangesTheAuditTrail: of all statements in the code, the one for the trail of another store's
// backup alone removes entries, and none changes any. Only the package backup asks for it.
func TestK10NothingInTheCodeChangesTheAuditTrail(t *testing.T) {
	var statements, clears []string
	sources(t, 0, func(pkg, file string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && changesAudit.MatchString(text) {
					statements = append(statements, file)
				}
			case *ast.CallExpr:
				fun, isMethod := n.Fun.(*ast.SelectorExpr)
				if !isMethod || fun.Sel.Name != "Clear" || len(n.Args) != 2 {
					break
				}
				if kind, isNamed := n.Args[1].(*ast.SelectorExpr); !isNamed || kind.Sel.Name != "MerchantRows" {
					clears = append(clears, pkg) // the rows of another kind than merchants, perhaps the trail
				}
			}
			return true
		})
	})
	const postgres, sqlite = "internal/state/store/postgres/schema.go", "internal/state/store/sqlite/schema.go"
	if want := []string{postgres, sqlite}; !slices.Equal(statements, want) {
		t.Errorf("statements that change the audit trail are in %v, want them in %v", statements, want)
	}
	if want := []string{"internal/state/backup"}; !slices.Equal(slices.Compact(clears), want) {
		t.Errorf("rows are cleared by %v, want %v", clears, want)
	}
}

// recordsAction finds a call or a field that names the action of an entry of the audit trail.
var recordsAction = regexp.MustCompile(
	`(?:\.record\(r|[rR]ecordCommand\(ctx, \w+, \w+|recordJournal\(ctx, \*file|commandEntry\(|\.record\(ctx|\.audit\(r, [^"]*|Action:) ?,? ?"([a-z.]+)"`)

// TestK10SearchesKnowEveryAction: each action that the code writes into the audit trail is one that can be searched
// for.
func TestK10SearchesKnowEveryAction(t *testing.T) {
	known, seen := ops.Actions(), map[string]bool{}
	sources(t, parser.ImportsOnly, func(_, file string, _ *ast.File) {
		for _, found := range recordsAction.FindAllStringSubmatch(text(t, file), -1) {
			if seen[found[1]] = true; !slices.Contains(known, found[1]) {
				t.Errorf("%s records the action %s, which ops.Actions does not have", file, found[1])
			}
		}
	})
	if len(seen) < 25 {
		t.Errorf("%d actions are found: %v", len(seen), seen)
	}
}
