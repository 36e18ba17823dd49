package v1

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/openthreeds/threeds/sandbox/internal/scenario"
)

const protocolVersion = "1.0.2"

// A part is an element of a message as it should be: in which place and how
// often, and what is in it.
type part struct {
	name string
	many byte // 1: once, '?': at most once, '*': any number of times
	ok   func(string) bool
	of   []part
}

const once = 1

// What the messages that come in are made of.
var (
	veReqParts = []part{
		{"version", once, anything, nil},
		{"pan", once, digitsOf(12, 19), nil},
		{"Merchant", once, nil, askerParts},
		{"Browser", '?', nil, []part{
			{"deviceCategory", '?', digitsOf(1, 9), nil},
			{"accept", '?', anything, nil},
			{"userAgent", '?', anything, nil},
		}},
		{"Extension", '*', anything, nil},
	}
	crReqParts = []part{
		{"version", once, anything, nil},
		{"Merchant", once, nil, askerParts},
		{"serialNumber", '?', digitsOf(1, 20), nil},
	}
	paReqParts = []part{
		{"version", once, anything, nil},
		{"Merchant", once, nil, []part{
			{"acqBIN", once, digitsOf(1, 11), nil},
			{"merID", once, printable(1, 24), nil},
			{"name", once, printable(1, 25), nil},
			{"country", once, digitsOf(3, 3), nil},
			{"url", once, absoluteURL, nil},
		}},
		{"Purchase", once, nil, []part{
			{"xid", once, twentyBytes, nil},
			{"date", once, stamp, nil},
			{"amount", once, printable(1, 20), nil},
			{"purchAmount", once, digitsOf(1, 12), nil},
			{"currency", once, digitsOf(3, 3), nil},
			{"exponent", once, digitsOf(1, 1), nil},
			{"desc", '?', printable(0, 125), nil},
			{"Recur", '?', nil, []part{
				{"frequency", once, digitsOf(1, 4), nil},
				{"endRecur", once, digitsOf(8, 8), nil},
			}},
			{"install", '?', digitsOf(1, 3), nil},
		}},
		{"CH", once, nil, []part{
			{"acctID", once, printable(1, 28), nil},
			{"expiry", once, digitsOf(4, 4), nil},
		}},
		{"Extension", '*', anything, nil},
	}
	askerParts = []part{
		{"acqBIN", once, digitsOf(1, 11), nil},
		{"merID", once, printable(1, 24), nil},
		{"password", '?', printable(1, 8), nil},
	}
)

func anything(string) bool { return true }

func digitsOf(min, max int) func(string) bool {
	return func(s string) bool { return min <= len(s) && len(s) <= max && scenario.IsDigits(s) }
}

func printable(min, max int) func(string) bool {
	return func(s string) bool {
		n := utf8.RuneCountInString(s)
		return min <= n && n <= max && strings.IndexFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) < 0
	}
}

func twentyBytes(s string) bool {
	raw, err := base64.StdEncoding.DecodeString(s)
	return err == nil && len(raw) == 20 && len(s) == 28
}

func stamp(s string) bool {
	_, err := time.Parse(stampLayout, s)
	return err == nil && len(s) == len(stampLayout)
}

const stampLayout = "20060102 15:04:05"

func absoluteURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && len(s) <= 2048
}

// A protocolError is what is wrong with a message: the message Error.
type protocolError struct{ code, detail string }

var errorTexts = map[string]string{
	"1": "Root element invalid", "2": "Message element not a defined message", "3": "Required element missing",
	"4": "Critical element not recognized", "5": "Format of one or more elements is invalid",
	"6": "Protocol version too old",
}

func (e protocolError) bytes(id string) []byte {
	return envelope(id, tag("Error", leaf("version", protocolVersion), leaf("errorCode", e.code),
		leaf("errorMessage", errorTexts[e.code]), leaf("errorDetail", e.detail)))
}

// A received is a message that came in.
type received struct {
	id   string
	kind string // "VEReq"; "" when it is unknown
	body *element
}

// readMessage reads a message of one of the given kinds, and says what is wrong with it.
func readMessage(raw []byte, kinds map[string][]part) (received, *protocolError) {
	m := received{body: &element{}}
	root, err := readXML(raw)
	if err != nil || root.name != "ThreeDSecure" {
		return m, &protocolError{"1", "ThreeDSecure"}
	}
	if len(root.kids) != 1 || root.kids[0].name != "Message" {
		return m, &protocolError{"3", "Message"}
	}
	envelope := root.kids[0]
	m.id = envelope.attrs["id"]
	if len(envelope.kids) != 1 {
		return m, &protocolError{"2", "Message"}
	}
	m.body = envelope.kids[0]
	m.kind = m.body.name
	if m.kind == "Error" {
		return m, nil
	}
	parts, known := kinds[m.kind]
	switch {
	case !known:
		return m, &protocolError{"2", "Message"}
	case m.id == "":
		return m, &protocolError{"3", "Message.id"}
	case !printable(1, 128)(m.id):
		return m, &protocolError{"5", "Message.id"}
	}
	return m, inspect(m.body, parts)
}

// inspect holds a message against its parts. Missing elements come first, then
// critical extensions, then forms.
func inspect(body *element, parts []part) *protocolError {
	var f inspection
	f.inspectChildren(body.name, body, parts)
	version := body.find("version").text
	switch {
	case len(f.missing) > 0:
		return &protocolError{"3", strings.Join(f.missing, ",")}
	case version < protocolVersion && printable(1, 8)(version):
		return &protocolError{"6", protocolVersion}
	case version != protocolVersion:
		return &protocolError{"5", body.name + ".version"}
	case len(f.critical) > 0:
		return &protocolError{"4", strings.Join(f.critical, ",")}
	case len(f.bad) > 0:
		return &protocolError{"5", strings.Join(f.bad, ",")}
	}
	return nil
}

type inspection struct{ missing, critical, bad []string }

// inspectChildren goes through the children of an element, which have an order.
func (f *inspection) inspectChildren(path string, e *element, parts []part) {
	if strings.TrimSpace(e.text) != "" {
		f.bad = append(f.bad, path)
	}
	rest := e.kids
	for _, p := range parts {
		n := 0
		for len(rest) > 0 && rest[0].name == p.name && (p.many == '*' || n == 0) {
			f.inspectElement(path+"."+p.name, rest[0], p)
			rest = rest[1:]
			n++
		}
		if n == 0 && p.many == once && e.find(p.name).name == "" {
			f.missing = append(f.missing, path+"."+p.name)
		}
	}
	for _, extra := range rest {
		f.bad = append(f.bad, fmt.Sprintf("%s.%s", path, extra.name))
	}
}

func (f *inspection) inspectElement(path string, e *element, p part) {
	switch {
	case p.name == "Extension" && e.attrs["critical"] == "true":
		f.critical = append(f.critical, e.attrs["id"])
	case p.name == "Extension":
	case p.ok == nil:
		f.inspectChildren(path, e, p.of)
	case len(e.kids) > 0 || !p.ok(e.text):
		f.bad = append(f.bad, path)
	}
}
