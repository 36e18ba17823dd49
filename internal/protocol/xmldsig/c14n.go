package xmldsig

import (
	"cmp"
	"slices"
	"strings"
)

// Canonical returns e and its content in the form of Canonical XML 1.0 or, if exclusive, of
// Exclusive XML Canonicalization 1.0 without InclusiveNamespaces. There are no comments to
// leave out: Parse refuses them. In the inclusive form, e also gets the declarations of
// namespaces and the attributes xml:* that are in scope where it stands.
func (e *Element) Canonical(exclusive bool) []byte {
	c := &canonical{exclusive: exclusive, declared: map[string]string{"": ""}}
	spaces, attrs := e.spaces, e.Attrs
	if !exclusive {
		spaces, attrs = e.inherited()
	}
	c.element(e, spaces, attrs)
	return c.out
}

// inherited returns the declarations in scope at e, and the attributes of e with those of
// its ancestors that are xml:*. The ones nearest to e count.
func (e *Element) inherited() ([]binding, []Attr) {
	var spaces []binding
	attrs := slices.Clone(e.Attrs)
	seen := map[string]bool{}
	for a := e; a != nil; a = a.parent {
		for _, b := range a.spaces {
			if key := "xmlns:" + b.prefix; !seen[key] {
				seen[key] = true
				spaces = append(spaces, b)
			}
		}
		for _, attr := range a.Attrs {
			if key := "xml:" + attr.Local; attr.Space == spaceXML && !seen[key] {
				seen[key] = true
				if a != e {
					attrs = append(attrs, attr)
				}
			}
		}
	}
	return spaces, attrs
}

// canonical writes the canonical form.
type canonical struct {
	exclusive bool
	out       []byte
	// declared is the namespace that each prefix has in the output, at the element that
	// is being written.
	declared map[string]string
}

// element writes e with these attributes. In the inclusive form it writes those
// declarations of spaces that the output does not have yet; in the exclusive form, of the
// namespaces that its name and its attributes use.
func (c *canonical) element(e *Element, spaces []binding, attrs []Attr) {
	if c.exclusive {
		spaces = e.used()
	}
	var news, before []binding
	for _, b := range spaces {
		uri, ok := c.declared[b.prefix]
		if b.prefix == "xml" || ok && uri == b.uri {
			continue
		}
		if !ok {
			uri = unbound
		}
		news, before = append(news, b), append(before, binding{b.prefix, uri})
		c.declared[b.prefix] = b.uri
	}

	c.out = append(c.out, '<')
	c.name(e.Prefix, e.Local)
	slices.SortFunc(news, func(a, b binding) int { return cmp.Compare(a.prefix, b.prefix) })
	for _, b := range news {
		if b.prefix == "" {
			c.attribute("", "xmlns", b.uri)
		} else {
			c.attribute("xmlns", b.prefix, b.uri)
		}
	}
	if len(attrs) > 1 {
		attrs = slices.SortedFunc(slices.Values(attrs), func(a, b Attr) int {
			return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Local, b.Local))
		})
	}
	for _, a := range attrs {
		c.attribute(a.Prefix, a.Local, a.Value)
	}
	c.out = append(c.out, '>')

	for _, n := range e.Content {
		if n.Element != nil {
			c.element(n.Element, n.Element.spaces, n.Element.Attrs)
		} else {
			c.escaped(n.Text, "&<>\r")
		}
	}

	c.out = append(c.out, "</"...)
	c.name(e.Prefix, e.Local)
	c.out = append(c.out, '>')
	for _, b := range before {
		if b.uri == unbound {
			delete(c.declared, b.prefix)
		} else {
			c.declared[b.prefix] = b.uri
		}
	}
}

// used returns the namespaces that the names of e and its attributes use.
func (e *Element) used() []binding {
	list := []binding{{e.Prefix, e.Space}}
	for _, a := range e.Attrs {
		if b := (binding{a.Prefix, a.Space}); a.Prefix != "" && !slices.Contains(list, b) {
			list = append(list, b)
		}
	}
	return list
}

func (c *canonical) name(prefix, local string) {
	if prefix != "" {
		c.out = append(c.out, prefix...)
		c.out = append(c.out, ':')
	}
	c.out = append(c.out, local...)
}

func (c *canonical) attribute(prefix, local, value string) {
	c.out = append(c.out, ' ')
	c.name(prefix, local)
	c.out = append(c.out, `="`...)
	c.escaped(value, "&<\"\t\n\r")
	c.out = append(c.out, '"')
}

// escaped writes s, with entities in place of the characters in special.
func (c *canonical) escaped(s, special string) {
	for {
		i := strings.IndexAny(s, special)
		if i < 0 {
			c.out = append(c.out, s...)
			return
		}
		c.out = append(c.out, s[:i]...)
		c.out = append(c.out, references[s[i]]...)
		s = s[i+1:]
	}
}

var references = map[byte]string{
	'&': "&amp;", '<': "&lt;", '>': "&gt;", '"': "&quot;", '\t': "&#x9;", '\n': "&#xA;", '\r': "&#xD;",
}
