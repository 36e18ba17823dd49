package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// A tree is what is written, by file: names that are declared or told to the
// machine, and prose for readers.
type tree struct {
	prose   map[string]string // comments, pages, the Makefile; by path
	files   map[string]bool   // of Go, by base name
	tests   map[string]bool   // functions of tests
	metrics map[string]bool   // literals that look like one, in what is no test
	names   map[string]bool   // what packages declare, as pkg.Name and pkg.Type.Name
}

var metric = regexp.MustCompile(`^"threeds_[a-z_]+"$`)

// readTree reads the whole tree, once. Its result must not be changed.
func readTree(t *testing.T) *tree {
	t.Helper()
	w, err := written()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

var written = sync.OnceValues(func() (*tree, error) {
	w := &tree{map[string]string{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	return w, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "testdata" || name == "artifacts"):
			return fs.SkipDir
		case strings.HasSuffix(name, ".go"):
			return w.source(path)
		case strings.HasSuffix(name, ".md"), name == "Makefile":
			text, err := os.ReadFile(path)
			w.prose[path] = string(text)
			return err
		}
		return nil
	})
})

func (w *tree) source(path string) error {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	w.files[filepath.Base(path)] = true
	for _, c := range f.Comments {
		w.prose[path] += c.Text()
	}
	test := strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, filepath.Join(root, "testing"))
	pkg := filepath.Base(filepath.Dir(path)) + "."
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			w.tests[n.Name.Name] = w.tests[n.Name.Name] || test
			w.names[pkg+of(n.Recv)+n.Name.Name] = true
		case *ast.TypeSpec:
			w.names[pkg+n.Name.Name] = true
		case *ast.ValueSpec:
			for _, name := range n.Names {
				w.names[pkg+name.Name] = true
			}
		case *ast.BasicLit:
			if !test && metric.MatchString(n.Value) {
				w.metrics[strings.Trim(n.Value, `"`)] = true
			}
		}
		return true
	})
	return nil
}

