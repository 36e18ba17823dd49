package browser

import (
	"net/http"
	"slices"

	"github.com/openthreeds/threeds/internal/base/compress"
	"github.com/openthreeds/threeds/web"
)

// ScriptPath returns the path of the threeds.js that is built in. Its bytes never change.
func ScriptPath() string { return scriptPath(web.Hash()) }

// IsScriptPath reports whether a path is that of a threeds.js: the newest, the one that is built in,
// or an earlier release.
func IsScriptPath(path string) bool {
	if path == "/threeds.js" || path == ScriptPath() {
		return true
	}
	return slices.ContainsFunc(web.Releases(), func(r web.Release) bool { return path == scriptPath(r.Hash()) })
}

func scriptPath(hash string) string { return "/threeds." + hash + ".js" }

// serveScripts serves the newest threeds.js with its types, and each release at its own address.
func (h *handler) serveScripts() {
	serve := func(path, mediaType, age string, content []byte) {
		file := compress.NewFile(mediaType, content)
		h.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", age)
			w.Header().Set("Access-Control-Allow-Origin", "*")
			w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
			file.ServeHTTP(w, r)
		})
	}
	const script, anHour, forEver = "text/javascript; charset=utf-8", "public, max-age=3600",
		"public, max-age=31536000, immutable"
	serve("/threeds.d.ts", "text/plain; charset=utf-8", anHour, web.Types)
	serve("/threeds.js", script, anHour, web.Script)
	serve(ScriptPath(), script, forEver, web.Script)
	isServed := map[string]bool{ScriptPath(): true}
	for _, r := range h.Releases {
		if path := scriptPath(r.Hash()); !isServed[path] { // releases may have the same script
			isServed[path] = true
			serve(path, script, forEver, r.Script)
		}
	}
}
