package threeds_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// may lists, for each package, which packages of this module it may import. A
// package that is not listed may import none. cmd wires and may import all.
var may = map[string]string{
	"message":                      "internal/browserurl internal/charset internal/iso",
	"message/extension":            "message",
	"message/messagetest":          "message",
	"sandbox":                      "internal/uuid message sandbox/ranges sandbox/v1 sandbox/internal/jose sandbox/internal/peer sandbox/internal/pki sandbox/internal/scenario",
	"sandbox/ranges":               "internal/uuid sandbox/internal/peer",
	"sandbox/v1":                   "sandbox/internal/pki sandbox/internal/scenario",
	"sandbox/shop":                 "client sandbox/shop/runs",
	"sandbox/shop/runs":            "client internal/lanes message",
	"internal/keyring":             "internal/keyfile internal/transid",
	"internal/journal":             "internal/keyfile internal/outcome internal/scheme internal/transid message",
	"internal/ranges":              "internal/browserurl message",
	"internal/rangequery":          "internal/ranges",
	"internal/directory":           "internal/ranges internal/certs internal/store internal/tasks internal/tunnel internal/uuid internal/wire message",
	"internal/tunnel":              "internal/certs",
	"internal/wire":                "internal/socket",
	"internal/xmldsig/xmldsigtest": "internal/xmldsig",
	"internal/store/sqlite":        "internal/keyfile internal/store",
	"internal/store/postgres":      "internal/store internal/socket",
	"internal/store/storetest":     "internal/store",
	"internal/backup":              "internal/journal internal/rotation internal/store",
	"internal/clientcert":          "internal/store",
	"internal/account":             "internal/cardnumber internal/store",
	"internal/admin":               "internal/cardnumber internal/account internal/clientcert internal/directory internal/merchant internal/operator internal/rangequery internal/ranges internal/scheme internal/store internal/journal internal/listen internal/webhook message",
	"internal/operator":            "internal/cardnumber internal/journal internal/store",
	"internal/login":               "internal/listen internal/operator internal/store",
	"internal/lanes":               "message",
	"internal/pages":               "internal/cardnumber internal/admin internal/iso internal/journal internal/lanes internal/operator internal/outcome internal/scheme internal/webhook message",
	"internal/merchant":            "internal/account internal/config internal/store",
	"internal/rotation":            "internal/account internal/keyfile internal/keyring internal/store",
	"internal/record":              "internal/store",
	"internal/idempotency":         "internal/record internal/store message",
	"internal/scheme":              "message",
	"internal/outcome":             "message internal/scheme",
	"internal/faults":              "internal/iso message",
	"internal/webhook":             "internal/browserurl internal/cardnumber internal/record internal/store internal/uuid",
	"internal/auth":                "internal/cardnumber internal/browserurl internal/charset internal/faults internal/iso internal/journal message message/extension internal/outcome internal/scheme internal/ranges internal/transid internal/store internal/account internal/record internal/tasks",
	"internal/inspect":             "internal/scheme internal/v1 message message/extension",
	"internal/v1":                  "internal/browserurl internal/xmldsig internal/iso",
	"internal/mpi":                 "internal/cardnumber internal/iso internal/scheme internal/v1 internal/xmldsig internal/store internal/account internal/record internal/tasks",
	"internal/api":                 "internal/cardnumber message internal/acp internal/faults internal/idempotency internal/journal internal/record internal/store internal/uuid internal/webhook internal/outcome internal/scheme internal/auth internal/mpi internal/account internal/listen internal/obs internal/shed",
	"internal/acp":                 "internal/auth internal/faults internal/iso internal/outcome message",
	"internal/browser":             "internal/auth internal/charset internal/listen message web",
	"internal/results":             "message internal/auth internal/listen internal/obs internal/certs",
	"internal/obs":                 "internal/cardnumber internal/scheme internal/shed internal/uuid",
	"internal/certs":               "internal/obs",
	"internal/listen":              "internal/socket",
	"internal/config":              "internal/cardnumber internal/iso internal/certs internal/scheme internal/store/postgres internal/webhook internal/xmldsig message",
	"internal/server": "internal/cardnumber internal/account internal/acp internal/admin internal/operator internal/api internal/auth internal/browser internal/clientcert internal/config internal/console internal/directory internal/faults" +
		" internal/inspect internal/keyring internal/pages internal/listen internal/login internal/merchant internal/mpi internal/obs internal/ranges internal/record internal/results internal/rotation internal/shed internal/store internal/store/postgres" +
		" internal/journal internal/store/sqlite internal/certs internal/tasks internal/transid internal/tunnel internal/xmldsig internal/scheme internal/outcome internal/webhook internal/idempotency message web",
	"internal/playground": "internal/account internal/auth internal/browser internal/certs internal/config internal/directory internal/keyring internal/lanes internal/mpi internal/ranges" +
		" internal/server internal/store internal/uuid internal/webhook internal/xmldsig message sandbox",
	"threedstest":  "client internal/obs internal/playground sandbox",
	"tools/bundle": "web",
	"tools/docgen": "internal/charset internal/faults message message/extension internal/outcome internal/scheme",

	"internal/journal/journaltest":   "internal/journal internal/store/postgres/pgtest",
	"internal/store/postgres/pgtest": "internal/waittest",
	// what several test packages share
	"internal/browser/enginetest": "internal/auth",
	"internal/pages/consoletest": "internal/account internal/admin internal/clientcert internal/directory internal/journal internal/keyring internal/merchant internal/operator internal/pages" +
		" internal/ranges internal/scheme internal/store internal/store/storetest internal/webhook message",
}

