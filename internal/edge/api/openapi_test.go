package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/openthreeds/threeds/internal/protocol/acp"
)

// TestF5IdempotencyKeyIsDescribed: docs/openapi.yaml has the header Idempotency-Key, and the answers to a key that does
// not fit, at every POST that is answered once, and nowhere else. It has every path that is served.
func TestF5IdempotencyKeyIsDescribed(t *testing.T) {
	data, err := os.ReadFile("../../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var description struct {
		Paths map[string]map[string]struct {
			Parameters []map[string]any
			Responses  map[string]any
		}
	}
	if err := yaml.Unmarshal(data, &description); err != nil {
		t.Fatal(err)
	}
	h := &Handler{ACP: new(acp.Signature)}
	const id = "019344a0-7f3c-4b1d-9c55-2f6a1e0d8b47"
	described := map[*endpoint]bool{noEndpoint: true}
	for path, operations := range description.Paths {
		for method, operation := range operations {
			r, err := http.NewRequest(strings.ToUpper(method), strings.ReplaceAll(path, "{id}", id), nil)
			if err != nil {
				t.Fatal(err)
			}
			ep := h.endpointOf(r)
			if ep.handle == nil {
				t.Errorf("%s %s is described, and not served", r.Method, path)
			}
			described[ep] = true
			has := false
			for _, p := range operation.Parameters {
				has = has || p["$ref"] == "#/components/parameters/Idempotency-Key"
			}
			if want := isIdempotent(ep, r); has != want {
				t.Errorf("%s %s: Idempotency-Key is described %t, and read %t", r.Method, path, has, want)
			}
			mismatch := "422"
			if strings.HasPrefix(path, "/delegate_authentication") {
				mismatch = "409" // in the form of that protocol
			}
			for _, status := range []string{"413", "415"} { // any body may be too long, or in a content coding
				if _, ok := operation.Responses[status]; !ok && (r.Method == "POST" || r.Method == "PATCH") {
					t.Errorf("%s %s: no response %s", r.Method, path, status)
				}
			}
			for _, status := range []string{"409", mismatch} {
				if _, ok := operation.Responses[status]; has && !ok {
					t.Errorf("%s %s: no response %s", r.Method, path, status)
				}
			}
		}
	}
	for path, ep := range endpoints {
		if !described[ep] {
			t.Errorf("%s is served, and not described", path)
		}
	}
	for path, ep := range hookEndpoints {
		if !described[ep] {
			t.Errorf("%s is served, and not described", path)
		}
	}
}

var ruleForm = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)

// TestD12RulesAreInTheDocs: docs/authentications.md has each rule that a fault may name, and no other.
func TestD12RulesAreInTheDocs(t *testing.T) {
	said := make(map[string]bool)
	note := func(e ast.Expr) {
		if text, ok := e.(*ast.BasicLit); ok && text.Kind == token.STRING {
			if rule, err := strconv.Unquote(text.Value); err == nil && ruleForm.MatchString(rule) {
				said[rule] = true
			}
		}
	}
	for _, dir := range []string{".", "../../protocol/faults", "../../engine/auth", "../../engine/check", "../../engine/session"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(n ast.Node) bool { noteRules(n, note); return true })
		}
	}
	page, err := os.ReadFile("../../../docs/authentications.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| `rule` | The value |")
	table, _, _ = strings.Cut(table, "\n\n")
	told := make(map[string]bool)
	for row := range strings.Lines(table) {
		if cells := strings.Split(row, "|"); len(cells) > 2 {
			for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(cells[1], -1) {
				told[m[1]] = true
			}
		}
	}
	for rule := range said {
		if !told[rule] {
			t.Errorf("a fault may name the rule %s, and the page does not say so", rule)
		}
	}
	for rule := range told {
		if !said[rule] {
			t.Errorf("the page has the rule %s, and no fault names it", rule)
		}
	}
}

// noteRules hands out what stands where a rule does: in the member Rule, and in calls that make a fault.
func noteRules(n ast.Node, note func(ast.Expr)) {
	isRule := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.Ident:
			return e.Name == "Rule" || e.Name == "rule"
		case *ast.SelectorExpr:
			return e.Sel.Name == "Rule"
		}
		return false
	}
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if isRule(n.Key) {
			note(n.Value)
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if isRule(left) && len(n.Rhs) == len(n.Lhs) {
				note(n.Rhs[i])
			}
		}
	case *ast.CallExpr:
		name := ""
		switch f := n.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
		}
		if (name == "New" || name == "newFault") && len(n.Args) == 4 {
			note(n.Args[2])
		}
		if name == "fault" && len(n.Args) == 4 {
			note(n.Args[1])
		}
	}
}

// TestD11ProblemsAreInTheDocs: docs/authentications.md has each type of a problem, and no other. Each type that the
// code answers with has a title.
func TestD11ProblemsAreInTheDocs(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	answers := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\bnewProblem\("([a-z-]+)"`).FindAllSubmatch(source, -1) {
			if answers++; titles[string(m[1])] == "" {
				t.Errorf("%s answers with the problem %s, which has no title", file, m[1])
			}
		}
	}
	if answers < 15 {
		t.Errorf("%d answers with a problem, fewer than there must be", answers)
	}
	page, err := os.ReadFile("../../../docs/authentications.md")
	if err != nil {
		t.Fatal(err)
	}
	told := make(map[string]bool)
	for _, m := range regexp.MustCompile("`"+problemURN+"([a-z-]+)`").FindAllSubmatch(page, -1) {
		if told[string(m[1])] = true; titles[string(m[1])] == "" {
			t.Errorf("the page has the problem %s, and nothing answers with it", m[1])
		}
	}
	for name := range titles {
		if !told[name] {
			t.Errorf("an answer may have the problem %s, and the page does not say so", name)
		}
	}
}
