// Package inspect reads the texts that support people have, and says what is wrong with them: a message, a request, a
// line of a log, a form, a base64url creq, or a PARes of 3-D Secure 1.0.2. Use [Read] to find the message in a text,
// and [Check] to check it. Nothing of a text is kept or logged, and what a [Report] shows of a message is masked.
package inspect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/internal/protocol/v1/packing"
	"github.com/openthreeds/threeds/message"
)

// An Input is what a text turned out to be.
type Input struct {
	Kind  string        // areq, auth-body, ares, …, log-line, creq, cres, form, pares; message if it has no known type
	Data  []byte        // the JSON of the message; nil for a PARes and for lines
	XML   []byte        // of a PARes
	Lines []RequestLine // of this server's request log, which hold no message
	Other int           // lines of its log about something else, among them
}

// The fields of forms that hold a message.
var messageFields = []string{"creq", "cres", "threeDSMethodData", "PaRes", "pares", "PaReq"}

// Read finds the message in a text: JSON, a log line with JSON in it, base64url, a form, or a PARes. Lines of this
// server's request log have no message, and are read as they are. It returns false if the text has none of these.
func Read(data []byte) (in Input, ok bool) {
	text := bytes.TrimSpace(data)
	if bytes.HasPrefix(text, []byte("{")) {
		if lines, other := readRequestLines(text); len(lines) > 0 {
			return Input{Kind: "log-line", Lines: lines, Other: other}, true
		}
		if inner, ok := messageInLog(text); ok {
			return Input{Kind: kindInLog(inner), Data: inner}, true
		}
		return Input{Kind: kindOfMessage(text), Data: data}, true
	}
	if in, ok := readEncoded(string(text)); ok {
		return in, true
	}
	if form, err := url.ParseQuery(string(text)); err == nil && bytes.IndexByte(text, '=') > 0 {
		for _, name := range messageFields {
			if inner, ok := readEncoded(form.Get(name)); ok {
				inner.Kind = "form"
				return inner, true
			}
		}
	}
	if i := bytes.IndexByte(text, '{'); i > 0 && text[0] != '<' && !bytes.HasPrefix(text, []byte("\ufeff")) {
		if inner := messageInLine(text[i:]); inner != nil {
			return Input{Kind: kindInLog(inner), Data: inner}, true
		}
	}
	return Input{}, false
}

// DescribeOther returns what a text that is not JSON may be. It quotes nothing.
func DescribeOther(data []byte) string {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return ": it is empty"
	case data[0] == '<':
		return ": XML, like the messages of 3-D Secure 1, is not checked here"
	}
	return ""
}

// kindOfMessage names the kind of a JSON message: by its type, or as a body for /auth if it is an AReq
// that lacks what the server sets.
func kindOfMessage(data []byte) string {
	m, err := message.Parse(data, message.Limits{Depth: -1, Members: -1})
	if err != nil {
		return "message"
	}
	switch t, ok := m.Type(); {
	case !ok:
		return "message"
	case t == message.AReq && !m.Has("threeDSServerRefNumber") && !m.Has("threeDSServerURL"):
		return "auth-body"
	default:
		return strings.ToLower(t.String())
	}
}

// readEncoded reads a message in base64url, as creq and cres are, or a packed PARes.
func readEncoded(text string) (in Input, ok bool) {
	plain := strings.NewReplacer("+", "-", "/", "_", "\r", "", "\n", "", " ", "").Replace(text)
	if data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(plain, "=")); err == nil &&
		bytes.HasPrefix(data, []byte("{")) {
		return Input{Kind: kindOfMessage(data), Data: data}, true
	}
	if doc, _, err := packing.Inflate(text); err == nil && bytes.Contains(doc, []byte("<PARes")) {
		return Input{Kind: "pares", XML: doc}, true
	}
	return Input{}, false
}

// messageInLog returns the message that a log line in JSON has as one of its values, as an object or
// as a text.
func messageInLog(line []byte) (inner []byte, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(line, &members) != nil || members["messageType"] != nil || members["msg"] == nil {
		return nil, false
	}
	for _, raw := range members {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			raw = []byte(text)
		}
		if bytes.HasPrefix(raw, []byte("{")) && bytes.Contains(raw, []byte(`"messageType"`)) {
			return raw, true
		}
	}
	return nil, false
}

// A RequestLine is what a line of the request log says, as docs/operating/logs.md has it.
type RequestLine struct {
	Time, Level, Msg, Operation, Merchant, ID, Message, Scheme, Last4, Version, Status, Reason, ECI, ResultsStatus,
	Code, Detail string

	Number   int `json:"-"` // of the line in the text, from 1
	HTTP     int
	Aborted  bool
	Elements []string
}

// readRequestLines reads a text whose lines are all of this server's log, and counts the lines that are about no
// request. It returns nil for any other text.
func readRequestLines(text []byte) (all []RequestLine, other int) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		l := RequestLine{Number: number}
		if json.Unmarshal(line, &l) != nil || l.Msg == "" || l.Level == "" {
			return nil, 0
		}
		if l.Msg != "request" || l.Operation == "" {
			other++
			continue
		}
		all = append(all, l)
	}
	return all, other
}

