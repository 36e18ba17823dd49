package playground

import (
	"bytes"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/internal/base/compress"
	"github.com/openthreeds/threeds/sandbox"
)

// isOwnHost reports whether no other party can have pages under the host that a browser has asked for: it is an
// address, or a name that cannot be owned. Behind a proxy only the public address counts.
func (a *Address) isOwnHost(host string) bool {
	if a.IsBehindProxy {
		return false
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil || sandbox.IsPrivateHost(host)
}

// serveBelow serves pages that were made for the root of a listener below a path: their links, forms and
// redirects begin with it.
func serveBelow(path string, next http.Handler) http.Handler {
	stripped := http.StripPrefix(path, next)
	return compress.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path {
			http.Redirect(w, r, path+"/", http.StatusPermanentRedirect)
			return
		}
		r = r.Clone(r.Context())
		r.Header.Del("Accept-Encoding") // a page is compressed when its links are right
		below := &belowWriter{ResponseWriter: w, path: path}
		stripped.ServeHTTP(below, r)
		below.finish()
	}))
}

// A belowWriter writes an answer with the addresses that it has below a path.
type belowWriter struct {
	http.ResponseWriter
	path   string
	status int // 0 means that nothing has been written
	isPage bool
	page   bytes.Buffer // collects a page of HTML until the whole page has been written
}

// WriteHeader implements [http.ResponseWriter].
func (w *belowWriter) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	h := w.Header()
	if to := h.Get("Location"); strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") {
		h.Set("Location", w.path+to)
	}
	if w.isPage = strings.HasPrefix(h.Get("Content-Type"), "text/html"); !w.isPage {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements [http.ResponseWriter].
func (w *belowWriter) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.isPage {
		return w.page.Write(data)
	}
	return w.ResponseWriter.Write(data)
}

// Unwrap is for [http.ResponseController].
func (w *belowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ownLink is the beginning of a link to a path of the same origin. A template writes a quote of its own alone like
// that: in a text or a value it is a character reference.
var ownLink = regexp.MustCompile(`(\s(?:href|action|src)=")/([^/])`)

// finish writes the page.
func (w *belowWriter) finish() {
	if !w.isPage {
		return
	}
	page := ownLink.ReplaceAll(w.page.Bytes(), []byte("${1}"+w.path+"/${2}"))
	if w.Header().Get("Content-Length") != "" {
		w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	}
	w.ResponseWriter.WriteHeader(w.status)
	_, _ = w.ResponseWriter.Write(page) // the browser that has gone needs no answer
}
