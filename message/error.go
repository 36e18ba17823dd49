package message

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// An Error is the Erro message: the answer to a message with faults, or the
// report that something failed. Empty ids and an empty MessageType are left out
// of the message.
//
// Version is that of the transaction. An Error without one is written as 2.2.0,
// the version of a transaction with an unknown version (docs/api.md, "Erro").
type Error struct {
	Version Version
	Code    Code
	// the component that found the fault: C (SDK), S (3DS Server), D (directory server) or A (ACS); "" means S
	Component   string
	Description string // "" means the description of Code
	Detail      string // "" means Description
	MessageType string // type of the message with the fault; left out if the version has no such message

	ServerTransID, DSTransID, ACSTransID, SDKTransID string
}

// Error returns the code and the component that found it. It leaves the texts
// out, because those that another component wrote may hold anything.
func (e Error) Error() string {
	e = e.withDefaults()
	return fmt.Sprintf("Erro %s (%s): %s", e.Code, e.Component, e.Code.Description())
}

// withDefaults returns e with a value for each element that an Erro must have.
func (e Error) withDefaults() Error {
	if !e.Version.isValid() {
		e.Version = V220
	}
	if e.Component == "" {
		e.Component = "S"
	}
	e.Description, e.Detail = truncate(e.Description, maxDetail), truncate(e.Detail, maxDetail)
	if e.Description == "" || isBlank([]byte(e.Description)) { // a receiver treats a blank text as missing
		e.Description = e.Code.Description()
	}
	if e.Detail == "" || isBlank([]byte(e.Detail)) {
		e.Detail = e.Description
	}
	if t, ok := ParseType(e.MessageType); ok && !t.In(e.Version) {
		e.MessageType = "" // the version has no such message
	}
	return e
}

// JSON returns e as a message, with members in the order of the table.
func (e Error) JSON() []byte {
	e = e.withDefaults()
	return MustCompose(Erro, e.Version,
		Member{Name: "errorCode", Text: e.Code.String()},
		Member{Name: "errorComponent", Text: e.Component},
		Member{Name: "errorDescription", Text: e.Description},
		Member{Name: "errorDetail", Text: e.Detail},
		Member{Name: "errorMessageType", Text: e.MessageType},
		Member{Name: "threeDSServerTransID", Text: e.ServerTransID},
		Member{Name: "dsTransID", Text: e.DSTransID},
		Member{Name: "acsTransID", Text: e.ACSTransID},
		Member{Name: "sdkTransID", Text: e.SDKTransID},
	)
}

// ReadError reads an Erro that was received. It never fails, because a report of
// an error must not be lost over its form. It keeps any code of three digits,
// written as a string or as a number, and puts InvalidMessage in place of
// anything else. A component that is none of C, S, D and A becomes D, an unknown
// version becomes 2.2.0, and missing texts are those of the code.
func ReadError(m *Message) Error {
	e := Error{
		Version:       V220,
		Code:          InvalidMessage,
		Component:     m.Text("errorComponent"),
		Description:   m.Text("errorDescription"),
		Detail:        m.Text("errorDetail"),
		MessageType:   m.Text("errorMessageType"),
		ServerTransID: m.Text("threeDSServerTransID"),
		DSTransID:     m.Text("dsTransID"),
		ACSTransID:    m.Text("acsTransID"),
		SDKTransID:    m.Text("sdkTransID"),
	}
	if v, ok := m.Version(); ok {
		e.Version = v
	}
	code := []byte(m.Text("errorCode"))
	if len(code) == 0 {
		code = m.Raw("errorCode")
	}
	if len(code) == 3 && allDigits(code) {
		e.Code = Code(numberOf(code))
	}
	switch e.Component {
	case "C", "S", "D", "A":
	default:
		e.Component = "D"
	}
	return e.withDefaults()
}

// truncate returns the first limit characters of s, or s if it has fewer.
func truncate(s string, limit int) string {
	n := 0
	for i := range s {
		if n == limit {
			return s[:i]
		}
		n++
	}
	return s
}

