package message

import (
	"slices"
	"strconv"
	"strings"
)

// A Change is one thing that Normalise did. What never holds what a requestor
// sent.
type Change struct {
	Path Path
	What string
}

// Normalise sets right what requestors often get wrong and what can only mean
// one thing (docs/api.md, R9), complete but for what needs a card range or a
// merchant. It does nothing without a version we know, and nothing
// to members that are not sent anyway.
func (r *Request) Normalise() []Change {
	v, ok := r.Version()
	if !ok {
		return nil
	}
	n := &normaliser{builder: newBuilder(r, v)}
	n.acceptLanguage()
	n.object(n.table, 0)
	n.acquirer()
	return n.changes
}

// A normaliser asks the builder what will be sent.
type normaliser struct {
	*builder
	changes []Change
}

func (n *normaliser) changed(name string, item int, what string) {
	at := checker{way: n.way}
	at.note(Format, name, item, "")
	n.changes = append(n.changes, Change{Path: at.problems[0].Path, What: what})
}

// object goes through the members of an object that are sent.
func (n *normaliser) object(t *Table, object uint32) {
	base := len(n.checker.members)
	s := n.scopeOf(t, object)
	nodes := n.m.nodes
	for i := object + 1; i < nodes[object].next; i = nodes[i].next {
		if nodes[i].name >= maxNames {
			continue
		}
		row := t.row(uint16(nodes[i].name))
		if row < 0 || s.members[row] != i {
			continue
		}
		if f := &t.Fields[row]; !f.onlyWhen() || n.holds(f, s) {
			n.value(f, i)
		}
	}
	n.checker.members = n.checker.members[:base]
}

// value normalises a value and what is in it.
func (n *normaliser) value(f *Field, i uint32) {
	kind := n.m.nodes[i].kind
	within := func(object uint32, item int) {
		n.way = append(n.way, step{f.Name, item})
		n.object(f.Of, object)
		n.way = n.way[:len(n.way)-1]
	}
	switch {
	case kind == jsonString && !f.Array && (f.Kind == Country || f.Kind == Currency || tidied[f.Name]):
		n.text(f, i)
	case kind == jsonObject && f.Of != nil:
		within(i, -1)
	case kind == jsonArray && f.Of != nil:
		for k, j := 0, i+1; j < n.m.nodes[i].next; k, j = k+1, n.m.nodes[j].next {
			if n.m.nodes[j].kind == jsonObject {
				within(j, k)
			}
		}
	}
	lone := kind == jsonString && f.Kind.isText() || kind == jsonObject && f.Kind == Object
	if _, edited := n.r.edits[i]; lone && f.Array && n.version >= V231 && !edited && n.leaves(f, i) {
		n.r.edit(i, edit{wrap: true})
		n.changed(f.Name, -1, "made an array")
	}
}

// leaves says whether anything of a value is sent.
func (n *normaliser) leaves(f *Field, i uint32) bool {
	mark := len(n.out)
	some := n.builder.value(f, i, -1)
	n.out = n.out[:mark]
	return some
}

// tidied are the strings that text looks at, beside countries and currencies.
var tidied = map[string]bool{
	"browserColorDepth": true, "browserLanguage": true, "browserTZ": true, "browserAcceptHeader": true, "browserUserAgent": true,
}

// text normalises a string.
func (n *normaliser) text(f *Field, i uint32) {
	was := string(n.m.text(i, nil))
	if e, ok := n.r.edits[i]; ok {
		was = unquoted(e.text)
	}
	now, what := was, ""
	switch {
	case f.Kind == Country || f.Kind == Currency:
		if len(was) < 3 && allDigits([]byte(was)) {
			now, what = strings.Repeat("0", 3-len(was))+was, "padded to 3 digits"
		}
	case f.Name == "browserColorDepth" && f.Kind == OneOf:
		now = lowerDepth(f, was)
		what = "lowered to " + now
	case f.Name == "browserLanguage":
		now, what = firstLanguage(was, f.Max), "cut to the first tag, or a part of it"
	case f.Name == "browserTZ":
		now, what = tidyOffset(was), "tidied"
	case f.Name == "browserAcceptHeader", f.Name == "browserUserAgent":
		now, what = cut(was, f.Max), "cut to "+strconv.Itoa(f.Max)+" characters"
	}
	if now != was {
		n.r.edit(i, edit{text: quote(now)})
		n.changed(f.Name, -1, what)
	}
}

