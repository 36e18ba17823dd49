package shop

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// visible is a text of somebody else's as a page shows it: each character that cannot be seen is written as \uXXXX,
// line ends and tabs excepted. Among them are those that turn the direction of the text around them. The shop has its
// own, for it uses no package of the server but client.
func visible(text string) string {
	isVisible := func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsGraphic(r) }
	if !strings.ContainsFunc(text, func(r rune) bool { return !isVisible(r) }) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isVisible(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// encode writes base64url without padding, the form that the protocol asks
// for. ACSs fail on any other.
func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

var errNotBase64 = errors.New("not base64")

// standard turns the URL alphabet into the other one and drops line breaks.
var standard = strings.NewReplacer("-", "+", "_", "/", "\r", "", "\n", "", "\t", "")

// decode reads what ACSs really send: either alphabet, with padding or
// without, with white space in it. A space may also be a plus sign that a form
// lost: it is one when the value makes sense only so.
func decode(text string) ([]byte, error) {
	text = strings.TrimRight(standard.Replace(text), "= ")
	data, err := base64.RawStdEncoding.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err == nil && (isJSON(data) || !strings.Contains(text, " ")) {
		return data, nil
	}
	data, err = base64.RawStdEncoding.DecodeString(strings.ReplaceAll(strings.TrimLeft(text, " "), " ", "+"))
	if err != nil {
		return nil, errNotBase64
	}
	return data, nil
}

// isJSON reads the whole text: four lost plus signs remove three bytes and damage those between them.
func isJSON(data []byte) bool { return utf8.Valid(data) && json.Valid(data) }
