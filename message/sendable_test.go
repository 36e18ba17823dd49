package message_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/message"
)

// TestC21PlaceholderCannotLeave: a placeholder serves the check of the other members, and a message that has one is
// refused to those who would send it.
func TestC21PlaceholderCannotLeave(t *testing.T) {
	for _, v := range message.Versions() {
		r := validRequest(t, v, message.BRW, message.PA).with("browserTZ", "", "browserUserAgent", "", "browserJavascriptEnabled", "true",
			"browserJavaEnabled", "true", "browserColorDepth", `"24"`, "browserScreenHeight", `"1"`, "browserScreenWidth", `"1"`, "browserLanguage", `"en"`).read(t)
		if _, p := r.Build(message.Context{}); len(p) != 2 {
			t.Fatalf("%s: %v, want two members that are missing", v, p)
		}
		r.SetPlaceholder("browserTZ", []byte(`"77"`))
		r.SetPlaceholder("browserUserAgent", []byte(`"a placeholder"`))
		m, p := r.Build(message.Context{})
		if len(p) > 0 {
			t.Fatalf("%s: %v", v, p)
		}
		want := []string{"browserTZ", "browserUserAgent"}
		text, err := m.Sendable()
		refusal, ok := errors.AsType[*message.PlaceholderError](err)
		if !ok || !slices.Equal(refusal.Names, want) || text.Bytes() != nil {
			t.Errorf("%s: %s, %v: want a refusal that names %q", v, text.Bytes(), err, want)
		}
		kept := string(m.WithoutPlaceholders())
		if strings.Contains(kept, "browserTZ") || strings.Contains(kept, "a placeholder") || !strings.Contains(kept, `"browserAcceptHeader"`) {
			t.Errorf("%s: without placeholders it is %s", v, kept)
		}
		again, err := message.ReadRequest([]byte(kept), message.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		again.Set("browserTZ", "60")
		again.Set("browserUserAgent", "Mozilla/5.0")
		if m, p = again.Build(message.Context{}); len(p) > 0 {
			t.Fatalf("%s: %v", v, p)
		}
		if text, err = m.Sendable(); err != nil || string(text.Bytes()) != string(m.Bytes()) {
			t.Errorf("%s: %s, %v", v, text.Bytes(), err)
		}
		r.Set("browserTZ", "60")
		r.Set("browserUserAgent", "Mozilla/5.0")
		if m, _ = r.Build(message.Context{}); len(m.Placeholders()) > 0 {
			t.Errorf("%s: a member that was told counts as a placeholder: %q", v, m.Placeholders())
		}
	}
}