// of is "Type." for the receiver of a method.
func of(receiver *ast.FieldList) string {
	if receiver == nil {
		return ""
	}
	t := receiver.List[0].Type
	if pointer, ok := t.(*ast.StarExpr); ok {
		t = pointer.X
	}
	if name, ok := t.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// TestNamesInProseExist: what a page or a comment calls by name is there: tests, files of Go,
// targets of the Makefile, metrics, keys of the configuration, invariants, and rows of
// docs/api.md. That rows have tests is checked by the root package.
func TestNamesInProseExist(t *testing.T) {
	w := readTree(t)
	makefile := w.prose[filepath.Join(root, "Makefile")]
	long, err := os.ReadFile(filepath.Join(root, "testing/long/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	keys, built := w.prose[filepath.Join(root, "docs/configuration.md")], w.prose[filepath.Join(root, "docs/design/invariants.md")]
	for _, kind := range []struct {
		what, pattern string
		least         int
		there         func(name string) bool
	}{
		{"a test", `(?:^|[^.^\w])((?:Test|Benchmark|Fuzz)[A-Z]\w*)`, 30, func(name string) bool { return w.tests[name] }},
		{"a test to run", `\^(Test\w+)\$`, 15, func(name string) bool { return w.tests[name] }},
		{"a file", `(?:^|[^.\w])([a-z]\w*\.go)\b`, 10, func(name string) bool { return w.files[name] }},
		{"a target", "`make ([a-z-]+)", 10, func(name string) bool { return strings.Contains(makefile, "\n"+name+":") }},
		{"a long run", "run ./long ([a-z-]+)", 15, func(name string) bool { return strings.Contains(string(long), "\t{\""+name+"\", ") }},
		{"a metric", "`(threeds_[a-z_]+)", 25, func(name string) bool { return w.metrics[name] }},
		{"a key", "`((?:api|results|store|console|limits|log|server|timeouts|forward_proxy)\\.[a-z_]+)[^.\\w]", 40, func(name string) bool {
			return strings.Contains(keys, "\n| `"+name+"` |") || strings.Contains(keys, "\n| `"+name+"[]` |")
		}},
		{"an invariant", `\b(I[0-9]+)\b`, 20, func(name string) bool { return strings.Contains(built, "**"+name+"**") }},
		{"a row", `\b([GRM][0-9]{1,2})\b`, 30, func(name string) bool {
			return strings.Contains(w.prose[filepath.Join(root, "docs/api.md")], "\n| "+name+" |")
		}},
	} {
		n, pattern := 0, regexp.MustCompile(kind.pattern)
		for path, text := range w.prose {
			for _, m := range pattern.FindAllStringSubmatch(text, -1) {
				if n++; !kind.there(m[1]) {
					t.Errorf("%s names %s %s, which is not there", path, kind.what, m[1])
				}
			}
		}
		if n < kind.least {
			t.Errorf("%s is named %d times, want %d at least", kind.what, n, kind.least)
		}
	}
}

// TestDocLinks: a name that a comment has in brackets, behind its type or its package,
// leads to a declaration, if it is of ours.
func TestDocLinks(t *testing.T) {
	w := readTree(t)
	ours := map[string]bool{}
	for path := range w.prose {
		ours[filepath.Base(filepath.Dir(path))] = true
	}
	link := regexp.MustCompile(`\[((?:[a-z]\w*\.)?)([A-Z]\w*[a-z]\w*(?:\.[A-Z]\w*)?)\]`)
	n := 0
	for path, text := range w.prose {
		if filepath.Ext(path) != ".go" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			pkg, name := strings.TrimSuffix(m[1], "."), m[2]
			if pkg == "" {
				pkg = filepath.Base(filepath.Dir(path))
			}
			if n++; ours[pkg] && !w.names[pkg+"."+name] {
				t.Errorf("%s links to %s, which is not there", path, m[0])
			}
		}
	}
	if n < 60 {
		t.Errorf("%d links found, want 60 at least", n)
	}
}

// TestMetrics: the table for operators has every metric of the program.
func TestMetrics(t *testing.T) {
	w := readTree(t)
	_, table, _ := strings.Cut(w.prose[filepath.Join(root, "docs/operating/metrics.md")], "\n## Metrics\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for name := range w.metrics {
		if !strings.Contains(table, "`"+name+"`") {
			t.Errorf("operating/metrics.md has no %s", name)
		}
	}
	if n := len(w.metrics); n < 25 {
		t.Errorf("%d metrics found, want 25 at least", n)
	}
}

// TestProseIsWrapped: prose that is written by hand ends its lines by 120 characters. What is
// generated, tables and what is for a machine go on.
func TestProseIsWrapped(t *testing.T) {
	code, generated := regexp.MustCompile("(?ms)^ *```.*?^ *```$"), regexp.MustCompile(`(?s)<!-- .*? generated .*`)
	n := 0
	for path, text := range readTree(t).prose {
		if filepath.Ext(path) != ".md" || filepath.Base(path) == "conformance.md" || strings.Contains(path, "reference") {
			continue
		}
		n++
		text = generated.ReplaceAllString(code.ReplaceAllString(text, ""), "")
		for line := range strings.Lines(text) {
			if long := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); long > 120 && !strings.HasPrefix(line, "|") {
				t.Errorf("%s: %d characters in %.50q", path, long, line)
			}
		}
	}
	if n < 20 {
		t.Errorf("%d pages, want 20 at least", n)
	}
}

// TestTemplatesAreReadable: a line of a page's template ends by 120 characters, and begins no more than one of the
// elements that stand as a block, so that a change of a page can be read.
func TestTemplatesAreReadable(t *testing.T) {
	block := regexp.MustCompile(`<(?:div|section|aside|p|h\d|table|thead|tbody|tr|t[dh]|[uo]l|li|d[ltd]|form|fieldset|label|select|option|details|summary)[ >]`)
	n := 0
	for _, dir := range []string{"internal", "sandbox"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".html" {
				return err
			}
			n++
			text, err := os.ReadFile(path)
			for line := range strings.Lines(string(text)) {
				if long := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); long > 120 {
					t.Errorf("%s: %d characters in %.70q", path, long, line)
				}
				if blocks := block.FindAllString(line, -1); len(blocks) > 1 {
					t.Errorf("%s: %q begin in one line: %.70q", path, blocks, line)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 40 {
		t.Errorf("%d templates, want 40 at least", n)
	}
}
