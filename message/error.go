package message

import "fmt"

// An Error is the Erro message: the answer to a message with faults, or the
// news that something failed. Empty ids and an empty MessageType are left out
// of it.
//
// Version is that of the transaction. An Error without one is written as 2.2.0,
// the version of a transaction whose version is not known (docs/api.md, "Erro").
type Error struct {
	Version     Version
	Code        Code
	Component   string // who found it: C S D A; "": S, which is us
	Description string // "": that of the code
	Detail      string // "": the description
	MessageType string // of the message to blame; left out in a version that lacks it

	ServerTransID, DSTransID, ACSTransID, SDKTransID string
}

// Error tells the code and who found it. The texts stay out: those of others
// may hold anything.
func (e Error) Error() string {
	e = e.filled()
	return fmt.Sprintf("Erro %s (%s): %s", e.Code, e.Component, e.Code.Description())
}

// filled is e with all that an Erro must have.
func (e Error) filled() Error {
	if !e.Version.isValid() {
		e.Version = V220
	}
	if e.Component == "" {
		e.Component = "S"
	}
	e.Description, e.Detail = cut(e.Description, maxDetail), cut(e.Detail, maxDetail)
	if e.Description == "" || blank([]byte(e.Description)) { // which for the reader is missing
		e.Description = e.Code.Description()
	}
	if e.Detail == "" || blank([]byte(e.Detail)) {
		e.Detail = e.Description
	}
	if t, ok := ParseType(e.MessageType); ok && !t.In(e.Version) {
		e.MessageType = "" // the reader knows no such message
	}
	return e
}

// JSON is e as a message, with members in the order of the table.
func (e Error) JSON() []byte {
	e = e.filled()
	return Compose(Erro, e.Version,
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

// ReadError makes the best of an Erro that was received, whatever it lacks:
// an error must not be lost over its form. Any code of three digits is kept,
// as a string or as a number; in place of another stands InvalidMessage. A
// component that is none of C, S, D and A becomes D, an unknown version 2.2.0,
// missing texts are those of the code.
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
		e.Code = Code(number(code))
	}
	switch e.Component {
	case "C", "S", "D", "A":
	default:
		e.Component = "D"
	}
	return e.filled()
}

// cut is s, or as many characters of it as limit allows.
func cut(s string, limit int) string {
	n := 0
	for i := range s {
		if n == limit {
			return s[:i]
		}
		n++
	}
	return s
}