// lowerDepth is the nearest listed colour depth that is not above depth.
func lowerDepth(f *Field, depth string) string {
	if !allDigits([]byte(depth)) {
		return depth
	}
	best, wanted := -1, number([]byte(depth))
	for _, c := range f.Codes.Values {
		if listed := number([]byte(c.Value)); listed <= wanted && listed > best {
			best = listed
		}
	}
	if best < 0 {
		return depth
	}
	return strconv.Itoa(best)
}

// firstLanguage is the first of the tags of an Accept-Language header, or as
// many of its subtags as limit allows. A subtag of one character says what the
// next one is, and goes with it (RFC 4647, 3.4); an empty one goes too.
func firstLanguage(header string, limit int) string {
	tags := languages(header)
	if len(tags) == 0 {
		return header
	}
	tag := tags[0]
	for len(tag) > limit {
		i := strings.LastIndexByte(tag, '-')
		for i > 1 && (tag[i-1] == '-' || tag[i-2] == '-') {
			i--
		}
		if i <= 1 {
			return tags[0]
		}
		tag = tag[:i]
	}
	return tag
}

// languages are the tags of an Accept-Language header, each once, without
// their weights.
func languages(header string) []string {
	var tags []string
	for part := range strings.SplitSeq(header, ",") {
		tag, _, _ := strings.Cut(part, ";")
		if tag = strings.TrimSpace(tag); tag != "" && !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// tidyOffset is a number of minutes without plus and leading zeros.
func tidyOffset(s string) string {
	digits, negative := s, false
	if s != "" && (s[0] == '+' || s[0] == '-') {
		digits, negative = s[1:], s[0] == '-'
	}
	if !allDigits([]byte(digits)) {
		return s
	}
	digits = strings.TrimLeft(digits, "0")
	switch {
	case digits == "":
		return "0"
	case negative:
		return "-" + digits
	}
	return digits
}

// acceptLanguage is taken from browserLanguage where the version wants it and
// there is none. In one that is there, equal tags are told once.
func (n *normaliser) acceptLanguage() {
	const name = "acceptLanguage"
	if !n.defines(name) {
		return
	}
	if !n.r.Has(name) {
		tags := languages(n.r.Text("browserLanguage"))
		if len(tags) > 0 {
			n.r.put(name, quotedList(tags[:min(len(tags), n.table.Field(name).Max)]))
			n.changed(name, -1, "taken from browserLanguage")
		}
		return
	}
	i := n.r.find(name)
	if i == 0 || n.m.nodes[i].kind != jsonArray {
		return
	}
	seen := make(map[string]bool)
	for k, j := 0, i+1; j < n.m.nodes[i].next; k, j = k+1, n.m.nodes[j].next {
		if n.m.nodes[j].kind != jsonString || n.gone(j) {
			continue
		}
		tag := string(n.m.text(j, nil))
		if seen[tag] {
			n.r.edit(j, edit{})
			n.changed(name, k, "dropped, it is there already")
		}
		seen[tag] = true
	}
}

// acquirer fills in what 2.3.1 wants to know of the acquirer.
func (n *normaliser) acquirer() {
	const code, source = "acquirerCountryCode", "acquirerCountryCodeSource"
	if country := n.r.Text("merchantCountryCode"); country != "" && n.defines(code) && !n.r.Has(code) {
		n.r.Set(code, country)
		n.changed(code, -1, "taken from merchantCountryCode")
	}
	if n.defines(source) && !n.r.Has(source) {
		n.r.Set(source, "01")
		n.changed(source, -1, "set to 01")
	}
}

// defines says whether the message may have a member at all.
func (n *normaliser) defines(name string) bool {
	row := n.table.row(names.ids[name])
	return row >= 0 && n.sends(n.table, row)
}

// quotedList is a JSON array of strings.
func quotedList(texts []string) []byte {
	out := []byte{'['}
	for i, text := range texts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, quote(text)...)
	}
	return append(out, ']')
}
