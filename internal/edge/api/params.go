package api

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// readParams reads the parameters of a form, or of a JSON object of the same
// structure: {"card": {"number": …}} is card[number]. A parameter that is given twice has two values. So has one whose
// value is not a text, for its meaning is not certain either.
func readParams(contentType string, body []byte) (url.Values, error) {
	kind, _, _ := mime.ParseMediaType(contentType)
	if kind == "application/json" || bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return readObject(body)
	}
	return readForm(string(body)), nil
}

// bad marks a parameter as one whose value cannot be used.
func bad(sent url.Values, name string) { sent[name] = append(sent[name], "", "") }

func readForm(body string) url.Values {
	sent := make(url.Values)
	for pair := range strings.SplitSeq(body, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			continue // unknown parameters are ignored, and so is one without a name
		}
		if value, err = url.QueryUnescape(value); err != nil {
			bad(sent, name)
			continue
		}
		sent.Add(name, value)
	}
	return sent
}

var errNoObject = errors.New("api: not a JSON object")

func readObject(body []byte) (url.Values, error) {
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	if d.PeekKind() != '{' {
		return nil, errNoObject
	}
	sent := make(url.Values)
	if err := readMembers(d, sent, ""); err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errNoObject // something follows it
	}
	return sent, nil
}

// readMembers reads an object and the objects directly in it. Deeper objects belong to no parameter.
func readMembers(d *jsontext.Decoder, sent url.Values, within string) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		if within != "" {
			name = within + "[" + name + "]"
		}
		if err := readMember(d, sent, name, within == ""); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

func readMember(d *jsontext.Decoder, sent url.Values, name string, outer bool) error {
	kind := d.PeekKind()
	switch kind {
	case '"', '0':
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		sent.Add(name, token.String())
		return nil
	case '{':
		if outer {
			return readMembers(d, sent, name)
		}
	}
	if kind != 'n' { // null is as good as absent
		bad(sent, name)
	}
	return d.SkipValue()
}
