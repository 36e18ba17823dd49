package api_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/state/account"
)

// TestG2SeveralKeysAreNone: a request with more than one key has none, even if all are good. A password next to the key
// of /enrolled does not matter.
func TestG2SeveralKeysAreNone(t *testing.T) {
	h := &api.Handler{Keys: only("k"), Log: slog.New(slog.DiscardHandler)}
	const basic = "Basic azo=" // k:
	for _, test := range []struct {
		path, header string
		values       []string
		want         int
	}{
		{"/preauth", "APIKey", []string{"k"}, http.StatusMethodNotAllowed},
		{"/preauth", "APIKey", []string{"k", "k"}, http.StatusUnauthorized},
		{"/preauth", "APIKey", []string{"k", "other"}, http.StatusUnauthorized},
		{"/preauth", "APIKey", []string{"k", ""}, http.StatusUnauthorized},
		{"/preauth", "APIKey", nil, http.StatusUnauthorized},
		{"/enrolled", "Authorization", []string{basic}, http.StatusMethodNotAllowed},
		{"/enrolled", "Authorization", []string{basic, basic}, http.StatusUnauthorized},
		{"/enrolled", "Authorization", []string{basic, "Basic b3RoZXI6"}, http.StatusUnauthorized},
		{"/enrolled", "Authorization", nil, http.StatusUnauthorized},
		{"/enrolled", "Authorization", []string{"Basic azpzZWNyZXQ="}, http.StatusMethodNotAllowed}, // k:secret
		{"/enrolled", "Authorization", []string{"basic azrDpA=="}, http.StatusMethodNotAllowed},     // k:ä
		{"/enrolled", "Authorization", []string{"Basic aw=="}, http.StatusUnauthorized},             // k
	} {
		r := httptest.NewRequest(http.MethodGet, test.path, nil)
		for _, value := range test.values {
			r.Header.Add(test.header, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != test.want {
			t.Errorf("%s with %s %q: %d, want %d", test.path, test.header, test.values, w.Code, test.want)
		}
	}
}

// lost is a store of keys in which every lookup fails.
type lost struct{}

func (lost) Authenticate(context.Context, string) (*account.Account, error) {
	return nil, errors.New("the store hangs")
}

// TestKeyThatCannotBeLookedUp: while no key can be looked up, a caller that sends one is asked to try again and does
// not fill the log, for every operation. A path that does not exist needs no key. A lookup that ends because the caller
// has gone does not count as a failure of the store.
func TestKeyThatCannotBeLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := &api.Handler{Keys: lost{}, Log: slog.New(slog.NewTextHandler(&log, nil))}
		ask := func(ctx context.Context, path string, want int) {
			t.Helper()
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader("{}"))
			r.Header.Set("APIKey", "k")
			r.SetBasicAuth("k", "")
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s: %d, want %d", path, w.Code, want)
			}
		}
		flood := func() {
			for range 100 {
				ask(t.Context(), "/preauth", http.StatusBadRequest)
				ask(t.Context(), "/enrolled", http.StatusServiceUnavailable)
				ask(t.Context(), "/nowhere", http.StatusNotFound)
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		ask(gone, "/preauth", http.StatusBadRequest)
		ask(gone, "/check", http.StatusServiceUnavailable)
		if log.Len() > 0 {
			t.Errorf("of callers who have gone the log says %s", log.String())
		}
		for _, want := range []string{"others=0", "others=299"} {
			log.Reset()
			flood()
			if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "the store hangs") || !strings.Contains(got, want) {
				t.Errorf("the log says %.500s, want one line with %s", got, want)
			}
			time.Sleep(time.Minute)
		}
	})
}
