package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/openthreeds/threeds/internal/revocation"
)

// A fault is one thing wrong with a configuration, or one to warn of.
type fault struct {
	line, col int
	path      string // "directories[0].areq_url", empty for the file as a whole
	text      string // what is wrong, and in brackets what is allowed; never a value
}

// configError is everything wrong with one file, in the order of the file.
type configError struct {
	file   string
	faults []fault
}

// Error has one line per fault: FILE:LINE:COL: key: what is wrong.
func (e *configError) Error() string {
	lines := make([]string, len(e.faults))
	for i, f := range e.faults {
		lines[i] = f.in(e.file)
	}
	return strings.Join(lines, "\n")
}

func (f fault) in(file string) string {
	if f.path == "" {
		return fmt.Sprintf("%s:%d:%d: %s", file, f.line, f.col, f.text)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", file, f.line, f.col, f.path, f.text)
}

// Read reads the file and checks all of it but the certificates it
// names: the key commands need none of them.
func Read(file string) (*Config, error) {
	l, err := newLoader(file)
	if err != nil {
		return nil, err
	}
	return l.finish()
}

// Parse is Read for a file whose content is data.
func Parse(file string, data []byte) (*Config, error) { return parseConfig(file, data).finish() }

// Load reads a configuration file and the files that it names, ready to serve. now is what
// certificates are held against. The files that were read are returned with an error too.
func Load(file string, now time.Time) (*Config, Files, error) {
	l, err := newLoader(file)
	if err != nil {
		return nil, nil, err
	}
	c, err := l.load(now)
	return c, l.files, err
}

// Reload reads the file again for a process in which c is in use. It refuses what a running
// process cannot change. A part of the server whose files cannot be used keeps those of c
// and is degraded. checkKeys is asked about the key file, unless the store is another.
func (c *Config) Reload(file string, now time.Time, checkKeys func(file string) error) (*Config, Files, error) {
	l, err := newLoader(file)
	if err != nil {
		return nil, nil, err
	}
	l.former, l.known = c, c.lists()
	l.unchangeable(c)
	if l.config.Store.URL == c.Store.URL {
		l.keys(checkKeys)
	}
	next, err := l.load(now)
	return next, l.files, err
}

// keys reads the key file and has it checked.
func (l *loader) keys(check func(file string) error) {
	if _, ok := l.open(l.config.Keys, "keys"); !ok {
		return
	}
	if err := check(l.config.Keys); err != nil {
		l.fault("keys", "%v", err)
	}
}

// load reads the files that the configuration names.
func (l *loader) load(now time.Time) (*Config, error) {
	l.loadFiles(now)
	return l.finish()
}

// finish returns the configuration with its warnings, or all faults.
func (l *loader) finish() (*Config, error) {
	l.warn()
	if err := l.err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(l.warnings, inOrder)
	for _, w := range l.warnings {
		l.config.Warnings = append(l.config.Warnings, w.in(l.file))
	}
	return l.config, nil
}

// unchangeable refuses what a running process cannot change.
func (l *loader) unchangeable(inUse *Config) {
	c := l.config
	for _, fixed := range []struct {
		path string
		same bool
	}{
		{"api.listen", c.API.Listen == inUse.API.Listen},
		{"results.listen", c.Results.Listen == inUse.Results.Listen},
		{"console.listen", c.Console.Listen == inUse.Console.Listen},
		{"store.url", c.Store.URL == inUse.Store.URL},
		{"limits.connections", c.Limits.Connections == inUse.Limits.Connections},
		{"limits.wait", c.Limits.Wait == inUse.Limits.Wait},
		{"tracing", c.Tracing.same(inUse.Tracing)},
	} {
		if !fixed.same {
			l.fault(fixed.path, "cannot change in a running process (restart it to apply this)")
		}
	}
}

// loader fills one config from one file and collects what is wrong.
type loader struct {
	file     string
	config   *Config
	faults   []fault
	warnings []fault
	at       map[string]*token.Position // of every key that is there, by path
	files    Files                      // that it has read
	known    []*revocation.List         // of a former configuration, and those of this one
	former   *Config                    // in use while this one is loaded; nil: at the start
}

func newLoader(file string) (*loader, error) {
	files := Files{}
	data, err := files.Read(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such file (--config FILE names another)", file)
	}
	if err != nil {
		return nil, err
	}
	l := parseConfig(file, data)
	l.files = files
	return l, nil
}

// parseConfig is the reader without the disk, but for paths made absolute.
func parseConfig(file string, data []byte) *loader {
	l := &loader{file: file, config: &Config{dir: filepath.Dir(file), Ends: map[string]time.Time{}, ListTerms: map[string]Term{}}, at: map[string]*token.Position{}, files: Files{}}
	root, ok := l.parse(data)
	if ok {
		l.object(root, reflect.ValueOf(l.config).Elem(), "")
		l.relations()
	}
	return l
}

func (l *loader) err() error {
	if len(l.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(l.faults, inOrder)
	return &configError{l.file, l.faults}
}

func inOrder(a, b fault) int {
	return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.col, b.col))
}

