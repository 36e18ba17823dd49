package journal

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func isKnownWord(word string) bool { return word == "threeDSRequestorAuthenticationInfo" }

// TestJ6OrdinaryMessagesAreNotScrubbed: a message with UUIDs, times and short texts is not written again, and no memory
// is needed to find out.
func TestJ6OrdinaryMessagesAreNotScrubbed(t *testing.T) {
	message := []byte(`{"messageType":"ARes","acsTransID":"12345678-1234-1234-1234-123456789012","eci":"05","purchaseDate":null,` +
		`"acsURL":"https://acs.example/3b3d7d3e-1234-4234-9234-123456789012","cardholderInfo":"Call 030 1234567, please",` +
		`"messageExtension":[{"name":"Bridging","id":"A1","criticalityIndicator":false,"data":"[withheld, 81 bytes]"}]}`)
	if !isCleanMessage(message) {
		t.Errorf("%s is looked at a second time", message)
	}
	if n := testing.AllocsPerRun(10, func() { ScrubMessage(message, isKnownWord) }); n != 0 {
		t.Errorf("a clean message takes %v allocations", n)
	}
}

// FuzzCleanMessages: the slow way leaves every text and every message as it is that is called clean.
func FuzzCleanMessages(f *testing.F) {
	for _, text := range []string{
		"4000000000000002", "4 0 0 0 0 0 0 0 0 0 0 0", "4--0--0--0--0--0--0--0--0--0--0--0", "4---00000000000", "123456789012\u00a0",
		"12345678-1234-1234-1234-123456789012", "1234 12345678-1234-1234-1234-123456789012 12345678", "1\u00a0\u00a02345678901\u00a02",
		"ann@shop.example", "%34%30%30%30", "&#52;&#48;&#48;&#48;", "AAABBCJZUwAAAAAAUFlTAAAAAAA=", "A000000802-001", "threeDSRequestorAuthenticationInfo",
		`{"errorDetail":"x","a":["1",{"name":"4000000000000002"}],"b":1.50e3,"c":-0,"d":null}`, `{"name":{"x":"AAABBCJZUwAAAAAAUFlTAAAAAAA="}}`,
		`{"cardholderInfo":"ü"}`, `["\u0034"]`, `{"a" :1}`, `"<>&"`,
		`{"a \"":" b\\"}`, `["\\" ,"a"]`, `["\\\""," "]`, `[1,2] `, `1`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if isCleanText(text) && scrubText(text, isKnownWord) != text {
			t.Errorf("the text %q is called clean and becomes %q", text, scrubText(text, isKnownWord))
		}
		if isCleanText(text) != isCleanText([]byte(text)) {
			t.Errorf("%q is one thing as a text and another as bytes", text)
		}
		if got := hasDigitRun(text); got != (cutDigitRuns(text) != text) {
			t.Errorf("hasDigitRun(%q) is %v, and scrubbed it is %q", text, got, cutDigitRuns(text))
		}
		message := []byte(text)
		if !jsontext.Value(message).IsValid() {
			return // package message does not write such
		}
		compact := jsontext.Value(bytes.Clone(message))
		if err := compact.Compact(); err != nil || hasBlanks(message) != (len(compact) != len(message)) {
			t.Errorf("hasBlanks(%s) is %v, and without them it is %s, %v", text, hasBlanks(message), compact, err)
		}
		if got := scrubMessage(message, isKnownWord); isCleanMessage(message) && string(got) != text {
			t.Errorf("the message %s is called clean and becomes %s", text, got)
		}
	})
}
