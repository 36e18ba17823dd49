package config

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// configKey is one key of the configuration as its tags and comment have it.
type configKey struct {
	Path, As, In, Default, Doc string
	Needed                     bool
}

// keysOf reads config.go and lists its keys in the order of the file.
func keysOf(t *testing.T) []configKey {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]*ast.StructType{}
	ast.Inspect(f, func(n ast.Node) bool {
		if ts, ok := n.(*ast.TypeSpec); ok {
			if st, ok := ts.Type.(*ast.StructType); ok {
				types[ts.Name.Name] = st
			}
		}
		return true
	})
	var keys []configKey
	var walk func(st *ast.StructType, path string)
	walk = func(st *ast.StructType, path string) {
		for _, field := range st.Fields.List {
			if field.Tag == nil {
				continue
			}
			text, err := strconv.Unquote(field.Tag.Value)
			if err != nil {
				t.Fatal(err)
			}
			tag := reflect.StructTag(text)
			k := configKey{
				Path: join(path, tag.Get("yaml")), As: tag.Get("as"), In: tag.Get("in"), Default: tag.Get("default"),
				Doc: strings.Join(strings.Fields(field.Doc.Text()), " "), Needed: tag.Get("need") != "",
			}
			inner, list := structOf(field.Type, types)
			switch {
			case list == "map" && tag.Get("as") == "":
				k.Path += ".SCHEME"
			case list == "map":
				k.Path += ".VERSION"
			case list == "list":
				k.Path += "[]"
			}
			if k.As != "" || inner == nil || k.Doc != "" {
				keys = append(keys, k)
			}
			if inner != nil && k.As == "" {
				walk(inner, k.Path)
			}
		}
	}
	walk(types["Config"], "")
	return keys
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

// value says in words what the key may be.
func (k configKey) value() string {
	switch k.As {
	case "":
		return "section"
	case "word":
		return "`" + strings.Join(strings.Fields(k.In), "`, `") + "`"
	case "version":
		return "list of `" + strings.Join(Versions, "`, `") + "`"
	case "host":
		return "list of host names"
	}
	doc := kinds[k.As].doc
	if low, high, ok := strings.Cut(k.In, ".."); ok {
		if k.As == "text" {
			return fmt.Sprintf("%s, %s to %s characters", doc, low, high)
		}
		return fmt.Sprintf("%s; %s to %s", doc, low, high)
	}
	return doc
}

func (k configKey) standard() string {
	switch {
	case k.Needed:
		return "required"
	case k.Default != "":
		return "`" + k.Default + "`"
	}
	return ""
}

// TestConfigurationPage holds the table of the reference page against config.go.
func TestConfigurationPage(t *testing.T) {
	const page, start, end = "../../docs/configuration.md", "<!-- keys: generated from internal/config/config.go -->\n", "<!-- end of keys -->\n"
	var table strings.Builder
	table.WriteString("\n| Key | Value | Default | |\n| --- | --- | --- | --- |\n")
	for _, k := range keysOf(t) {
		if k.Doc == "" {
			t.Errorf("%s has no comment in config.go", k.Path)
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", k.Path, k.value(), k.standard(), k.Doc)
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
		t.Errorf("%s differs from config.go; run go test ./internal/config -update", page)
	}
}

// TestConfigurationExample reads the file that the page shows.
func TestConfigurationExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
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