// fault notes what is wrong with the key at path, or, when the file has no
// such key, with the nearest section around it.
func (l *loader) fault(path, format string, args ...any) {
	l.faults = append(l.faults, l.note(path, format, args...))
}

// caution is fault for what works and is only worth a warning.
func (l *loader) caution(path, format string, args ...any) {
	l.warnings = append(l.warnings, l.note(path, format, args...))
}

func (l *loader) note(path, format string, args ...any) fault {
	f := fault{line: 1, col: 1, path: path, text: fmt.Sprintf(format, args...)}
	for at := path; at != ""; at = at[:max(strings.LastIndexAny(at, ".["), 0)] {
		if pos := l.at[at]; pos != nil {
			f.line, f.col = pos.Line, pos.Column
			break
		}
	}
	return f
}

// parse turns the text into a tree. YAML that cannot be read is one fault: what
// follows it would be guesswork.
func (l *loader) parse(data []byte) (root ast.Node, ok bool) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // editors of Windows put it there, and YAML allows it
	if line, col, ok := foreign(data); ok {
		l.faults = append(l.faults, fault{line: line, col: col, text: "not UTF-8 (save the file in that encoding)"})
		return nil, false
	}
	f, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at := fault{line: 1, col: 1, text: "not YAML"}
		var bad yaml.Error
		if errors.As(err, &bad) {
			if tk := bad.GetToken(); tk != nil && tk.Position != nil {
				at.line, at.col = tk.Position.Line, tk.Position.Column
			}
			at.text += ": " + bad.GetMessage()
		}
		l.faults = append(l.faults, at)
		return nil, false
	}
	var docs []ast.Node
	for _, d := range f.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType {
			docs = append(docs, d.Body)
		}
	}
	switch len(docs) {
	case 0:
		return nil, true
	case 1:
		return docs[0], true
	}
	at := position(docs[1])
	l.faults = append(l.faults, fault{line: at.Line, col: at.Column, text: "a second document (one is allowed)"})
	return docs[0], true
}

// foreign finds the first byte that is no UTF-8: the reader of YAML would put a
// replacement in its place, which would go out to directory servers.
func foreign(data []byte) (line, col int, found bool) {
	line, col = 1, 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			return line, col, true
		case r == '\n':
			line, col = line+1, 1
		default:
			col++
		}
		data = data[size:]
	}
	return 0, 0, false
}

// object fills the fields of v from a mapping; a nil node is an absent one, of
// which only the missing keys are said.
func (l *loader) object(n ast.Node, v reflect.Value, path string) {
	given, ok := l.pairs(n, path, func(key string) (string, bool) {
		names := fieldNames(v.Type())
		if !slices.Contains(names, key) {
			return Hint(key, names...), false
		}
		return "", true
	})
	if !ok {
		return
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if name := field.Tag.Get("yaml"); name != "" {
			l.field(given[name], v.Field(i), field.Tag, join(path, name))
		}
	}
}

// pairs reads the keys of a mapping, with complaints about those that known
// does not know or that come twice; false when it is no mapping.
func (l *loader) pairs(n ast.Node, path string, known func(key string) (hint string, ok bool)) (map[string]ast.Node, bool) {
	var entries []*ast.MappingValueNode
	switch n := n.(type) {
	case nil:
	case *ast.MappingNode:
		entries = n.Values
	case *ast.MappingValueNode:
		entries = []*ast.MappingValueNode{n}
	default:
		l.shape(n, path, "a mapping (key: value)")
		return nil, false
	}
	given := map[string]ast.Node{}
	for _, e := range entries {
		key := e.Key.GetToken().Value
		at := join(path, key)
		hint, ok := known(key)
		if before := l.at[at]; before != nil && given[key] != nil {
			l.faults = append(l.faults, fault{e.Key.GetToken().Position.Line, e.Key.GetToken().Position.Column,
				at, fmt.Sprintf("given twice (the first is in line %d)", before.Line)})
			continue
		}
		l.at[at] = e.Key.GetToken().Position
		switch {
		case e.Key.Type() == ast.MergeKeyType:
			l.fault(at, "merging is not supported (write the keys out)")
		case !ok:
			l.fault(at, "unknown key%s", hint)
		default:
			given[key] = e.Value
		}
	}
	return given, true
}

