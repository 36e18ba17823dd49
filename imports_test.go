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

// wings are the folders of internal/, each of which may import packages of itself and of those that stand before it.
var wings = []string{"base", "protocol", "state", "peers", "engine", "operate", "edge", "run"}

// apart are wings on one floor: neither imports the other.
var apart = map[string]string{"engine": "operate", "operate": "engine"}

// rooms are those of the engines, with the rooms that each may import.
var rooms = map[string]string{
	"mpi": "", "txn": "", "check": "", "verdict": "check",
	"auth": "txn check", "session": "auth txn check",
}

// from says which packages outside of internal/ a wing may import. Whole words are packages, with what is in them.
var from = map[string]string{
	"base": "", "protocol": "api message", "state": "api message", "peers": "api message", "engine": "api message",
	"operate": "api message", "edge": "api docs message web", "run": "api message web sandbox",
}

// others lists what packages outside of internal/ may import of this module. cmd and testing may import all.
var others = map[string]string{
	"api":         "",
	"message":     "message internal/base/browserurl internal/base/charset internal/base/iso",
	"client":      "api",
	"docs":        "",
	"sandbox":     "sandbox api client message internal/base internal/edge/lanes",
	"threedstest": "api client sandbox internal/base internal/run",
	"web":         "",
	"tools":       "api web message internal/base internal/edge/admin internal/protocol",
}

// mayImport reports whether a package may import another one of this module. Packages that are for tests alone, whose
// names end in test, may import all.
func mayImport(pkg, dep string) bool {
	isIn := func(list string) bool {
		return slices.ContainsFunc(strings.Fields(list), func(of string) bool { return dep == of || strings.HasPrefix(dep, of+"/") })
	}
	first, rest, _ := strings.Cut(pkg, "/")
	switch {
	case strings.HasSuffix(pkg, "test") && pkg != "threedstest", first == "cmd", first == "testing":
		return true
	case first != "internal":
		return isIn(others[first])
	}
	mine, _, _ := strings.Cut(rest, "/")
	theirs, isInternal := strings.CutPrefix(dep, "internal/")
	if !isInternal {
		return isIn(from[mine])
	}
	theirs, room, _ := strings.Cut(theirs, "/")
	if own, _, _ := strings.Cut(strings.TrimPrefix(rest, "engine/"), "/"); mine == "engine" && theirs == mine && own != room {
		return slices.Contains(strings.Fields(rooms[own]), room)
	}
	return slices.Index(wings, theirs) <= slices.Index(wings, mine) && apart[mine] != theirs
}

// pure are the packages that touch no network, clock, disk or database: they import
// nothing that could, and of package time what tells no time.
var pure = []string{
	"api",
	"internal/base/browserurl",
	"internal/base/cardnumber",
	"internal/base/charset",
	"internal/base/iso",
	"internal/engine/check",
	"internal/engine/verdict",
	"internal/peers/ranges",
	"internal/protocol/faults",
	"internal/protocol/outcome",
	"internal/protocol/scheme",
	"internal/protocol/transid",
	"internal/protocol/v1",
	"internal/protocol/v1/packing",
	"internal/protocol/xmldsig",
	"message",
	"message/extension",
}

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

// TestImports keeps the arrows between the wings true: each imports what stands below it.
func TestImports(t *testing.T) {
	seen := map[string]bool{}
	sources(t, parser.ImportsOnly, func(pkg, file string, f *ast.File) {
		if rest, isInternal := strings.CutPrefix(pkg, "internal/"); isInternal {
			wing, _, isInWing := strings.Cut(rest, "/")
			if !isInWing || !slices.Contains(wings, wing) {
				t.Errorf("%s is in none of the wings %v", pkg, wings)
			}
			seen[wing] = true
		}
		for _, spec := range f.Imports {
			dep, isOurs := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "github.com/openthreeds/threeds/")
			if isOurs && !mayImport(pkg, dep) {
				t.Errorf("%s imports %s, which does not stand below it: see ARCHITECTURE.md", file, dep)
			}
		}
	})
	if len(seen) != len(wings) {
		t.Errorf("of the wings %v there are only %v", wings, seen)
	}
}

