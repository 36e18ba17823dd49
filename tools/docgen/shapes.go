package main

import (
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"

	"github.com/openthreeds/threeds/api"
)

// apiRoots returns a value of each shape that an operation of docs/openapi.yaml or an event has. The shapes that these
// are made of follow from them.
func apiRoots(events []api.EventRow) []any {
	type event = api.Event[api.AuthenticationSummary]
	roots := []any{
		api.Authentication{}, api.AuthenticationRequest{}, api.AuthenticationSearch{}, api.List[api.AuthenticationSummary]{},
		api.TransIDRequest{}, api.LookupRequest{}, api.Lookup{}, api.ExplainRequest{}, api.Explanation{}, api.Problem{},
		api.Endpoint{}, api.EndpointChange{}, api.List[api.Endpoint]{}, api.Secret{}, api.DeliveryTest{},
		api.EventWithDeliveries[api.AuthenticationSummary]{}, api.List[event]{}, api.EventID{},
		api.Enrollment{}, api.CheckRequest{}, api.Checked{}, api.MPIError{},
	}
	for _, row := range events {
		roots = append(roots, row.Event)
	}
	return roots
}

// A shape is a type of Go that travels as JSON, as far as its description needs it.
type shape struct {
	name    string
	comment string
	words   []string // of a type of strings that has a closed list of them
	members []member
	open    string // additionalProperties; "" if the shape does not say
}

// A member is one member of a shape.
type member struct {
	name       string
	comment    string
	kind       reflect.Type
	isOptional bool
	rules      map[string]string // of the tag schema
	words      []string          // that are allowed here alone
}

// A shapeBook collects shapes, each after those that refer to it.
type shapeBook struct {
	root     string // of the module
	events   []api.EventRow
	comments map[string]*sourceComments // by package
	shapes   []*shape
	types    []reflect.Type // that are to be described, or were; grows
}

// newShapeBook returns the shapes of some values, and of all that they are made of.
func newShapeBook(root string, events []api.EventRow, values []any) (*shapeBook, error) {
	b := &shapeBook{root: root, events: events, comments: make(map[string]*sourceComments)}
	for _, v := range values {
		b.note(reflect.TypeOf(v))
	}
	for i := 0; i < len(b.types); i++ { // grows while it runs
		s, err := b.describe(b.types[i])
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(b.shapes, func(other *shape) bool { return other.name == s.name }) {
			return nil, fmt.Errorf("docgen: two types are called %s, one of them %s", s.name, b.types[i])
		}
		b.shapes = append(b.shapes, s)
	}
	return b, nil
}

var (
	timeType      = reflect.TypeFor[time.Time]()
	textType      = reflect.TypeFor[api.Text]()
	bytesType     = reflect.TypeFor[[]byte]()
	rawType       = reflect.TypeFor[json.RawMessage]()
	eventTypeType = reflect.TypeFor[api.EventType]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// isNamed reports whether a type has a shape of its own: a struct, or strings with a closed list of words.
func (b *shapeBook) isNamed(t reflect.Type) bool {
	switch {
	case t == timeType, t == textType, t.Implements(textMarshaler):
		return false
	case t.Kind() == reflect.Struct:
		return t.Name() != ""
	}
	return t.Kind() == reflect.String && t.PkgPath() != "" && len(b.wordsOf(t)) > 0
}

// note adds the types with a shape that a type is made of.
func (b *shapeBook) note(t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		if t == rawType {
			return
		}
		t = t.Elem()
	}
	if b.isNamed(t) && !slices.Contains(b.types, t) {
		b.types = append(b.types, t)
	}
}

// describe returns the shape of a type.
func (b *shapeBook) describe(t reflect.Type) (*shape, error) {
	source, err := b.commentsOf(t)
	if err != nil {
		return nil, err
	}
	s := &shape{name: shapeName(t), comment: source.types[plainName(t)]}
	if t.Kind() == reflect.String {
		s.words = b.wordsOf(t)
		return s, nil
	}
	if s.comment == "" {
		return nil, fmt.Errorf("%s has no comment, which documents show", t)
	}
	err = b.addMembers(s, t)
	for i := range s.members {
		b.note(s.members[i].kind)
	}
	return s, err
}

// addMembers adds the members of a struct, and those of structs that it embeds. The first of a name counts.
func (b *shapeBook) addMembers(s *shape, t reflect.Type) error {
	source, err := b.commentsOf(t)
	if err != nil {
		return err
	}
	for f := range t.Fields() {
		rules, err := parseRules(f.Tag.Get("schema"))
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Name == "_":
			s.open = rules["additionalProperties"]
			continue
		case name == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && name == "":
			of := f.Type
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			if err := b.addMembers(s, of); err != nil {
				return err
			}
			continue
		case name == "":
			return fmt.Errorf("%s.%s has no name in JSON", t, f.Name)
		}
		if slices.ContainsFunc(s.members, func(m member) bool { return m.name == name }) {
			continue
		}
		m := member{
			name: name, comment: source.fields[plainName(t)+"."+f.Name], kind: f.Type, rules: rules,
			isOptional: strings.Contains(options, "omit"),
		}
		if f.Type == eventTypeType && strings.HasPrefix(t.Name(), "Event[") {
			m.words = b.typesOfEvent(t)
		}
		if words := rules["enum"]; words != "" {
			m.words = strings.Split(words, "|")
		}
		s.members = append(s.members, m)
	}
	return nil
}

