package v1

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
)

// An element is a piece of a message of 3-D Secure 1.0.2.
type element struct {
	name  string
	attrs map[string]string
	kids  []*element
	text  string // with white space, as it came
}

// find is the element at a path of names, the first of each; an empty one when
// there is none.
func (e *element) find(path ...string) *element {
	for _, name := range path {
		next := &element{}
		if i := slices.IndexFunc(e.kids, func(kid *element) bool { return kid.name == name }); i >= 0 {
			next = e.kids[i]
		}
		e = next
	}
	return e
}

var errXML = errors.New("not well-formed XML without a document type")

const (
	maxDepth    = 12
	maxElements = 300
)

// readXML reads a document strictly: one root, nothing besides it, no document type, no attribute twice. A name with a
// namespace keeps it in front, so that it is none of ours.
func readXML(raw []byte) (*element, error) {
	top := &element{}
	open := []*element{top}
	d := xml.NewDecoder(bytes.NewReader(raw))
	for count := 0; ; {
		token, err := d.Token()
		if err == io.EOF && len(top.kids) == 1 {
			return top.kids[0], nil
		}
		if err != nil {
			return nil, errXML
		}
		at := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			e, ok := newElement(token)
			if count++; !ok || count > maxElements || len(open) > maxDepth {
				return nil, errXML
			}
			at.kids = append(at.kids, e)
			open = append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			at.text += string(token)
			if at == top && strings.TrimSpace(at.text) != "" {
				return nil, errXML
			}
		case xml.Directive:
			return nil, errXML
		}
	}
}

func newElement(token xml.StartElement) (*element, bool) {
	e := &element{name: plain(token.Name), attrs: make(map[string]string)}
	for _, a := range token.Attr {
		name := plain(a.Name)
		if _, twice := e.attrs[name]; twice {
			return nil, false
		}
		e.attrs[name] = a.Value
	}
	return e, true
}

func plain(n xml.Name) string {
	if n.Space == "" {
		return n.Local
	}
	return n.Space + " " + n.Local
}

// tag writes an element around what is inside, which is XML already. The form
// is the canonical one.
func tag(name string, inside ...string) string {
	return "<" + name + ">" + strings.Join(inside, "") + "</" + name + ">"
}

// leaf writes an element around text.
func leaf(name, text string) string { return tag(name, escapeText.Replace(text)) }

// What the canonical form escapes, in text and in the values of attributes.
var (
	escapeText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\r", "&#xD;")
	escapeAttr = strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;", "\t", "&#x9;", "\n", "&#xA;", "\r", "&#xD;")
)

// envelope writes a message around its body.
func envelope(id, body string) []byte {
	return []byte(`<ThreeDSecure><Message id="` + escapeAttr.Replace(id) + `">` + body + `</Message></ThreeDSecure>`)
}
