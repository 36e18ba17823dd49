package browser

import (
	"net/http"

	"github.com/openthreeds/threeds/web"
)

// ScriptPath returns the path of the threeds.js of this release. Its bytes never change.
func ScriptPath() string { return "/threeds." + web.Hash() + ".js" }

func (h *handler) script(w http.ResponseWriter, r *http.Request) {
	age := "public, max-age=3600"
	if r.URL.Path == ScriptPath() {
		age = "public, max-age=31536000, immutable"
	}
	serveAsset(w, "text/javascript; charset=utf-8", age, web.Script)
}

func (h *handler) types(w http.ResponseWriter, _ *http.Request) {
	serveAsset(w, "text/plain; charset=utf-8", "public, max-age=3600", web.Types)
}

func serveAsset(w http.ResponseWriter, mediaType, age string, content []byte) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Cache-Control", age)
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	_, _ = w.Write(content) // the client has gone, or reads it
}