// typesOfEvent returns the types of events that have a shape.
func (b *shapeBook) typesOfEvent(t reflect.Type) (types []string) {
	for _, row := range b.events {
		if reflect.TypeOf(row.Event) == t {
			types = append(types, string(row.Type))
		}
	}
	return types
}

// ruleNames are the words of JSON Schema that the tag schema may have.
var ruleNames = []string{"type", "format", "pattern", "enum", "minLength", "maxLength", "minimum", "maximum", "additionalProperties"}

// parseRules reads a tag such as "minLength=1 maxLength=64".
func parseRules(tag string) (map[string]string, error) {
	rules := make(map[string]string)
	for word := range strings.FieldsSeq(tag) {
		name, value, ok := strings.Cut(word, "=")
		if !ok || !slices.Contains(ruleNames, name) {
			return nil, fmt.Errorf("the tag schema has %q: want NAME=VALUE with a name among %v", word, ruleNames)
		}
		rules[name] = value
	}
	return rules, nil
}

// plainName is the name of a type without the types that it is made with.
func plainName(t reflect.Type) string {
	name, _, _ := strings.Cut(t.Name(), "[")
	return name
}

// shapeName is the name of a type in documents: EndpointList for a List of Endpoint. In front of the name of one that
// is not in package api, or beside the operations of the admin API, stands its package.
func shapeName(t reflect.Type) string { return nameOf(t.PkgPath() + "." + t.Name()) }

func nameOf(name string) string {
	outer, inner, isGeneric := strings.Cut(strings.TrimPrefix(name, "*"), "[")
	pkg, outer, _ := strings.Cut(outer[strings.LastIndexByte(outer, '/')+1:], ".")
	switch {
	case isGeneric:
		return strings.TrimSuffix(nameOf(strings.TrimSuffix(inner, "]")), "Summary") + outer
	case pkg == "api" || pkg == "admin":
		return outer
	}
	return strings.ToUpper(pkg[:1]) + pkg[1:] + outer
}

// sourceComments are the comments of a package.
type sourceComments struct {
	types  map[string]string
	fields map[string]string   // by Type.Field
	words  map[string][]string // the constants of a type of strings, in their order
}

const modulePath = "github.com/openthreeds/threeds/"

// commentsOf returns the comments of the package of a type.
func (b *shapeBook) commentsOf(t reflect.Type) (*sourceComments, error) {
	dir, ok := strings.CutPrefix(t.PkgPath()+"/", modulePath)
	if !ok {
		return nil, fmt.Errorf("%s is a type of another module", t)
	}
	if c := b.comments[dir]; c != nil {
		return c, nil
	}
	files, err := filepath.Glob(filepath.Join(b.root, filepath.FromSlash(dir), "*.go"))
	if err != nil {
		return nil, err
	}
	c := &sourceComments{make(map[string]string), make(map[string]string), make(map[string][]string)}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.GenDecl); ok {
				c.read(d)
			}
		}
	}
	b.comments[dir] = c
	return c, nil
}

// read reads a declaration.
func (c *sourceComments) read(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			c.types[spec.Name.Name] = commentText(spec.Doc, d.Doc)
			if of, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range of.Fields.List {
					for _, name := range f.Names {
						c.fields[spec.Name.Name+"."+name.Name] = commentText(f.Doc, f.Comment)
					}
				}
			}
		case *ast.ValueSpec:
			of, ok := spec.Type.(*ast.Ident)
			if d.Tok != token.CONST || !ok || len(spec.Values) != 1 {
				continue
			}
			if value, ok := spec.Values[0].(*ast.BasicLit); ok && value.Kind == token.STRING {
				if word, err := strconv.Unquote(value.Value); err == nil {
					c.words[of.Name] = append(c.words[of.Name], word)
				}
			}
		}
	}
}

var docLink = regexp.MustCompile(`\[\*?([A-Za-z][A-Za-z.]*)\]`)

// commentText returns the first of some comments that says something, on one line and as a sentence.
func commentText(groups ...*ast.CommentGroup) string {
	for _, g := range groups {
		text := strings.Join(strings.Fields(g.Text()), " ")
		if text == "" {
			continue
		}
		text = docLink.ReplaceAllString(text, "$1")
		if first, _, _ := strings.Cut(text, " "); first == strings.ToLower(first) {
			text = string(unicode.ToUpper(rune(text[0]))) + text[1:]
		}
		return strings.TrimRight(text, ".") + "."
	}
	return ""
}