// pure are the packages that touch no network, clock, disk or database: they import
// nothing that could, and of package time what tells no time.
var pure = []string{"message", "message/extension", "internal/browserurl", "internal/cardnumber", "internal/charset", "internal/faults", "internal/iso", "internal/outcome", "internal/ranges", "internal/scheme", "internal/transid", "internal/v1", "internal/xmldsig"}

var impure = regexp.MustCompile(`^(net|net/http|os|os/.*|database/.*|syscall|log/.*)$`)

// sources calls visit with each file of Go that is no test, and its package. It reads
// the files itself and does not ask the go command, so that the test cache knows what
// was read.
func sources(t *testing.T, mode parser.Mode, visit func(pkg, file string, f *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, mode)
		if err == nil {
			visit(filepath.ToSlash(filepath.Dir(file)), file, f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestImports keeps the arrows of doc.go true, and may no longer than it has to be.
func TestImports(t *testing.T) {
	used := map[string]bool{}
	sources(t, parser.ImportsOnly, func(pkg, file string, f *ast.File) {
		if strings.HasPrefix(pkg, "cmd/") || strings.HasPrefix(pkg, "testing/") {
			return
		}
		for _, spec := range f.Imports {
			dep, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "github.com/openthreeds/threeds/")
			if ours && !slices.Contains(strings.Fields(may[pkg]), dep) {
				t.Errorf("%s imports %s, see doc.go", file, dep)
			}
			used[pkg+" "+dep] = true
		}
	})
	for pkg, deps := range may {
		for _, dep := range strings.Fields(deps) {
			if !used[pkg+" "+dep] {
				t.Errorf("%s may import %s and does not", pkg, dep)
			}
		}
	}
}

// TestServerHasNoTestSuite: the server's binary carries nothing of the conformance suite, of the benchmarks and of tools.
func TestServerHasNoTestSuite(t *testing.T) {
	imports := map[string][]string{}
	sources(t, parser.ImportsOnly, func(pkg, _ string, f *ast.File) {
		for _, spec := range f.Imports {
			if dep, isOurs := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "github.com/openthreeds/threeds/"); isOurs {
				imports[pkg] = append(imports[pkg], dep)
			}
		}
	})
	seen := map[string]bool{}
	var visit func(pkg string)
	visit = func(pkg string) {
		if seen[pkg] {
			return
		}
		seen[pkg] = true
		for _, dep := range imports[pkg] {
			visit(dep)
		}
	}
	visit("cmd/threeds")
	for pkg := range seen {
		if first, _, _ := strings.Cut(pkg, "/"); slices.Contains([]string{"testing", "tools"}, first) {
			t.Errorf("the server imports %s", pkg)
		}
	}
	if len(seen) < 20 {
		t.Errorf("the server imports %d packages of this module, fewer than there must be", len(seen))
	}
}

// TestPure: what is told the time and given the bytes asks for neither.
func TestPure(t *testing.T) {
	seen := map[string]bool{}
	sources(t, 0, func(pkg, file string, f *ast.File) {
		if !slices.Contains(pure, pkg) {
			return
		}
		seen[pkg] = true
		for _, spec := range f.Imports {
			if dep := strings.Trim(spec.Path.Value, `"`); impure.MatchString(dep) {
				t.Errorf("%s imports %s", file, dep)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			clocks := []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}
			if of, ok := call.X.(*ast.Ident); ok && of.Name == "time" && slices.Contains(clocks, call.Sel.Name) {
				t.Errorf("%s asks for time.%s", file, call.Sel.Name)
			}
			return true
		})
	})
	if len(seen) != len(pure) {
		t.Errorf("of %v there are only %v", pure, seen)
	}
}

