package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestG12ReferenceIsChecked: a reference that is not of 1 to 64 printable characters is refused with
// an error that says so, on /preauth and /auth, and does not matter elsewhere.
func TestG12ReferenceIsChecked(t *testing.T) {
	for _, tt := range []struct {
		values []string
		isGood bool
	}{
		{nil, true}, {[]string{"7"}, true}, {[]string{"order 7/ä"}, true}, {[]string{strings.Repeat("x", 64)}, true},
		{[]string{strings.Repeat("é", 64)}, true}, {[]string{""}, false}, {[]string{strings.Repeat("x", 65)}, false},
		{[]string{"a\tb"}, false}, {[]string{"a\xff"}, false}, {[]string{"a\u202eb"}, false}, {[]string{"a", "a"}, false},
		{[]string{"order 4111-1111 1111.1111"}, true}, {[]string{"4111111111111112"}, true}, // the check digit is wrong
	} {
		for path, isChecked := range map[string]bool{"/preauth": true, "/auth": true, "/postauth": false, "/check": false} {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(bodies[path]))
			r.Header["Apikey"] = []string{"k"}
			if tt.values != nil {
				r.Header["X-Reference"] = tt.values
			}
			if isMPI(path) {
				r.SetBasicAuth("k", "")
			}
			w := httptest.NewRecorder()
			newHandler(new(fake)).ServeHTTP(w, r)
			isRefused := w.Code == 400 && strings.Contains(w.Body.String(), `"errorDetail":"X-Reference"`) && strings.Contains(w.Header().Get("X-Errors"), "X-Reference")
			if isRefused != (isChecked && !tt.isGood) || !isRefused && w.Code != 200 {
				t.Errorf("%s, %q: %d %s", path, tt.values, w.Code, w.Body)
			}
		}
	}
}

// TestD106ReferenceHidesCardNumbers: digits that may be a card number go neither to the log nor to the engine.
func TestD106ReferenceHidesCardNumbers(t *testing.T) {
	got, err := readReference(context.Background(), http.Header{"X-Reference": {"order 4000 0012 3456 7890"}})
	if err != nil || got != "order ***" {
		t.Errorf("%q %v, want order ***", got, err)
	}
}