// wordsOf returns the closed list of a type of strings; none if it has no list. Of events it has those that
// merchants may ask for.
func (b *shapeBook) wordsOf(t reflect.Type) []string {
	if t == eventTypeType {
		var words []string
		for _, row := range b.events {
			if row.Audience == api.ForMerchant {
				words = append(words, string(row.Type))
			}
		}
		return words
	}
	c, err := b.commentsOf(t)
	if err != nil {
		return nil
	}
	return c.words[t.Name()]
}

// schemas returns the schemas of all shapes, in the order of their names.
func (b *shapeBook) schemas() (all object) {
	sorted := slices.SortedFunc(slices.Values(b.shapes), func(a, c *shape) int { return strings.Compare(a.name, c.name) })
	for _, s := range sorted {
		put(&all, s.name, b.schema(s))
	}
	return all
}

// schema returns the schema of a shape.
func (b *shapeBook) schema(s *shape) object {
	if s.words != nil {
		return object{{Key: "type", Value: "string"}, {Key: "description", Value: s.comment}, {Key: "enum", Value: enumOf(s.words)}}
	}
	o := object{{Key: "type", Value: "object"}, {Key: "description", Value: s.comment}}
	var required []string
	var properties object
	for i := range s.members {
		m := &s.members[i]
		if m.isUntyped() { // generators of clients cannot read a member that may be anything
			s.open = "true"
			continue
		}
		if !m.isOptional {
			required = append(required, m.name)
		}
		put(&properties, m.name, b.property(m))
	}
	if required != nil {
		put(&o, "required", required)
	}
	put(&o, "properties", properties)
	if s.open != "" {
		put(&o, "additionalProperties", s.open == "true")
	}
	return o
}

// isUntyped reports whether a member may be any value.
func (m *member) isUntyped() bool {
	return m.kind == rawType && m.rules["type"] == "" || m.kind.Kind() == reflect.Interface
}

// isNullable reports whether a member that is always there may be null.
func (m *member) isNullable() bool {
	return !m.isOptional && (m.kind == textType || m.kind.Kind() == reflect.Pointer || strings.HasSuffix(m.rules["type"], "?"))
}

// property returns the schema of a member.
func (b *shapeBook) property(m *member) object {
	o := b.value(m.kind, m)
	if m.isNullable() {
		if o[0].Key == "$ref" {
			o = object{{Key: "oneOf", Value: []any{o, object{{Key: "type", Value: "null"}}}}}
		} else {
			o[0].Value = []string{o[0].Value.(string), "null"}
		}
	}
	if m.comment != "" {
		o = append(o, yaml.MapItem{Key: "description", Value: m.comment})
	}
	return o
}

// value returns the schema of a type where a member has it. The first key is type or $ref.
func (b *shapeBook) value(t reflect.Type, m *member) object {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(m.words) == 0 && b.isNamed(t) {
		return object{{Key: "$ref", Value: "#/components/schemas/" + shapeName(t)}}
	}
	kind := ""
	switch {
	case t == rawType:
		return object{{Key: "type", Value: strings.TrimSuffix(m.rules["type"], "?")}, {Key: "additionalProperties", Value: true}}
	case t == timeType:
		return object{{Key: "type", Value: "string"}, {Key: "format", Value: "date-time"}}
	case t == bytesType:
		return object{{Key: "type", Value: "string"}, {Key: "contentEncoding", Value: "base64"}}
	case t.Kind() == reflect.Slice:
		return object{{Key: "type", Value: "array"}, {Key: "items", Value: b.value(t.Elem(), m)}}
	case t.Kind() == reflect.Map:
		return object{{Key: "type", Value: "object"}, {Key: "additionalProperties", Value: b.value(t.Elem(), m)}}
	case t.Kind() == reflect.String, t.Implements(textMarshaler):
		kind = "string"
	case t.Kind() == reflect.Bool:
		kind = "boolean"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		kind = "integer"
	case t.Kind() == reflect.Float64:
		kind = "number"
	default:
		panic(fmt.Sprintf("docgen: there is no schema for %s, the type of %s", t, m.name))
	}
	o := object{{Key: "type", Value: kind}}
	if m.words != nil {
		words := enumOf(m.words)
		if m.isNullable() {
			words = append(words, nil)
		}
		put(&o, "enum", words)
	}
	for _, name := range ruleNames {
		value := m.rules[name]
		number, err := strconv.Atoi(value)
		switch {
		case value == "" || name == "enum" || name == "type":
		case err == nil && strings.HasPrefix(name, "m"):
			put(&o, name, number)
		default:
			put(&o, name, value)
		}
	}
	return o
}

// enumOf returns words for an enum.
func enumOf(words []string) (codes []any) {
	for _, word := range words {
		codes = append(codes, code(word))
	}
	return codes
}
