package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/openthreeds/threeds/internal/base/hint"
)

// parseYAML turns the text into a tree. YAML that cannot be read is one fault: what
// follows it would be guesswork.
func (l *loader) parseYAML(data []byte) (root ast.Node, ok bool) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // editors of Windows put it there, and YAML allows it
	if line, col, ok := findInvalidUTF8(data); ok {
		l.faultAt(&token.Position{Line: line, Column: col}, "", "not UTF-8 (save the file in that encoding)")
		return nil, false
	}
	f, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, text := &token.Position{Line: 1, Column: 1}, "not YAML"
		if bad, ok := errors.AsType[yaml.Error](err); ok {
			if tk := bad.GetToken(); tk != nil && tk.Position != nil {
				at = tk.Position
			}
			text += ": " + bad.GetMessage()
		}
		l.faultAt(at, "", "%s", text)
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
	l.faultAt(position(docs[1]), "", "a second document (one is allowed)")
	return docs[0], true
}

// findInvalidUTF8 finds the first byte that is no UTF-8: the reader of YAML would put a
// replacement in its place, which would go out to directory servers.
func findInvalidUTF8(data []byte) (line, col int, found bool) {
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

// A section is a mapping of the file. Its keys are read one by one; close then finds the keys that were not read.
type section struct {
	l        *loader
	path     string
	entries  []*ast.MappingValueNode
	values   map[string]ast.Node // of its keys
	known    []string            // the keys that were read
	isBroken bool                // it is no mapping: that is one fault, and nothing in it is missing
	start    int                 // how many faults there were before
}

// newSection begins to read a mapping. A nil node is one that is not there: it has no keys.
func (l *loader) newSection(n ast.Node, path string) *section {
	s := &section{l: l, path: path, values: map[string]ast.Node{}, start: len(l.faults)}
	switch n := n.(type) {
	case nil:
	case *ast.MappingNode:
		s.entries = n.Values
	case *ast.MappingValueNode:
		s.entries = []*ast.MappingValueNode{n}
	default:
		l.wrongShape(n, path, "a mapping (key: value)")
		s.isBroken = true
	}
	for _, e := range s.entries {
		key := e.Key.GetToken().Value
		if s.values[key] == nil && e.Key.Type() != ast.MergeKeyType {
			s.values[key] = e.Value
			l.positions[join(path, key)] = e.Key.GetToken().Position
		}
	}
	return s
}

// close adds a fault for each key that is unknown or comes twice.
func (s *section) close() {
	s.closeWith(func(key string) string { return hint.For(key, s.known...) })
}

// closeWith is close with another end of the fault of an unknown key. Its faults come before
// those of what is missing at the same place.
func (s *section) closeWith(hint func(key string) string) {
	others := s.l.faults[s.start:]
	s.l.faults = slices.Clone(s.l.faults[:s.start])
	defer func() { s.l.faults = append(s.l.faults, others...) }()
	seen := map[string]bool{}
	for _, e := range s.entries {
		key, at := e.Key.GetToken().Value, e.Key.GetToken().Position
		path := join(s.path, key)
		switch {
		case e.Key.Type() == ast.MergeKeyType:
			s.l.faultAt(at, path, "merging is not supported (write the keys out)")
		case !slices.Contains(s.known, key):
			s.l.faultAt(at, path, "unknown key%s", hint(key))
		case seen[key]:
			s.l.faultAt(at, path, "given twice (the first is in line %d)", s.l.positions[path].Line)
		}
		seen[key] = true
	}
}

// value returns the node of a key, nil if the key is not there or has no value.
func (s *section) value(key string) ast.Node {
	s.known = append(s.known, key)
	n := s.values[key]
	if n == nil || n.Type() == ast.NullType {
		return nil
	}
	path := join(s.path, key)
	s.l.config.lines[path] = s.l.positions[path].Line
	return n
}

// section begins to read the mapping at a key.
func (s *section) section(key string) *section {
	inner := s.l.newSection(s.value(key), join(s.path, key))
	inner.isBroken = inner.isBroken || s.isBroken
	s.describe(key, "section", "")
	return inner
}

// describe tells a test what a key may be, and its default or "required".
func (s *section) describe(key, page, standard string) {
	if s.l.described != nil {
		s.l.described(join(s.path, key), page, standard)
	}
}

// optional reads the value of a key that may be left out. standard is its text then; ""
// stands for the zero value.
func optional[T any](s *section, key string, k kind[T], standard string) (v T) {
	s.describe(key, cmp.Or(k.page, k.want), codeWord(standard))
	if n := s.value(key); n != nil || standard == "" || s.isBroken {
		return readScalar(s.l, n, join(s.path, key), k)
	}
	v, err := k.parse(standard)
	if err != nil {
		panic(fmt.Sprintf("default of %s: %v", join(s.path, key), err))
	}
	return v
}

// required reads the value of a key that must be there.
func required[T any](s *section, key string, k kind[T]) (v T) {
	s.describe(key, cmp.Or(k.page, k.want), "required")
	n := s.value(key)
	if n == nil && !s.isBroken {
		s.l.fault(join(s.path, key), "missing (%s)", k.want)
	}
	return readScalar(s.l, n, join(s.path, key), k)
}

// readScalar reads a single value by its text, so that 2.2.0, 208 and "208" are what they
// look like, whatever YAML takes them for. Without a node it returns the zero value.
func readScalar[T any](l *loader, n ast.Node, path string, k kind[T]) (v T) {
	var text string
	switch n := n.(type) {
	case nil:
		return v
	case *ast.LiteralNode:
		text = strings.TrimSuffix(n.Value.Value, "\n")
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		text = n.GetToken().Value
	case *ast.NullNode:
	default:
		l.wrongShape(n, path, "a single value")
		return v
	}
	if text == "" {
		l.fault(path, "empty (%s)", k.want)
		return v
	}
	got, err := k.parse(text)
	if err != nil {
		l.fault(path, "%v", err)
		return v
	}
	return got
}

// items calls read for each item of the list at a key, and returns what that returns.
func items[T any](s *section, key string, isRequired bool, want string,
	read func(n ast.Node, path string) T) (all []T) {
	path, n := join(s.path, key), s.value(key)
	if n == nil {
		if isRequired && !s.isBroken {
			s.l.fault(path, "missing%s", want)
		}
		return nil
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		s.l.wrongShape(n, path, "a list (- value)")
		return nil
	}
	if len(seq.Values) == 0 && isRequired {
		s.l.fault(path, "empty (at least one is needed)")
	}
	for i, item := range seq.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		s.l.positions[at] = position(item)
		s.l.config.lines[at] = position(item).Line
		var v T
		if item == nil || item.Type() == ast.NullType {
			s.l.fault(at, "empty")
		} else {
			v = read(item, at)
		}
		all = append(all, v)
	}
	return all
}