// field fills one field from its value, or from its default when there is none.
func (l *loader) field(n ast.Node, v reflect.Value, tag reflect.StructTag, path string) {
	if n != nil && n.Type() == ast.NullType {
		n = nil
	}
	if n == nil && tag.Get("need") != "" {
		l.fault(path, "missing%s", allowed(tag))
		return
	}
	as := tag.Get("as")
	switch {
	case v.Kind() == reflect.Slice:
		l.list(n, v, tag, path)
	case v.Kind() == reflect.Map:
		l.dictionary(n, v, tag, path)
	case v.Kind() == reflect.Pointer:
		if n != nil {
			v.Set(reflect.New(v.Type().Elem()))
			l.object(n, v.Elem(), path)
		}
	case as == "":
		l.object(n, v, path)
	case n != nil:
		l.scalar(n, v, tag, path)
	case tag.Get("default") != "":
		l.set(tag.Get("default"), v, tag, path)
	}
}

func (l *loader) list(n ast.Node, v reflect.Value, tag reflect.StructTag, path string) {
	if n == nil {
		return
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		l.shape(n, path, "a list (- value)")
		return
	}
	if len(seq.Values) == 0 && tag.Get("need") != "" {
		l.fault(path, "empty (at least one is needed)")
	}
	for i, item := range seq.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		l.at[at] = position(item)
		e := reflect.New(v.Type().Elem()).Elem()
		switch {
		case item == nil || item.Type() == ast.NullType:
			l.fault(at, "empty")
		case tag.Get("as") != "":
			l.scalar(item, e, tag, at)
		default:
			l.object(item, e, at)
		}
		v.Set(reflect.Append(v, e))
	}
}

func (l *loader) dictionary(n ast.Node, v reflect.Value, tag reflect.StructTag, path string) {
	keys := kinds[tag.Get("key")]
	given, ok := l.pairs(n, path, func(key string) (string, bool) {
		_, err := keys.read(key, "", "")
		if err != nil {
			return ": " + err.Error(), false
		}
		return "", true
	})
	if !ok || len(given) == 0 {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for key, item := range given {
		e := reflect.New(v.Type().Elem()).Elem()
		if tag.Get("as") != "" {
			l.scalar(item, e, tag, join(path, key))
		} else {
			l.object(item, e, join(path, key))
		}
		v.SetMapIndex(reflect.ValueOf(key), e)
	}
}

// scalar reads a single value by its text, so that 2.2.0, 208 and "208" are
// what they look like, whatever YAML takes them for.
func (l *loader) scalar(n ast.Node, v reflect.Value, tag reflect.StructTag, path string) {
	switch n := n.(type) {
	case *ast.LiteralNode:
		l.set(strings.TrimSuffix(n.Value.Value, "\n"), v, tag, path)
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		l.set(n.GetToken().Value, v, tag, path)
	case *ast.NullNode:
		l.fault(path, "empty%s", allowed(tag))
	default:
		l.shape(n, path, "a single value")
	}
}

func (l *loader) set(text string, v reflect.Value, tag reflect.StructTag, path string) {
	if text == "" {
		l.fault(path, "empty%s", allowed(tag))
		return
	}
	value, err := kinds[tag.Get("as")].read(text, tag.Get("in"), l.config.dir)
	if err != nil {
		l.fault(path, "%v", err)
		return
	}
	v.Set(reflect.ValueOf(value))
}

// shape complains about a node of another form than wanted.
func (l *loader) shape(n ast.Node, path, want string) {
	if path == "" {
		l.faults = append(l.faults, fault{position(n).Line, position(n).Column, "", "the file is not a mapping (key: value)"})
		return
	}
	switch n.Type() {
	case ast.AnchorType, ast.AliasType, ast.TagType:
		l.fault(path, "anchors, aliases and tags are not supported (write the value out)")
	default:
		l.fault(path, "is not %s", want)
	}
}

// allowed is the end of a complaint about a value that is not there.
func allowed(tag reflect.StructTag) string {
	k, ok := kinds[tag.Get("as")]
	switch {
	case !ok:
		return ""
	case tag.Get("as") == "word":
		return fmt.Sprintf(" (one of: %s)", strings.Join(strings.Fields(tag.Get("in")), ", "))
	case tag.Get("as") == "version":
		return fmt.Sprintf(" (of: %s)", strings.Join(Versions, ", "))
	}
	return fmt.Sprintf(" (%s)", k.doc)
}

// position is where a node begins; a mapping without braces begins at its
// first key, though its own token is the colon.
func position(n ast.Node) *token.Position {
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return position(m.Values[0])
		}
	case *ast.MappingValueNode:
		return position(m.Key)
	}
	if n != nil && n.GetToken() != nil && n.GetToken().Position != nil {
		return n.GetToken().Position
	}
	return &token.Position{Line: 1, Column: 1}
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("yaml"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
