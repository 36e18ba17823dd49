package answered_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openthreeds/threeds/internal/base/answered"
)

// TestStatusIsThatOfTheAnswer: what comes before the answer, or after its beginning, does not count, and an answer
// without a status has 200. The header can be changed when the answer begins, once.
func TestStatusIsThatOfTheAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		serve func(w http.ResponseWriter)
		want  int
		begun int
	}{
		"nothing":     {func(http.ResponseWriter) {}, 0, 0},
		"early hints": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, 0, 0},
		"body alone":  {func(w http.ResponseWriter) { _, _ = w.Write([]byte("x")); _, _ = w.Write([]byte("x")) }, http.StatusOK, 1},
		"twice": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusCreated)
			w.WriteHeader(http.StatusConflict)
		}, http.StatusCreated, 1},
	} {
		behind, begun := httptest.NewRecorder(), 0
		w := &answered.Writer{ResponseWriter: behind}
		w.Before = func() {
			begun++
			w.Header().Set("Begun", "yes")
		}
		test.serve(w)
		if w.Status != test.want || begun != test.begun || (w.Header().Get("Begun") == "yes") != (begun > 0) {
			t.Errorf("%s: status %d, begun %d times, want %d and %d", name, w.Status, begun, test.want, test.begun)
		}
		if http.NewResponseController(w).Flush() != nil {
			t.Errorf("%s: a controller does not find what is behind", name)
		}
	}
}
