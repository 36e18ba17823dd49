package api

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/edge/docsite"
)

// TestProblemsLinkToTheirRow: a problem of each name links to the row of the documentation that explains it, where the
// documentation is served. Elsewhere it has no link.
func TestProblemsLinkToTheirRow(t *testing.T) {
	site, err := docsite.New()
	if err != nil {
		t.Fatal(err)
	}
	get := func(h http.Handler, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	problem := func(h *Handler, name string) http.Header {
		return get(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.writeProblem(w, r, newProblem(name, http.StatusBadRequest, "a detail"))
		}), "/authentications").Header()
	}
	const base = "http://127.0.0.1:8080"
	h := &Handler{DocsURL: base + docsite.Path, Log: slog.New(slog.DiscardHandler)}
	for name := range titles {
		link := problem(h, name).Get("Link")
		address, isHelp := strings.CutSuffix(link, `>; rel="help"`)
		path, anchor, _ := strings.Cut(strings.TrimPrefix(address, "<"+base), "#")
		if page := get(site, path).Body.String(); !isHelp || anchor == "" || !strings.Contains(page, ` id="`+anchor+`"`) {
			t.Errorf("%s links to %q, which is no row of a page", name, link)
		}
	}
	if link := problem(&Handler{Log: slog.New(slog.DiscardHandler)}, "invalid").Get("Link"); link != "" {
		t.Errorf("without documentation a problem links to %q", link)
	}
}
