package config

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/txtartest"
)

// A documentedKey is one key of the configuration: what it may be comes from the code that
// reads it, and what it is for from the comment of its field.
type documentedKey struct{ Path, Page, Standard, Doc string }

// documentedKeys are all keys in the order of the fields in config.go. They are those that
// the reader reads in the configuration that names everything.
func documentedKeys(t *testing.T) []documentedKey {
	t.Helper()
	read := map[string][2]string{}
	a, err := txtartest.ParseFile("testdata/config/full.txtar")
	must(t, err)
	l := newParser("threeds.yaml")
	group := regexp.MustCompile(`(oidc\.merchant(?:s|_groups))\.[a-z-]+`)
	item, version, scheme := regexp.MustCompile(`\[\d+\]`), regexp.MustCompile(`(reference_numbers)\.[0-9.]+`), regexp.MustCompile(`(\]\.per_directory)\.[a-z]+`)
	l.described = func(path, page, standard string) {
		path = item.ReplaceAllString(path, "[]")
		path = version.ReplaceAllString(path, "$1.VERSION")
		path = group.ReplaceAllString(path, "$1.GROUP")
		path = scheme.ReplaceAllString(path, "$1.SCHEME")
		if page == "section" && standard == "" && read[path] != [2]string{} {
			return
		}
		read[path] = [2]string{page, standard}
	}
	l.parseFile(a.Files[0].Data)
	var all []documentedKey
	for path, doc := range fieldComments(t) {
		k, ok := read[path]
		if doc == "" && (!ok || k[0] == "section") {
			continue // a list of sections, or a section that is always there
		}
		if !ok {
			t.Errorf("%s has a field in config.go and is not read", path)
		}
		all = append(all, documentedKey{path, k[0], k[1], doc})
		delete(read, path)
	}
	for path, k := range read {
		if k[0] != "section" {
			t.Errorf("%s is read and has no field with its name in config.go", path)
		}
	}
	return all
}

// fieldComments yields the comment of each field in config.go by the path of its key.
func fieldComments(t *testing.T) iter.Seq2[string, string] {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	must(t, err)
	types := map[string]*ast.StructType{}
	ast.Inspect(f, func(n ast.Node) bool {
		if ts, ok := n.(*ast.TypeSpec); ok {
			if st, ok := ts.Type.(*ast.StructType); ok {
				types[ts.Name.Name] = st
			}
		}
		return true
	})
	return func(yield func(string, string) bool) {
		var walk func(st *ast.StructType, path string)
		walk = func(st *ast.StructType, path string) {
			for _, field := range st.Fields.List {
				if field.Tag == nil {
					continue
				}
				text, err := strconv.Unquote(field.Tag.Value)
				must(t, err)
				at := join(path, reflect.StructTag(text).Get("yaml"))
				inner, many := structOf(field.Type, types)
				switch {
				case many == "map" && strings.Contains(at, "oidc.merchant"):
					at += ".GROUP"
				case many == "map" && inner == nil:
					at += ".VERSION"
				case many == "map":
					at += ".SCHEME"
				case many == "list":
					at += "[]"
				}
				yield(at, strings.Join(strings.Fields(field.Doc.Text()), " "))
				if inner != nil {
					walk(inner, at)
				}
			}
		}
		walk(types["Config"], "")
	}
}

// structOf finds the struct behind a field's type, and whether it is a list or
// a map of them.
func structOf(e ast.Expr, types map[string]*ast.StructType) (st *ast.StructType, many string) {
	switch e := e.(type) {
	case *ast.StructType:
		return e, ""
	case *ast.Ident:
		return types[e.Name], ""
	case *ast.StarExpr:
		st, _ = structOf(e.X, types)
		return st, ""
	case *ast.ArrayType:
		st, _ = structOf(e.Elt, types)
		return st, "list"
	case *ast.MapType:
		st, _ = structOf(e.Value, types)
		return st, "map"
	}
	return nil, ""
}

// TestConfigurationPage holds the table of the reference page against config.go.
func TestConfigurationPage(t *testing.T) {
	const page, start, end = "../../../docs/configuration.md", "<!-- keys: generated from internal/run/config/config.go -->\n", "<!-- end of keys -->\n"
	var table strings.Builder
	table.WriteString("\n| Key | Value | Default | |\n| --- | --- | --- | --- |\n")
	for _, k := range documentedKeys(t) {
		if k.Doc == "" {
			t.Errorf("%s has no comment in config.go", k.Path)
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", k.Path, k.Page, k.Standard, k.Doc)
	}
	table.WriteString("\n")
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	i, j := bytes.Index(data, []byte(start)), bytes.Index(data, []byte(end))
	if i < 0 || j < i {
		t.Fatalf("%s has lost the marks around its table", page)
	}
	if *update {
		write(t, page, []byte(string(data[:i])+start+table.String()+string(data[j:])))
		return
	}
	if got := string(data[i+len(start) : j]); got != table.String() {
		t.Errorf("%s differs from config.go; run go test ./internal/run/config -update", page)
	}
}

// TestConfigurationExample reads the file that the page shows.
func TestConfigurationExample(t *testing.T) {
	page, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, ok := strings.Cut(text, "```\n")
	if !ok {
		t.Fatal("the page shows no file")
	}
	if err := parseConfig("threeds.yaml", []byte(text)).err(); err != nil {
		t.Error(err)
	}
}

// TestReloadPageNamesWhatNeedsARestart: the table of the page has each key that a running process cannot change, and no
// other.
func TestReloadPageNamesWhatNeedsARestart(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operating/reload.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "| Changes while the server serves | Needs a restart |\n")
	if table, _, _ = strings.Cut(table, "\n\n"); !ok {
		t.Fatal("the page has lost its table")
	}
	named := map[string]bool{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) != 4 {
			t.Fatalf("a row of the table has %d cells: %s", len(cells)-2, row)
		}
		cell, _, _ := strings.Cut(cells[2], ", except ")
		for _, key := range regexp.MustCompile("`([a-z_.]+)`").FindAllStringSubmatch(cell, -1) {
			named[key[1]] = true
		}
	}
	c := newParser("threeds.yaml").config
	sections := map[string]bool{}
	for _, fixed := range c.fixedKeys(c) {
		section, _, _ := strings.Cut(fixed.path, ".")
		sections[section] = true
		if !named[fixed.path] && fixed.path != "journal" { // which the table has as "journal: off"
			t.Errorf("%s needs a restart, and the table does not say so", fixed.path)
		}
		delete(named, fixed.path)
	}
	for key := range named {
		if !sections[key] {
			t.Errorf("the table says that %s needs a restart, and it does not", key)
		}
	}
}
