package sandbox

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
)

// A received is a message of a peer's as encoding/json sees it, member by
// member: a second reading beside that of package message.
type received map[string]json.RawMessage

// readMessage reads what it can; what is no object has no members.
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

// object is the members of a member.
func (m received) object(name string) received { return readMessage(m[name]) }

func (m received) has(name string) bool {
	raw, ok := m[name]
	return ok && string(raw) != "null"
}

// decode reads base64url, padded or not, in lines or in one.
func decode(text string) ([]byte, error) {
	if text == "" {
		return nil, errors.New("empty")
	}
	return base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(text, "=\r\n"))
}

// unfit says which of a form's fields are not base64url as the protocol writes
// it, without padding and in one line: "" where all are. They are taken here all
// the same, and issuers elsewhere refuse them.
func unfit(form url.Values, names ...string) string {
	var all []string
	for _, name := range names {
		text := form.Get(name)
		if _, err := base64.RawURLEncoding.DecodeString(text); err != nil || strings.ContainsAny(text, "\r\n") {
			all = append(all, name+" is not base64url without padding")
		}
	}
	return strings.Join(all, "; ")
}

func hex(c rune) bool { return strings.ContainsRune("0123456789abcdefABCDEF", c) }

// uuid says whether text has the form of a transaction id.
func uuid(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i, c := range text {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (c == '-') || !dash && !hex(c) {
			return false
		}
	}
	return true
}