// A Code is an errorCode of the protocol. The zero Code is none.
type Code int

// The codes that a 3DS Server may report. Messages of other components may have others.
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

// String returns the three digits of the code, in the form of errorCode.
func (c Code) String() string { return fmt.Sprintf("%03d", int(c)) }

// Description returns an English sentence for errorDescription.
func (c Code) Description() string {
	if s, ok := descriptions[c]; ok {
		return s
	}
	return "An error."
}

// A Path names one element of a message, with indexes that count from 0:
// "messageExtension[2].id".
type Path string

// Name returns the path without indexes, in the form of errorDetail: "messageExtension.id".
func (p Path) Name() string {
	if strings.IndexByte(string(p), '[') < 0 {
		return string(p)
	}
	var b strings.Builder
	inIndex := false
	for i := range len(p) {
		switch c := p[i]; {
		case c == '[':
			inIndex = true
		case c == ']':
			inIndex = false
		case !inIndex:
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
	// Note replaces the name in errorDetail where the protocol requires another text
	// there: the id of an extension, or the supported versions. A Note of more than
	// 2048 characters is ignored.
	Note string
}

// errorDetail returns the text of this problem for errorDetail.
func (p Problem) errorDetail() string {
	if p.Note != "" && utf8.RuneCountInString(p.Note) <= maxDetail {
		return p.Note
	}
	return p.Path.Name()
}

// String returns the code and the name or Note of the element.
func (p Problem) String() string { return p.Code.String() + " " + p.errorDetail() }

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

// An Order says which code is reported if a message has problems with different codes.
type Order uint8

const (
	// ForRequestor is the order of answers to a requestor. The problem that it has to
	// repair first comes first.
	ForRequestor Order = iota
	// ForPeer is the order of answers to a directory server. Elements that are wrong
	// come before elements that are missing.
	ForPeer
)

var orders = [...][]Code{
	ForRequestor: {InvalidMessage, Duplicate, UnsupportedVersion, Missing, CriticalExtension, Format, Reserved, ISOCode,
		UnknownTransaction, BadTransactionData},
	ForPeer: {InvalidMessage, UnsupportedVersion, Duplicate, CriticalExtension, Format, Reserved, ISOCode, RangeOverlap,
		RangeAction, Missing, UnknownTransaction, DuplicateMessage, Inconsistent},
}

// rank returns the position of a problem in o, from 0. The problem with the lowest rank is
// reported. If the messageVersion of a peer is malformed, the rest of its message cannot be
// judged: that ranks as an unsupported version.
func (o Order) rank(p Problem) int {
	if o == ForPeer && p.Code == Format && p.Path == "messageVersion" {
		return o.rank(Problem{Code: UnsupportedVersion})
	}
	if i := slices.Index(orders[o], p.Code); i >= 0 {
		return i
	}
	return len(orders[o])
}

// maxDetail is the largest number of characters of errorDetail and errorDescription.
const maxDetail = 2048

// Pick returns the code to report in the order o, and the errorDetail. The detail lists the
// elements that have this code and then those that have other codes, each once, and only
// as many as fit into 2048 characters. In the order ForPeer, a detail that consists of
// Notes is not followed by names. Without problems Pick returns 0 and "".
func (p Problems) Pick(o Order) (Code, string) {
	if len(p) == 0 {
		return 0, ""
	}
	first := p[0]
	for _, q := range p[1:] {
		if o.rank(q) < o.rank(first) {
			first = q
		}
	}
	d := detailWriter{seen: make(map[string]bool, min(len(p), 64))}
	for _, q := range p {
		if q.Code == first.Code {
			d.add(q.errorDetail())
		}
	}
	if o == ForPeer && first.Note != "" {
		return first.Code, d.text.String()
	}
	for _, q := range p {
		if q.Code != first.Code {
			d.add(q.Path.Name())
		}
	}
	return first.Code, d.text.String()
}

// A detailWriter builds an errorDetail.
type detailWriter struct {
	text  strings.Builder
	chars int
	seen  map[string]bool
}

func (d *detailWriter) add(name string) {
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
