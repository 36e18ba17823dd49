package v1

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

// faults collects what is wrong with one message.
type faults struct {
	missing, bad []string // elements by their paths, "CH.acctID", each once
	extension    []string // ids of critical extensions
	old          bool     // the version is one before 1.0.2
}

// maxDetail is how many elements a Fault names at the most. People read them in
// errorDetail.
const maxDetail = 16

// note adds a path to missing, bad or extension.
func note(list *[]string, path string) {
	if len(*list) < maxDetail && !slices.Contains(*list, path) {
		*list = append(*list, path)
	}
}

// err returns a *Fault for the gravest of the faults, or nil.
func (f *faults) err() error {
	switch {
	case len(f.extension) > 0:
		return &Fault{CriticalUnknown, strings.Join(f.extension, ", ")}
	case f.old:
		return &Fault{VersionTooOld, Version}
	case len(f.missing) > 0:
		return &Fault{ElementMissing, strings.Join(f.missing, ", ")}
	case len(f.bad) > 0:
		return &Fault{FormatInvalid, strings.Join(f.bad, ", ")}
	}
	return nil
}

// An envelope is a message before its body is read.
type envelope struct {
	id, space string
	bodies    []*xmldsig.Element
}

// maxID is how long a Message id may be. Old peers allow 30 characters, but real ids are
// longer.
const maxID = 128

// open reads ThreeDSecure and Message. All elements must be in one namespace or, as usual,
// in none. The error is a *Fault.
func open(doc []byte, limits xmldsig.Limits) (*envelope, error) {
	root, err := limits.Parse(doc)
	if bad, ok := errors.AsType[*xmldsig.ParseError](err); ok {
		return nil, &Fault{RootInvalid, fmt.Sprintf("byte %d: %s", bad.Offset, bad.Reason)}
	}
	f := &faults{}
	if root.Local != "ThreeDSecure" {
		return nil, &Fault{RootInvalid, "ThreeDSecure"}
	}
	p := f.part(root, "", "Message")
	message := p.child("Message")
	if message == nil {
		note(&f.missing, "Message")
		return nil, f.err()
	}
	id, ok := message.Attr("id")
	if !ok {
		note(&f.missing, "Message.id")
	} else if !text(1, maxID)(id) {
		note(&f.bad, "Message.id")
	}
	f.onlyElements(message, "Message")
	m := &envelope{id, message.Space, message.Elements()}
	if m.sole("Error") {
		return m, nil // a peer that could not read our message may not know its id
	}
	return m, f.err()
}

// sole reports whether there is one body, with this name.
func (e *envelope) sole(name string) bool { return len(e.bodies) == 1 && e.first(name) }

// first reports whether the first body, which must be there, has this name.
func (e *envelope) first(name string) bool {
	return e.bodies[0].Local == name && e.bodies[0].Space == e.space
}

// A part is an element with children, whose names were checked.
type part struct {
	f        *faults
	e        *xmldsig.Element // nil means that it is missing; then all of its children read as ""
	path     string           // "" for a body
	children []*xmldsig.Element
}

// part checks that e holds these children, each at most once or, with a star, any number of
// times, and nothing else. They may come in any order, since peers differ. Extensions that
// are not critical are ignored.
func (f *faults) part(e *xmldsig.Element, path string, known ...string) part {
	p := part{f, e, path, e.Elements()}
	f.onlyElements(e, path)
	var seen []string
	for _, c := range p.children {
		switch {
		case c.Space != e.Space:
			note(&f.bad, p.at(named(c)))
		case slices.Contains(known, c.Local+"*"):
			if c.Local == "Extension" {
				f.readExtension(c)
			}
		case !slices.Contains(known, c.Local), slices.Contains(seen, c.Local):
			note(&f.bad, p.at(named(c)))
		default:
			seen = append(seen, c.Local)
		}
	}
	return p
}

// onlyElements checks that there is no text but white space between the children.
func (f *faults) onlyElements(e *xmldsig.Element, path string) {
	for _, n := range e.Content {
		if strings.Trim(n.Text, " \t\r\n") != "" {
			if path == "" {
				path = e.Local
			}
			note(&f.bad, path)
			return
		}
	}
}