// TestMap holds ARCHITECTURE.md against what is there: its tree has every package
// and no folder that is gone, and each dependency in go.mod has its reason.
func TestMap(t *testing.T) {
	page, mod := text(t, "ARCHITECTURE.md"), text(t, "go.mod")
	_, tree, _ := strings.Cut(page, "\n## The tree\n")
	tree, _, _ = strings.Cut(tree, "\n```\n\n")
	sources(t, parser.PackageClauseOnly, func(pkg, _ string, f *ast.File) {
		generator := f.Name.Name == "main" && strings.HasPrefix(pkg, "internal/")
		if pkg != "." && !generator && !regexp.MustCompile(`\b`+path.Base(pkg)+"/").MatchString(tree) {
			t.Errorf("%s is not in the tree", pkg)
		}
	})
	folders := regexp.MustCompile(`(?m)^((?:│   |    )?)[├└]── (\S+)/`).FindAllStringSubmatch(tree, -1)
	parent := ""
	for _, m := range folders {
		folder := m[2]
		if m[1] == "" {
			parent = folder
		} else {
			folder = path.Join(parent, folder)
		}
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			t.Errorf("the tree has %s: %v", folder, err)
		}
	}
	_, reasons, _ := strings.Cut(page, "\n## Dependencies")
	reasons, _, _ = strings.Cut(reasons, "\n## ")
	modules := regexp.MustCompile(`(?m)^\t(?:github.com/)?(\S+) v\S+$`).FindAllStringSubmatch(mod, -1)
	for _, m := range modules {
		if !strings.Contains(reasons, m[1]) {
			t.Errorf("%s is in go.mod and has no reason", m[1])
		}
	}
	if len(folders) < 30 || len(modules) < 15 {
		t.Errorf("%d folders in the tree and %d modules in go.mod are fewer than there must be", len(folders), len(modules))
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestQuickNamesPackages: the packages that make quick tests are there.
func TestQuickNamesPackages(t *testing.T) {
	line := regexp.MustCompile(`(?m)^QUICK = ((?:.*\\\n)*.*)$`).FindStringSubmatch(text(t, "Makefile"))
	if line == nil {
		t.Fatal("the Makefile has no line QUICK")
	}
	for _, dir := range strings.Fields(strings.ReplaceAll(line[1], "\\\n", " ")) {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			t.Errorf("make quick tests %s, which is not there", dir)
		}
	}
}
