package sandbox

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/message"
)

// A received is a message of a peer's as encoding/json sees it, member by member: a second reading besides that of
// package message.
type received map[string]json.RawMessage

// readMessage reads what it can. A text that is no object gives a message without members.
func readMessage(body []byte) received {
	var m received
	_ = json.Unmarshal(body, &m) // whether it is JSON is judged elsewhere
	return m
}

// text is the string that a member is, or "".
func (m received) text(name string) string {
	var s string
	_ = json.Unmarshal(m[name], &s)
	return s
}

// list is the strings that a member is: one, or an array of them.
func (m received) list(name string) []string {
	var all []string
	if json.Unmarshal(m[name], &all) != nil {
		return []string{m.text(name)}
	}
	return all
}

// objects are the objects of a member that is one, or an array of them.
func (m received) objects(name string) []received {
	var all []received
	if json.Unmarshal(m[name], &all) == nil {
		return all
	}
	return []received{m.object(name)}
}

// object is the members of a member.
func (m received) object(name string) received { return readMessage(m[name]) }

func (m received) has(name string) bool {
	raw, ok := m[name]
	return ok && string(raw) != "null"
}

// decode reads base64url, padded or not, in lines or in one. The standard alphabet is taken too, which is what
// btoa of a shop's page writes.
func decode(text string) ([]byte, error) {
	if text == "" {
		return nil, errors.New("empty")
	}
	return base64.RawURLEncoding.Strict().DecodeString(urlAlphabet.Replace(strings.TrimRight(text, "=\r\n")))
}

// urlAlphabet writes base64 in the alphabet of base64url.
var urlAlphabet = strings.NewReplacer("+", "-", "/", "_")

// base64Faults says which of a form's fields are not base64url as the protocol writes
// it, without padding and in one line: "" where all are. They are taken here all
// the same, and issuers elsewhere refuse them.
func base64Faults(form url.Values, names ...string) string {
	var all []string
	for _, name := range names {
		text := form.Get(name)
		if _, err := base64.RawURLEncoding.DecodeString(text); err != nil || strings.ContainsAny(text, "\r\n") {
			all = append(all, name+" is not base64url without padding")
		}
	}
	return strings.Join(all, "; ")
}

// receivedIn is where a message came in: the message types that are expected there, and the earlier messages of the
// transaction as they were sent.
type receivedIn struct {
	types                  []string
	areq, ares, rreq, creq []byte
}

// judgeMessage judges a message by the field tables. This is all that the sandbox
// shares with the server under test.
func judgeMessage(body []byte, in receivedIn) (erro, bool) {
	m, err := message.Parse(body, message.Limits{})
	if err != nil {
		return erro{code: "101", detail: "Invalid Formatted Message: " + err.Error()}, true
	}
	if t, known := m.Type(); known && !slices.Contains(in.types, t.String()) {
		return erro{code: "101", detail: "Invalid Message for the receiving component"}, true
	}
	problems := m.Check(message.Context{
		AReq: parsed(in.areq), ARes: parsed(in.ares), RReq: parsed(in.rreq), CReq: parsed(in.creq),
		Loopback: true,
	})
	if len(problems) == 0 {
		return erro{}, false
	}
	code, detail := problems.Pick(message.ForPeer)
	if code == message.InvalidMessage {
		detail = "Invalid Message Type"
	}
	return erro{code: code.String(), detail: detail}, true
}

// parsed is an earlier message of the transaction, nil when there is none.
func parsed(body []byte) *message.Message {
	if body == nil {
		return nil
	}
	m, err := message.Parse(body, message.Limits{})
	if err != nil {
		return nil
	}
	return m
}