// list reads a list of single values.
func list[T any](s *section, key string, k kind[T], isRequired bool) []T {
	standard := ""
	if isRequired {
		standard = "required"
	}
	s.describe(key+"[]", cmp.Or(k.ofMany, k.page, k.want), standard)
	return items(s, key, isRequired,
		" ("+k.want+")", func(n ast.Node, path string) T { return readScalar(s.l, n, path, k) })
}

// sections reads a list of mappings.
func sections[T any](s *section, key string, isRequired bool, read func(*section) T) []T {
	return items(s, key, isRequired, "", func(n ast.Node, path string) T { return read(s.l.newSection(n, path)) })
}

// optionalSection reads the mapping at a key; nil stands for one that is not there.
func optionalSection[T any](s *section, key string, read func(*section) T) *T {
	s.describe(key, "section", "")
	n := s.value(key)
	if n == nil {
		return nil
	}
	return new(read(s.l.newSection(n, join(s.path, key))))
}

// mapOf reads a mapping from keys of a kind to single values.
func mapOf[T any](s *section, key string, of kind[string], k kind[T]) map[string]T {
	return readMap(s, key, of, func(inner *section, key string) T { return optional(inner, key, k, "") })
}

func readMap[T any](s *section, key string, of kind[string], read func(inner *section, key string) T) map[string]T {
	inner := s.l.newSection(s.value(key), join(s.path, key))
	var all map[string]T
	for _, e := range inner.entries {
		name := e.Key.GetToken().Value
		if _, err := of.parse(name); err != nil || e.Key.Type() == ast.MergeKeyType || slices.Contains(inner.known, name) {
			continue
		}
		if all == nil {
			all = map[string]T{}
		}
		all[name] = read(inner, name)
	}
	inner.closeWith(func(name string) string {
		_, err := of.parse(name)
		return ": " + err.Error()
	})
	return all
}

// wrongShape adds the fault of a node that has another form than is wanted.
func (l *loader) wrongShape(n ast.Node, path, want string) {
	if path == "" {
		l.faultAt(position(n), "", "the file is not a mapping (key: value)")
		return
	}
	switch n.Type() {
	case ast.AnchorType, ast.AliasType, ast.TagType:
		l.fault(path, "anchors, aliases and tags are not supported (write the value out)")
	default:
		l.fault(path, "is not %s", want)
	}
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

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
