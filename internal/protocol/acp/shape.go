package acp

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A kind is the JSON type of a member.
type kind int

const (
	text kind = iota
	integer
	boolean
	nested // an object
)

// A member is what a request may have at one place.
type member struct {
	name       string
	kind       kind
	isRequired bool
	min, max   int      // characters of a text; a max of 0 is no limit
	words      []string // the texts that are allowed; none means any text
	pattern    *regexp.Regexp
	of         []member // the members of a nested object
}

var currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)

// The members of requests.
var (
	browserShape = []member{
		{name: "accept_header", isRequired: true},
		{name: "ip_address", isRequired: true, max: 45},
		{name: "javascript_enabled", kind: boolean, isRequired: true},
		{name: "language", isRequired: true, max: 35},
		{name: "user_agent", isRequired: true},
		{name: "color_depth", kind: integer},
		{name: "java_enabled", kind: boolean},
		{name: "screen_height", kind: integer},
		{name: "screen_width", kind: integer},
		{name: "timezone_offset", kind: integer},
	}
	addressShape = []member{
		{name: "name", isRequired: true, max: 256},
		{name: "line_one", isRequired: true, max: 60},
		{name: "line_two", max: 60},
		{name: "city", isRequired: true, max: 60},
		{name: "state", isRequired: true},
		{name: "country", isRequired: true, min: 2, max: 2},
		{name: "postal_code", isRequired: true, max: 20},
	}
	laterShape = []member{ // in either request
		{name: "channel", kind: nested, of: []member{
			{name: "type", isRequired: true, words: []string{"browser"}},
			{name: "browser", kind: nested, isRequired: true, of: browserShape},
		}},
		{name: "checkout_session_id"},
		{name: "challenge_notification_url"},
		{name: "shopper_details", kind: nested, of: []member{
			{name: "name"}, {name: "email"}, {name: "phone_number"}, {name: "address", kind: nested, of: addressShape},
		}},
	}
	createShape = append([]member{
		{name: "merchant_id", isRequired: true},
		{name: "acquirer_details", kind: nested, of: []member{
			{name: "acquirer_bin", isRequired: true, max: 11},
			{name: "acquirer_country", isRequired: true, min: 2, max: 2},
			{name: "acquirer_merchant_id", isRequired: true, max: 35},
			{name: "merchant_name", isRequired: true, max: 40},
			{name: "requestor_id", max: 35},
		}},
		{name: "payment_method", kind: nested, isRequired: true, of: []member{
			{name: "type", isRequired: true, words: []string{"card"}},
			{name: "number", isRequired: true},
			{name: "exp_month", isRequired: true, max: 2},
			{name: "exp_year", isRequired: true, max: 4},
			{name: "name", isRequired: true},
		}},
		{name: "amount", kind: nested, isRequired: true, of: []member{
			{name: "value", kind: integer, isRequired: true},
			{name: "currency", isRequired: true, pattern: currencyForm},
		}},
		{name: "flow_preference", kind: nested, of: []member{
			{name: "type", isRequired: true, words: []string{"challenge", "frictionless"}},
			{name: "challenge", kind: nested, of: []member{{name: "type", words: []string{"mandated", "preferred"}}}},
			{name: "frictionless", kind: nested},
		}},
	}, laterShape...)
	authenticateShape = append([]member{
		{name: "fingerprint_completion", isRequired: true, words: []string{"Y", "N", "U"}},
	}, laterShape...)
)

// A faultList is all that is wrong with a request.
type faultList struct {
	paths   []string
	texts   []string // what is wrong at each of the paths
	unknown []string // paths of members that are too many
}

// add adds a fault. It reports one fault of a member or of the object around it.
func (l *faultList) add(path, form string, args ...any) {
	for _, other := range l.paths {
		if path == other || strings.HasPrefix(path, other+".") {
			return
		}
	}
	l.paths = append(l.paths, path)
	l.texts = append(l.texts, path+" "+fmt.Sprintf(form, args...))
}

// err returns the faults as one error, nil if there are none. Members that are too many come first.
func (l *faultList) err() error {
	paths, texts := l.paths, l.texts
	if len(l.unknown) > 0 {
		slices.Sort(l.unknown)
		paths = append([]string{l.unknown[0]}, paths...)
		texts = append([]string{"The request has members that there are not: " + strings.Join(l.unknown, ", ")}, texts...)
	}
	if len(paths) == 0 {
		return nil
	}
	return newFault(paths[0], strings.Join(texts, "; "))
}

// readShape checks a body against the members that it may have, and decodes it. The faults are in the list; the error
// is that nothing could be decoded.
func (l *faultList) readShape(body []byte, shape []member, into any) error {
	if jsontext.Value(body).Kind() != '{' || !jsontext.Value(body).IsValid() {
		return NewError(http.StatusBadRequest, "", "The body is not a JSON object, or has a member twice")
	}
	l.checkObject("$", body, shape)
	if err := json.Unmarshal(body, into); err != nil {
		if faults := l.err(); faults != nil {
			return faults // a member has another type
		}
		return NewError(http.StatusBadRequest, "", "The body cannot be read")
	}
	return nil
}

func (l *faultList) checkObject(path string, body jsontext.Value, shape []member) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members); err != nil {
		l.add(path, "must be an object")
		return
	}
	for name := range members {
		if !slices.ContainsFunc(shape, func(m member) bool { return m.name == name }) {
			l.unknown = append(l.unknown, memberPath(path, name))
		}
	}
	for _, m := range shape {
		value, has := members[m.name]
		switch {
		case has:
			l.checkMember(memberPath(path, m.name), value, &m)
		case m.isRequired:
			l.add(memberPath(path, m.name), "is missing")
		}
	}
}

// plainName is a member that a JSONPath may have after a dot.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// memberPath returns the path of a member of an object. A long name that the sender chose is not repeated.
func memberPath(path, name string) string {
	if plainName.MatchString(name) && len(name) <= 64 {
		return path + "." + name
	}
	return path + ".*"
}

func (l *faultList) checkMember(path string, value jsontext.Value, m *member) {
	switch m.kind {
	case text:
		l.checkText(path, value, m)
	case integer:
		if _, err := strconv.ParseInt(string(value), 10, 64); err != nil {
			l.add(path, "must be a whole number")
		}
	case boolean:
		if k := value.Kind(); k != 't' && k != 'f' {
			l.add(path, "must be true or false")
		}
	case nested:
		l.checkObject(path, value, m.of)
	}
}

func (l *faultList) checkText(path string, value jsontext.Value, m *member) {
	var s string
	if value.Kind() != '"' || json.Unmarshal(value, &s) != nil {
		l.add(path, "must be a string")
		return
	}
	n := utf8.RuneCountInString(s)
	switch {
	case len(m.words) > 0 && !slices.Contains(m.words, s):
		l.add(path, "must be one of: %s", strings.Join(m.words, ", "))
	case m.max > 0 && (n < m.min || n > m.max):
		l.add(path, "must have %d to %d characters", m.min, m.max)
	case m.pattern != nil && !m.pattern.MatchString(s):
		l.add(path, "must have the form %s", m.pattern)
	}
}
