package journal

import (
	"bytes"
	"io"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Texts that others have written may quote what must not be kept. These are the forms in which they could: addresses of
// e-mail, the digits of a card number with something between them, escaped bytes, and long words as base64 and
// hexadecimal digits make them.
var (
	mailForm    = regexp.MustCompile(`[^\s"'<>,;:]+@[^\s"'<>,;]+`)
	digitsForm  = regexp.MustCompile(`[0-9](?:[ \-./_:,\x{a0}]{0,2}[0-9]){11,}`)
	escapesForm = regexp.MustCompile(`(?:%[0-9A-Fa-f]{2}|&#x?[0-9A-Fa-f]+;|\\u00[0-9A-Fa-f]{2}){4,}`)
	wordForm    = regexp.MustCompile(`[A-Za-z0-9+/_=-]{20,}`)
	uuidForm    = regexp.MustCompile(`^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)
	uuidsForm   = regexp.MustCompile(`[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}`)
)

// scrubbed stands for what was taken out of a text.
const scrubbed = "***"

// ScrubText takes out of a text what could be a card number, an authentication value, a key or an address of e-mail.
// Long words that isKnown knows stay, and so do UUIDs.
func ScrubText(text string, isKnown func(word string) bool) string {
	if isCleanText(text) {
		return text
	}
	return scrubText(text, isKnown)
}

// scrubText is ScrubText for a text that may have something to take out.
func scrubText(text string, isKnown func(word string) bool) string {
	text = mailForm.ReplaceAllString(text, scrubbed)
	text = escapesForm.ReplaceAllString(text, scrubbed)
	text = wordForm.ReplaceAllStringFunc(text, func(word string) string {
		if uuidForm.MatchString(word) || isKnown(word) {
			return word
		}
		return scrubbed
	})
	return scrubDigits(text)
}

// secretWordForm is a word as long as an authentication value is in base64, or longer.
var secretWordForm = regexp.MustCompile(`[A-Za-z0-9+/_=-]{28,}`)

// HasSecretForm reports whether a text has what could be a card number, an authentication value or a key in it.
func HasSecretForm(text string) bool {
	text = uuidsForm.ReplaceAllString(text, " ")
	return scrubDigits(text) != text || secretWordForm.MatchString(text)
}

// scrubDigits takes long runs of digits out of a text, but not those of UUIDs.
func scrubDigits(text string) string {
	if !hasDigitRun(text) {
		return text
	}
	return cutDigitRuns(text)
}

// cutDigitRuns is scrubDigits for a text that may have such runs.
func cutDigitRuns(text string) string {
	var b strings.Builder
	last := 0
	for _, at := range append(uuidsForm.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		b.WriteString(digitsForm.ReplaceAllString(text[last:at[0]], scrubbed))
		b.WriteString(text[at[0]:at[1]])
		last = at[1]
	}
	return b.String()
}

// freeTexts are the members of messages whose text is anybody's.
var freeTexts = map[string]bool{
	"errorDescription": true, "errorDetail": true, "cardholderInfo": true, "name": true, "id": true,
}

// ScrubMessage returns a masked message of another party, without what its texts quote. The message is JSON, as package
// message writes it. Texts that are anybody's are scrubbed by [ScrubText], and all others of long runs of digits. A
// message that has nothing of that is returned as it is, and one with something to scrub that is no JSON becomes null.
func ScrubMessage(masked []byte, isKnown func(word string) bool) []byte {
	if isCleanMessage(masked) {
		return masked
	}
	return scrubMessage(masked, isKnown)
}

// scrubMessage is ScrubMessage for a message that may have something to take out.
func scrubMessage(masked []byte, isKnown func(word string) bool) []byte {
	var b bytes.Buffer
	in, out := jsontext.NewDecoder(bytes.NewReader(masked)), jsontext.NewEncoder(&b)
	name := ""
	for {
		token, err := in.ReadToken()
		if err == io.EOF {
			return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
		}
		if err != nil {
			return []byte("null")
		}
		if token.Kind() == '"' {
			kind, length := in.StackIndex(in.StackDepth())
			isName := kind == '{' && length%2 == 1
			switch text := token.String(); {
			case isName:
				name = text
			case freeTexts[name]:
				token = jsontext.String(scrubText(text, isKnown))
			default:
				token = jsontext.String(scrubDigits(text))
			}
		}
		if err := out.WriteToken(token); err != nil {
			return []byte("null")
		}
	}
}
