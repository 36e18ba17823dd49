package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/account"
)

// TestD113EncodedBodyIsRefused: a body in a content coding gets 415, with Erro 101 in 3-D Secure 2, and no engine gets
// it. A client without a good key is told 401 first.
func TestD113EncodedBodyIsRefused(t *testing.T) {
	for path, body := range bodies {
		for encoding, want := range map[string]int{"": 200, "identity": 200, "Identity": 200, "gzip": 415, "x": 415, "identity, br": 415} {
			h := newHandler(new(fake))
			if w := askEncoded(h, path, encoding, body); w.Code != want ||
				want == 415 && !isMPI(path) && !strings.Contains(w.Body.String(), `"errorCode":"101"`) {
				t.Errorf("%s, %q: %d %s, want %d", path, encoding, w.Code, w.Body, want)
			}
			h.Keys = strangers{}
			if w := askEncoded(h, path, encoding, body); w.Code != http.StatusUnauthorized {
				t.Errorf("%s, %q, no good key: %d, want 401", path, encoding, w.Code)
			}
		}
	}
}

// strangers are keys of which none is good.
type strangers struct{}

func (strangers) Authenticate(context.Context, string) (*account.Account, error) {
	return nil, account.ErrUnknownKey
}

func askEncoded(h http.Handler, path, encoding, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("APIKey", "k")
	r.Header.Set("Content-Encoding", encoding)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
