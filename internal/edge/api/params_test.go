package api

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/difftest"
)

// FuzzParams: a form is read as net/url reads it, where that finds no fault, and
// an object that is read is JSON. Neither has a name in it that was not sent.
func FuzzParams(f *testing.F) {
	for _, seed := range []string{
		"amount=1&card%5Bnumber%5D=4000&x", "a=%zz&%zz=1&&=", `{"card":{"number":"4000","number":1},"a":null,"b":[],"c":{"d":{"e":1}}}`,
		`{"a":"\u0061\ud800"}`, `{"a":1}x`, " {", `{"a":tru}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		form := readForm(body)
		if want, err := url.ParseQuery(body); err == nil && body != "" && !strings.Contains(body, "&&") &&
			!strings.HasPrefix(body, "&") && !strings.HasSuffix(body, "&") {
			if diff := difftest.Diff(want, form); diff != "" {
				t.Errorf("readForm(%q) (-want +got):\n%s", body, diff)
			}
		}
		sent, err := readObject([]byte(body))
		if err != nil {
			return
		}
		if !json.Valid([]byte(body)) {
			t.Errorf("readObject(%q) = %v, which is no JSON", body, sent)
		}
		for name, values := range sent {
			if len(values) == 0 {
				t.Errorf("readObject(%q): %q has no value", body, name)
			}
		}
	})
}
