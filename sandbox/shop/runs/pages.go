package runs

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/base/compress"
	"github.com/openthreeds/threeds/internal/edge/lanes"
)

//go:embed assets/*.html assets/*.css assets/*.js
var assets embed.FS

// AddTemplates adds to a set what shows a [View]: "run" on a page of the shop, and "runs.html", the page of all runs.
func AddTemplates(t *template.Template) *template.Template {
	return template.Must(lanes.AddTemplates(t).ParseFS(assets, "assets/*.html"))
}

// Register adds the pages of the runs and what they load to a mux.
func (h *History) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /runs", func(w http.ResponseWriter, _ *http.Request) {
		h.Page(w, http.StatusOK, "runs.html", map[string]any{"Runs": h.summaries(""), "Module": h.Server + "/threeds.js"})
	})
	mux.HandleFunc("GET /runs/{id}/curl", h.curl)
	mux.Handle("POST /runs/{id}/again", http.NewCrossOriginProtection().Handler(h.Watch("pay", http.HandlerFunc(h.again))))
	style, _ := assets.ReadFile("assets/run.css") // both are in the binary
	script, _ := assets.ReadFile("assets/run.js")
	mux.Handle("GET /static/run.css", compress.NewFile("text/css; charset=utf-8",
		slices.Concat(lanes.Tokens(), lanes.Styles(), style)))
	mux.Handle("GET /static/run.js", compress.NewFile("text/javascript; charset=utf-8",
		slices.Concat(lanes.Script(), script)))
}

// requestOf returns the request that a run began with; nil if it is not remembered.
func (h *History) requestOf(id string) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.find(id); r != nil {
		return r.request
	}
	return nil
}

// curl shows a line for a shell that makes the request of a run again. It has the whole card number.
func (h *History) curl(w http.ResponseWriter, r *http.Request) {
	request := h.requestOf(r.PathValue("id"))
	if request == nil {
		http.Error(w, "The shop remembers no such run.", http.StatusNotFound)
		return
	}
	key := `"APIKey: $KEY"`
	if h.Key != "" {
		key = quote("APIKey: " + h.Key)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintf(w, "curl -sS %s \\\n  -H %s -H 'Content-Type: application/json' \\\n  -d %s\n",
		quote(h.Server+"/authentications"), key, quote(string(request))) // the browser may be gone
}

// quote returns a text as one word of a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// again makes the request of a run once more: for the script of the page, which goes on with threeds.js, or without it
// by the hosted page.
func (h *History) again(w http.ResponseWriter, r *http.Request) {
	var request map[string]any
	if err := json.NewDecoder(bytes.NewReader(h.requestOf(r.PathValue("id")))).Decode(&request); err != nil {
		http.Error(w, "The shop remembers no such run.", http.StatusNotFound)
		return
	}
	isScript := strings.HasPrefix(r.Header.Get("Accept"), "application/json")
	delete(request, "returnUrl")
	if !isScript {
		request["returnUrl"] = h.Base(r) + "/order"
	}
	a, err := h.Authenticate(r.Context(), request)
	if err != nil {
		h.Log.Warn("shop: POST /authentications", "err", err)
		http.Error(w, "The payment could not be made.", http.StatusBadGateway)
		return
	}
	to := "/order?authentication=" + url.QueryEscape(a.ID)
	next := map[string]string{"to": to}
	if a.Browser != nil {
		next["url"] = a.Browser.URL
	}
	if !isScript {
		if next["url"] != "" {
			to = next["url"]
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(next) // the browser may be gone
}
