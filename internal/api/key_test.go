package api_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openthreeds/threeds/internal/api"
)

// TestSeveralKeys: a request with more than one key has none, even if all are good.
func TestSeveralKeys(t *testing.T) {
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