func (f *faults) readExtension(e *xmldsig.Element) {
	switch critical, ok := e.Attr("critical"); {
	case critical == "true":
		id, _ := e.Attr("id")
		if !plain(id, 1, 60) {
			id = "Extension"
		}
		note(&f.extension, id)
	case ok && critical != "false":
		note(&f.bad, "Extension.critical")
	}
}

// named is the name of an unknown element, or "?" unless it looks like one of the protocol:
// a sender must not be able to write into a log.
func named(e *xmldsig.Element) string {
	letter := func(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }
	if len(e.Local) > 20 || strings.TrimLeftFunc(e.Local, letter) != "" {
		return "?"
	}
	return e.Local
}

// at returns the path of a child.
func (p part) at(name string) string {
	if p.path == "" {
		return name
	}
	return p.path + "." + name
}

// child returns the first child of this name, or nil.
func (p part) child(name string) *xmldsig.Element {
	for _, c := range p.children {
		if c.Local == name && c.Space == p.e.Space {
			return c
		}
	}
	return nil
}

// part returns the child of this name as a part. Its e is nil if there is none, which is
// noted if it is needed.
func (p part) part(name string, needed bool, known ...string) part {
	e := p.child(name)
	if e == nil {
		if needed {
			note(&p.f.missing, p.at(name))
		}
		return part{f: p.f}
	}
	return p.f.part(e, p.at(name), known...)
}

// need returns the text of a child that must be there.
func (p part) need(name string, good form) string {
	if p.e != nil && p.child(name) == nil { // without p.e its absence is noted already
		note(&p.f.missing, p.at(name))
	}
	return p.may(name, good)
}

// may returns the text of a child that may be missing, "" if it is missing or not of this
// form. The latter is noted.
func (p part) may(name string, good form) string {
	if p.e == nil {
		return ""
	}
	e := p.child(name)
	if e == nil {
		return ""
	}
	s, ok := e.Text()
	if !ok || !good(s) {
		note(&p.f.bad, p.at(name))
		return ""
	}
	return s
}

// version reads the element version, which every message has.
func (p part) version() string {
	s := p.need("version", text(1, 16))
	switch {
	case s == "" || s == Version:
	case slices.Contains([]string{"1.0", "1.0.0", "1.0.1"}, s):
		p.f.old = true
	default:
		note(&p.f.bad, p.at("version"))
	}
	return s
}

// iReq reads the element IReq.
func (p part) iReq() (r IReq, present bool) {
	i := p.part("IReq", false, "iReqCode", "iReqDetail", "vendorCode")
	if i.e == nil {
		return IReq{}, false
	}
	return IReq{i.need("iReqCode", digits(1, 4)), i.may("iReqDetail", text(0, 256)), i.may("vendorCode", text(0, 256))},
		true
}

// A form reports whether a text has it.
type form func(string) bool

// text is min to max characters.
func text(min, max int) form {
	return func(s string) bool {
		n := utf8.RuneCountInString(s)
		return min <= n && n <= max
	}
}

// digits is min to max decimal digits.
func digits(min, max int) form {
	return func(s string) bool {
		return min <= len(s) && len(s) <= max && strings.Trim(s, "0123456789") == ""
	}
}

// oneOf is a letter of these.
func oneOf(letters string) form {
	return func(s string) bool { return len(s) == 1 && strings.Contains(letters, s) }
}

const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// plain reports whether s is min to max of the characters that ids are made of.
func plain(s string, min, max int) bool {
	return min <= len(s) && len(s) <= max && strings.Trim(s, alphanumeric+".:_-/") == ""
}

// base64of20 is the base64 of 20 bytes. Real ones have bits set in the last character that
// stand for nothing, which a strict decoder would refuse.
func base64of20(s string) bool {
	return len(s) == 28 && s[27] == '=' && strings.Trim(s[:27], alphanumeric+"+/") == ""
}
