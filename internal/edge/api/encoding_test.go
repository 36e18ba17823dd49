package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/state/account"
)

// TestD113EncodedBodyIsRefused: a body in a content coding gets 415, with Erro 101 in 3-D Secure 2, and no engine gets
// it. A client without a good key gets 401 first.
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

// strangers has no good keys.
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

// A longAnswer is an engine with answers that compression would make much shorter.
type longAnswer struct{ engine }

func (longAnswer) Preauth(context.Context, *account.Account, []byte) ([]byte, auth.Notes, error) {
	return []byte(`{"x":"` + strings.Repeat("x", 10_000) + `"}`), auth.Notes{}, nil
}

func (longAnswer) Authentication(context.Context, *account.Account, string) (*auth.Authentication, error) {
	return &auth.Authentication{Reference: strings.Repeat("x", 10_000)}, nil
}

// TestAnswersOfTheAPIAreNeverCompressed: they contain authentication values together with texts that a caller chose, so
// their length must not show what is in them.
func TestAnswersOfTheAPIAreNeverCompressed(t *testing.T) {
	h := newHandler(new(fake))
	h.Engine = longAnswer{engine{new(fake)}}
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodPost, "/preauth", strings.NewReader("{}")),
		httptest.NewRequest(http.MethodGet, "/authentications/00000000-0000-4000-8000-000000000001", nil),
	} {
		r.Header.Set("APIKey", "k")
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != "" || w.Body.Len() < 10_000 {
			t.Errorf("%s: %d %v, %d bytes", r.URL, w.Code, w.Header(), w.Body.Len())
		}
	}
}