// TestServerHasNoTestSuite: the server's binary carries nothing of the conformance suite, of the
// benchmarks and of tools.
func TestServerHasNoTestSuite(t *testing.T) {
	seen := imported(t, "cmd/threeds")
	for pkg := range seen {
		pkg = strings.TrimPrefix(pkg, "github.com/openthreeds/threeds/")
		if first, _, _ := strings.Cut(pkg, "/"); slices.Contains([]string{"testing", "tools"}, first) {
			t.Errorf("the server imports %s", pkg)
		}
	}
	if len(seen) < 20 {
		t.Errorf("the server imports %d packages of this module, fewer than there must be", len(seen))
	}
}

// TestCheckerOfBrowsersHasNoNetwork: browsers load nothing that makes connections with the checker of the
// documentation. It would send nothing, and be twice as large.
func TestCheckerOfBrowsersHasNoNetwork(t *testing.T) {
	seen := imported(t, "internal/edge/docsite/checker")
	for _, dep := range []string{"net", "net/http", "crypto/tls", "crypto/x509", "database/sql"} {
		for _, by := range seen[dep] {
			t.Errorf("%s imports %s, and the checker of the documentation imports %[1]s", by, dep)
		}
	}
	if len(seen["github.com/openthreeds/threeds/internal/protocol/inspect"]) == 0 {
		t.Error("the checker does not import what checks messages")
	}
}

// imported returns what a package imports, and what its imports of this module import. Each import has the packages
// that import it.
func imported(t *testing.T, by string) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	sources(t, parser.ImportsOnly, func(pkg, _ string, f *ast.File) {
		for _, spec := range f.Imports {
			imports[pkg] = append(imports[pkg], strings.Trim(spec.Path.Value, `"`))
		}
	})
	seen, visited := map[string][]string{}, map[string]bool{}
	var visit func(pkg string)
	visit = func(pkg string) {
		if visited[pkg] {
			return
		}
		visited[pkg] = true
		for _, dep := range imports[pkg] {
			seen[dep] = append(seen[dep], pkg)
			if ours, isOurs := strings.CutPrefix(dep, "github.com/openthreeds/threeds/"); isOurs {
				visit(ours)
			}
		}
	}
	visit(by)
	return seen
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

// TestMap compares the tree in ARCHITECTURE.md with the folders: it has every package, and no folder that is gone. Each
// dependency in go.mod has its reason in docs/design/libraries.md.
func TestMap(t *testing.T) {
	page, libraries, mod := text(t, "ARCHITECTURE.md"), text(t, "docs/design/libraries.md"), text(t, "go.mod")
	_, tree, _ := strings.Cut(page, "\n## The tree\n")
	tree, _, _ = strings.Cut(tree, "\n```\n\n")
	sources(t, parser.PackageClauseOnly, func(pkg, _ string, f *ast.File) {
		generator := f.Name.Name == "main" && strings.HasPrefix(pkg, "internal/")
		if pkg != "." && !generator && !regexp.MustCompile(`\b`+path.Base(pkg)+"/").MatchString(tree) {
			t.Errorf("%s is not in the tree", pkg)
		}
	})
	folders := regexp.MustCompile(`(?m)^((?:  )*)(\S+)/(?: |$)`).FindAllStringSubmatch(tree, -1)
	var above []string // the folders that a folder is in
	for _, m := range folders {
		depth := len(m[1]) / 2
		if depth > len(above) {
			t.Fatalf("the tree has %s/ two steps deeper than the line above", m[2])
		}
		above = append(above[:depth], m[2])
		folder := path.Join(above[1:]...) // without the root
		if info, err := os.Stat("./" + folder); err != nil || !info.IsDir() {
			t.Errorf("the tree has %s: %v", folder, err)
		}
	}
	_, reasons, _ := strings.Cut(libraries, "\n## Dependencies")
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
