package message

import (
	"strings"
)

// BuildObject returns the JSON text of an object of the request, by a table of [NewTable]: the
// members that have a row, in the order of the table and without those that are empty. It
// returns nil if nothing is left. Path leads from the top level; names match in any case.
// The problems are those of the object with its path: faults, and members without a row.
// Those that occur twice are problems of [Request.Build].
func (r *Request) BuildObject(path Path, t *Table) ([]byte, Problems) {
	i := r.findPath(path)
	if i == 0 || r.m.isHollow(i) {
		return nil, nil
	}
	if r.m.nodes[i].kind != jsonObject {
		return nil, Problems{{Code: Format, Path: path}}
	}
	b := &builder{checker: checker{m: r.m, table: t, version: t.Version, view: viewOf(anyChannel, anyCategory)}, r: r}
	b.path = append(b.path, step{string(path), -1})
	b.reportUnknown(t, i)
	if !b.writeMembers(t, i) {
		return nil, b.problems
	}
	m, err := Parse(b.out, Limits{Depth: -1, Members: -1})
	if err != nil {
		panic("message: built what is not JSON: " + err.Error())
	}
	for _, p := range m.CheckObject("", t) {
		p.Path = path + "." + p.Path
		b.problems = append(b.problems, p)
	}
	return b.out, b.problems
}

// RawAt returns the JSON text of the value at a path of names. It returns nil if there is none or if
// it is empty. Names match in any case. A value below the top level is returned as the requestor
// sent it, without changes that were made since.
func (r *Request) RawAt(path Path) []byte {
	if !strings.Contains(string(path), ".") {
		if !r.Has(string(path)) {
			return nil
		}
		return r.raw(string(path))
	}
	i := r.findPath(path)
	if i == 0 || r.m.isHollow(i) {
		return nil
	}
	return r.m.raw(i)
}

// Members returns the names of the members of the object at a path, as the requestor wrote them
// and without those that are empty. A name that could hold card data is "unknown".
func (r *Request) Members(path Path) []string {
	object := r.findPath(path)
	if object == 0 || r.m.nodes[object].kind != jsonObject {
		return nil
	}
	c := checker{m: r.m}
	var all []string
	for i := object + 1; i < r.m.nodes[object].next; i = r.m.nodes[i].next {
		if !r.m.isHollow(i) {
			all = append(all, c.printableName(&r.m.nodes[i]))
		}
	}
	return all
}

// findPath returns the node at a path of names, or 0 if there is none.
func (r *Request) findPath(path Path) uint32 {
	first, rest, _ := strings.Cut(string(path), ".")
	i := r.find(first)
	for rest != "" && i != 0 {
		var name string
		name, rest, _ = strings.Cut(rest, ".")
		i = r.m.foldedMember(i, name)
	}
	return i
}

// foldedMember returns the first member of an object with this name in any case, or 0 if there
// is none.
func (m *Message) foldedMember(object uint32, name string) uint32 {
	if m.nodes[object].kind != jsonObject {
		return 0
	}
	for i := object + 1; i < m.nodes[object].next; i = m.nodes[i].next {
		n := m.nodes[i]
		if n.name < maxNames && strings.EqualFold(names.list[n.name], name) ||
			n.name >= maxNames && strings.EqualFold(string(nameText(m.data, n)), name) {
			return i
		}
	}
	return 0
}

// Unknown returns the paths of the members that an AReq of the version of the request does not have; Build leaves
// them out. A name that could hold card data is "unknown".
func (r *Request) Unknown() []Path {
	v, _ := r.Version()
	b := newBuilder(r, v)
	b.reportUnknown(b.table, 0)
	var paths []Path
	for _, p := range b.problems {
		paths = append(paths, p.Path)
	}
	return paths
}

// reportUnknown reports the members of an object, and of the objects in it, that have no row.
func (b *builder) reportUnknown(t *Table, object uint32) {
	for i := object + 1; i < b.m.nodes[object].next; i = b.m.nodes[i].next {
		n := &b.m.nodes[i]
		row := t.rowOfMember(b.m, n)
		switch {
		case b.m.isHollow(i):
		case row < 0:
			b.report(Format, b.printableName(n))
		case t.Fields[row].Of != nil:
			b.eachObject(&t.Fields[row], i, func(object uint32) { b.reportUnknown(t.Fields[row].Of, object) })
		}
	}
}

// idsOf returns the ids of names.
func idsOf(path []string) []uint32 {
	ids := make([]uint32, len(path))
	for i, name := range path {
		ids[i] = uint32(names.ids[name])
	}
	return ids
}
