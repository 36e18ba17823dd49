package message

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Code is an errorCode of the protocol.
type Code int

// The codes that a 3DS server finds itself. Others may be received.
const (
	InvalidMessage     Code = 101
	UnsupportedVersion Code = 102
	TooManyMessages    Code = 103
	Missing            Code = 201
	CriticalExtension  Code = 202
	Format             Code = 203
	Duplicate          Code = 204
	RangeOverlap       Code = 205
	RangeAction        Code = 206
	Reserved           Code = 207
	UnknownTransaction Code = 301
	AccessDenied       Code = 303
	ISOCode            Code = 304
	BadTransactionData Code = 305
	SerialNumber       Code = 307
	DuplicateMessage   Code = 312
	Inconsistent       Code = 313
	TimedOut           Code = 402
	TransientFailure   Code = 403
	PermanentFailure   Code = 404
	ConnectionFailure  Code = 405
)

var descriptions = map[Code]string{
	InvalidMessage:     "The message is not one that can be processed here.",
	UnsupportedVersion: "The protocol version is not supported.",
	TooManyMessages:    "Too many messages in too short a time.",
	Missing:            "A required element is missing.",
	CriticalExtension:  "A critical message extension is not recognised.",
	Format:             "The format or the value of an element is not valid.",
	Duplicate:          "An element occurs more than once.",
	RangeOverlap:       "Card ranges overlap.",
	RangeAction:        "A card range action is not possible.",
	Reserved:           "An element has a reserved value.",
	UnknownTransaction: "The transaction id is not recognised.",
	AccessDenied:       "Access is denied.",
	ISOCode:            "An ISO code is not valid.",
	BadTransactionData: "The transaction data is not valid.",
	SerialNumber:       "The serial number is not valid.",
	DuplicateMessage:   "The message was received before.",
	Inconsistent:       "The message does not fit the transaction.",
	TimedOut:           "The transaction timed out.",
	TransientFailure:   "A system failure that should pass.",
	PermanentFailure:   "A system failure that lasts.",
	ConnectionFailure:  "No connection to the next system.",
}

// String is the code as errorCode writes it.
func (c Code) String() string { return fmt.Sprintf("%03d", int(c)) }

// Description is the text for errorDescription.
func (c Code) Description() string {
	if s, ok := descriptions[c]; ok {
		return s
	}
	return "An error."
}

// A Path names an element of a message: "messageExtension[2].id".
type Path string

// Name is the path without indexes, as errorDetail wants it:
// "messageExtension.id".
func (p Path) Name() string {
	if strings.IndexByte(string(p), '[') < 0 {
		return string(p)
	}
	var b strings.Builder
	inside := false
	for i := range len(p) {
		switch c := p[i]; {
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		case !inside:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// A Problem is one fault of a message. It names the element and never quotes
// its value.
type Problem struct {
	Code Code
	Path Path
	// Note stands in errorDetail in place of the name where the protocol wants
	// something else there: the id of an extension, the supported versions. One
	// that is too long for it does not.
	Note string
}

func (p Problem) detail() string {
	if p.Note != "" && utf8.RuneCountInString(p.Note) <= maxDetail {
		return p.Note
	}
	return p.Path.Name()
}

func (p Problem) String() string { return p.Code.String() + " " + p.detail() }

// Problems are the faults of one message, in the order of its table.
type Problems []Problem

// Err returns nil if there are no problems, and otherwise an error whose text
// lists the code and element of each. Its type is [*CheckError].
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return &CheckError{p}
}

// A CheckError is the error of a message that [Message.Check] finds faults with.
type CheckError struct{ Problems Problems }

// Error lists the code and element of each problem and no value.
func (e *CheckError) Error() string {
	all := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		all[i] = p.Code.String() + " " + p.Path.Name()
	}
	return "message: " + strings.Join(all, ", ")
}

// An Order says which code wins when a message has several faults.
type Order uint8

const (
	// ForRequestor is the order of answers to a requestor: what it has to
	// repair first comes first.
	ForRequestor Order = iota
	// ForPeer is the order of answers to a directory server: what is wrong in
	// what is there comes before what is missing.
	ForPeer
)

var orders = [...][]Code{
	ForRequestor: {InvalidMessage, Duplicate, UnsupportedVersion, Missing, CriticalExtension, Format, Reserved, ISOCode, UnknownTransaction, BadTransactionData},
	ForPeer: {InvalidMessage, UnsupportedVersion, Duplicate, CriticalExtension, Format, Reserved, ISOCode, RangeOverlap, RangeAction, Missing,
		UnknownTransaction, DuplicateMessage, Inconsistent},
}

// rank is the place of a problem in o: the lower wins. A wrong messageVersion
// means towards a peer that nothing else of the message can be trusted.
func (o Order) rank(p Problem) int {
	if o == ForPeer && p.Code == Format && p.Path == "messageVersion" {
		return o.rank(Problem{Code: UnsupportedVersion})
	}
	if i := slices.Index(orders[o], p.Code); i >= 0 {
		return i
	}
	return len(orders[o])
}

// maxDetail is the length of errorDetail.
const maxDetail = 2048

// Pick returns the code that wins in the order o, and the errorDetail: the names of
// the elements with that code first, then those with other codes, without duplicates,
// and only as many as fit. Where a peer gets a Note instead of names, nothing follows
// the Notes of the winning code. Without problems it returns 0 and "".
func (p Problems) Pick(o Order) (Code, string) {
	if len(p) == 0 {
		return 0, ""
	}
	win := p[0]
	for _, q := range p[1:] {
		if o.rank(q) < o.rank(win) {
			win = q
		}
	}
	d := detail{seen: make(map[string]bool, min(len(p), 64))}
	for _, q := range p {
		if q.Code == win.Code {
			d.add(q.detail())
		}
	}
	if o == ForPeer && win.Note != "" {
		return win.Code, d.text.String()
	}
	for _, q := range p {
		if q.Code != win.Code {
			d.add(q.Path.Name())
		}
	}
	return win.Code, d.text.String()
}

// A detail is an errorDetail that is being written.
type detail struct {
	text  strings.Builder
	chars int
	seen  map[string]bool
}

func (d *detail) add(name string) {
	n := utf8.RuneCountInString(name)
	if d.chars > 0 {
		n++
	}
	if name == "" || d.seen[name] || d.chars+n > maxDetail {
		return
	}
	d.seen[name] = true
	if d.chars > 0 {
		d.text.WriteByte(',')
	}
	d.text.WriteString(name)
	d.chars += n
}