// Describe returns what happened, in one line.
func (l *RequestLine) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q", l.Operation)
	if l.HTTP != 0 {
		fmt.Fprintf(&b, " was answered with HTTP %d", l.HTTP)
	} else {
		b.WriteString(" got no answer: the caller had gone")
	}
	for _, m := range []struct{ name, value string }{
		{"time", l.Time}, {"merchant", l.Merchant}, {"threeDSServerTransID", l.ID}, {"message", l.Message},
		{"scheme", l.Scheme}, {"last4", l.Last4}, {"messageVersion", l.Version}, {"transStatus", l.Status},
		{"transStatusReason", l.Reason}, {"eci", l.ECI}, {"resultsStatus", l.ResultsStatus}, {"detail", l.Detail},
	} {
		if m.value != "" {
			fmt.Fprintf(&b, ", %s %q", m.name, m.value)
		}
	}
	return b.String()
}

// problems returns what was wrong with the request: its code, for each of the elements.
func (l *RequestLine) problems(note string) (all message.Problems) {
	code, err := strconv.Atoi(l.Code)
	if err != nil {
		return nil
	}
	for _, element := range l.Elements {
		all = append(all, message.Problem{Path: message.Path(element), Code: message.Code(code), Note: note})
	}
	if len(l.Elements) == 0 {
		all = append(all, message.Problem{Code: message.Code(code), Note: note})
	}
	return all
}

// kindInLog is the kind of a message in a log line. A body for /auth is judged as such wherever it stands.
func kindInLog(inner []byte) string {
	if kind := kindOfMessage(inner); kind == "auth-body" {
		return kind
	}
	return "log-line"
}

// messageInLine returns the JSON object in a text that is a message, or nil if there is none. Other objects, such as
// the headers of a request, may stand before it and behind it.
func messageInLine(text []byte) []byte {
	for len(text) > 0 {
		i := bytes.IndexByte(text, '{')
		if i < 0 {
			return nil
		}
		object := firstObject(text[i:])
		if object == nil {
			text = text[i+1:]
			continue
		}
		if bytes.Contains(object, []byte(`"messageType"`)) {
			return object
		}
		text = text[i+len(object):]
	}
	return nil
}

// firstObject returns the JSON object at the start of a text, or nil if there is none.
func firstObject(text []byte) []byte {
	var raw json.RawMessage
	if json.NewDecoder(bytes.NewReader(text)).Decode(&raw) != nil {
		return nil
	}
	return raw
}

// prepareAuthBody returns the AReq that /auth makes of a body, what it corrects, and what is wrong with it.
// The members that the server adds are placeholders, so that their lack is no fault.
func prepareAuthBody(data []byte) (*message.Message, []message.Change, message.Problems, error) {
	r, err := message.ReadRequest(data, message.Limits{Members: -1})
	if err != nil {
		return nil, nil, nil, err
	}
	r.Set("threeDSServerRefNumber", "3DS_LOA_SER_0000")
	r.Set("threeDSServerURL", "https://server.example/results")
	r.Default("threeDSRequestorID", "requestor")
	r.Default("threeDSRequestorName", "Requestor")
	if r.Text("deviceChannel") != "02" {
		r.Default("threeDSServerTransID", "00000000-0000-4000-8000-000000000000")
	}
	changes := r.Normalise()
	m, problems := r.Build(message.Context{})
	return m, changes, problems, nil
}

// maskedNumber is a card number whose middle digits were made unreadable.
var maskedNumber = regexp.MustCompile(`^[0-9]{0,8}[*xX•.#]{3,}[0-9]{0,4}$`)

// withoutMasked removes the problem that a card number has because it is masked, and reports
// whether there was one.
func withoutMasked(m *message.Message, problems message.Problems) (message.Problems, bool) {
	if m == nil || !maskedNumber.MatchString(m.Text("acctNumber")) {
		return problems, false
	}
	return slices.DeleteFunc(problems, func(p message.Problem) bool {
		return p.Path == "acctNumber" && p.Code == message.Format
	}), true
}

// describeUnjudged returns what cannot be said of a message without the other messages of its
// transaction; "" if there is nothing of the kind.
func describeUnjudged(m *message.Message) string {
	t, ok := m.Type()
	v, ok2 := m.Version()
	if !ok || !ok2 || t == message.AReq {
		return ""
	}
	table := message.TableOf(t, v)
	if table == nil {
		return ""
	}
	var all []string
	for _, earlier := range []message.Type{message.AReq, message.ARes, message.RReq, message.CReq, message.PReq} {
		var elements []string
		seen := map[string]bool{}
		add := func(name, condition string) {
			if strings.Contains(condition, strings.ToLower(earlier.String())+".") && !seen[name] {
				seen[name] = true
				elements = append(elements, name)
			}
		}
		for _, r := range table.Rules {
			add(r.Field, r.When+" "+r.Must)
		}
		for _, f := range table.Fields {
			add(f.Name, f.When)
		}
		if len(elements) > 0 {
			all = append(all, strings.Join(elements, ", ")+" by the "+earlier.String())
		}
	}
	return strings.Join(all, "; ")
}
