package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/openthreeds/threeds/api"
)

// TestF4ANewTypeOfEventsReachesEveryDocument: a row in the table of events is all that the description, the types for
// Node and the page of webhooks need.
func TestF4ANewTypeOfEventsReachesEveryDocument(t *testing.T) {
	for _, row := range []api.EventRow{
		{Type: "authentication.challenged", Audience: api.ForMerchant, Event: api.Event[api.AuthenticationSummary]{}, When: "the issuer challenges"},
		{Type: "store.full", Audience: api.ForOperator, Event: api.Event[api.RangesStale]{}, When: "the store is full"},
	} {
		files := make(map[string][]byte)
		if err := addShapes(files, root, append(api.EventTypes(), row)); err != nil {
			t.Fatal(err)
		}
		for name, wants := range map[string][]string{
			"docs/openapi.yaml": {"\n  " + string(row.Type) + ":\n    post:", "- \"" + string(row.Type) + "\"\n"},
			nodeTypes:           {`"` + string(row.Type) + `"`},
			eventsPage:          {"| `" + string(row.Type) + "` | " + row.When + " |"},
		} {
			for _, want := range wants {
				if !strings.Contains(string(files[name]), want) {
					t.Errorf("%s: %s has no %q", row.Type, name, want)
				}
			}
		}
		if choice := strings.Contains(string(files[adminDescription]), `"`+string(row.Type)+`"`); choice != (row.Audience == api.ForMerchant) {
			t.Errorf("%s may be chosen for an endpoint of a merchant: %t", row.Type, choice)
		}
	}
}

// packageFiles returns the files of a package that are no tests, by the path of its folder.
func packageFiles(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(names), err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// TestF4EveryTypeOfEventsHasARowAndAnEmitter: each constant of the type EventType is in the table of events, and
// something that runs in the server tells events of it.
func TestF4EveryTypeOfEventsHasARowAndAnEmitter(t *testing.T) {
	used := make(map[string]bool)
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "test/") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range regexp.MustCompile(`\bapi\.(Event\w+)\b`).FindAllSubmatch(text, -1) {
			used[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	constants := 0
	for _, f := range packageFiles(t, "api") {
		for _, decl := range f.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST {
				continue
			}
			for _, spec := range d.Specs {
				v := spec.(*ast.ValueSpec)
				if of, ok := v.Type.(*ast.Ident); !ok || of.Name != "EventType" {
					continue
				}
				constants++
				word := strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`)
				if !slices.ContainsFunc(api.EventTypes(), func(row api.EventRow) bool { return string(row.Type) == word }) {
					t.Errorf("%s is not in the table of events", v.Names[0].Name)
				}
				if !used[v.Names[0].Name] {
					t.Errorf("nothing in internal/ tells events of type api.%s", v.Names[0].Name)
				}
			}
		}
	}
	if constants != len(api.EventTypes()) {
		t.Errorf("%d constants, and %d rows", constants, len(api.EventTypes()))
	}
}

// TestF4EveryMemberIsInADescription: each member of each type of package api is in docs/openapi.yaml or in the
// description of the admin API, under a schema of the type's name. The files are read as they are checked in.
func TestF4EveryMemberIsInADescription(t *testing.T) {
	schemas := make(map[string]map[string]any) // members by schema
	note := func(all map[string]any) {
		for name, schema := range all {
			properties, _ := schema.(map[string]any)["properties"].(map[string]any)
			schemas[name] = properties
		}
	}
	text, err := os.ReadFile(filepath.Join(root, adminDescription))
	if err != nil {
		t.Fatal(err)
	}
	var admin struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(text, &admin); err != nil {
		t.Fatal(err)
	}
	note(admin.Components.Schemas)
	if text, err = os.ReadFile(filepath.Join(root, "docs/openapi.yaml")); err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	note(resolve(doc, "#/components/schemas").(map[string]any))
	members := 0
	for _, f := range packageFiles(t, "api") {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			of, ok := spec.Type.(*ast.StructType)
			if !ok || spec.Name.Name == "EventRow" {
				return false
			}
			for _, field := range of.Fields.List {
				if field.Tag == nil || isUntypedField(field) {
					continue
				}
				name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
				if name == "" {
					continue
				}
				members++
				found := false
				for schema, properties := range schemas {
					_, has := properties[name]
					found = found || has && (schema == spec.Name.Name || spec.TypeParams != nil && strings.HasSuffix(schema, spec.Name.Name))
				}
				if !found {
					t.Errorf("no description has the member %s of %s", name, spec.Name.Name)
				}
			}
			return false
		})
	}
	if members < 150 {
		t.Errorf("%d members are fewer than there must be", members)
	}
}

// isUntypedField reports whether a field may hold any JSON.
func isUntypedField(f *ast.Field) bool {
	of, ok := f.Type.(*ast.SelectorExpr)
	return ok && of.Sel.Name == "RawMessage" && !strings.Contains(f.Tag.Value, "schema:")
}

// TestShapesSayWhatIsWrong: a tag that is not understood, and a type without a comment, are errors that name it.
func TestShapesSayWhatIsWrong(t *testing.T) {
	if _, err := parseRules("least=1"); err == nil || !strings.Contains(err.Error(), "least=1") {
		t.Errorf("a tag: %v, want an error that names least=1", err)
	}
	if _, err := newShapeBook(root, api.EventTypes(), []any{undescribed{}}); err == nil || !strings.Contains(err.Error(), "undescribed has no comment") {
		t.Errorf("a type without a comment: %v", err)
	}
}

type undescribed struct{}
