package xmldsig

// An Element is an element of a document. It does not change after Parse.
type Element struct {
	Prefix string // as written; "" for none
	Local  string
	Space  string // the namespace that Prefix stands for; "" for none
	Attrs  []Attr // as written, without declarations of namespaces
	// Content holds child elements and text in the order of the document. CDATA is
	// text, and entities are replaced. Two texts are never neighbours, unless a
	// [Stream] has taken the element between them.
	Content []Node

	parent *Element  // nil at the root
	spaces []binding // the namespaces it declares, as written
}

// An Attr is an attribute that declares no namespace.
type Attr struct {
	Prefix, Local, Space string // as in Element; an attribute has no default namespace
	Value                string // entities are replaced
}

// A Node is a child element or, when Element is nil, text.
type Node struct {
	Element *Element
	Text    string
}

// A binding is the declaration xmlns:prefix="uri", or xmlns="uri" if prefix is "".
type binding struct{ prefix, uri string }

// Elements returns the child elements in order.
func (e *Element) Elements() []*Element {
	var list []*Element
	for _, n := range e.Content {
		if n.Element != nil {
			list = append(list, n.Element)
		}
	}
	return list
}

// Text returns the text of an element, "" if it is empty. It returns false if the
// element has child elements.
func (e *Element) Text() (string, bool) {
	switch {
	case len(e.Content) == 0:
		return "", true
	case len(e.Content) > 1 || e.Content[0].Element != nil:
		return "", false
	}
	return e.Content[0].Text, true
}

// Attr returns the value of the attribute that has this name and no namespace.
func (e *Element) Attr(local string) (string, bool) {
	for i := range e.Attrs {
		if e.Attrs[i].Local == local && e.Attrs[i].Prefix == "" {
			return e.Attrs[i].Value, true
		}
	}
	return "", false
}

// root returns the root of the document that e is part of.
func (e *Element) root() *Element {
	for e.parent != nil {
		e = e.parent
	}
	return e
}
