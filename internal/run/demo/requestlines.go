package demo

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/answered"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
)

// PrintRequests returns a handler that writes a line for each request to a terminal: method, path, status and
// milliseconds. Files of pages are left out, and those of the console, which asks for its own while it is looked at.
func PrintRequests(to io.Writer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isPagePart(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		start, seen := time.Now(), &answered.Writer{ResponseWriter: w}
		defer func() { // also when the handler has aborted
			status := "gone" // the caller has hung up, or the handler has aborted
			if seen.Status != 0 {
				status = strconv.Itoa(seen.Status)
			}
			fmt.Fprintf(to, "%-4s %s %s %d ms\n", r.Method, printedPath(r.URL.Path), status, time.Since(start).Milliseconds())
		}()
		next.ServeHTTP(seen, r)
	})
}

// isPagePart reports whether a path is that of a file which a page brings with it, or of the console.
func isPagePart(path string) bool {
	for _, prefix := range []string{"/static/", "/console/", "/threeds."} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// browserToken is the part of a path by which a browser may go on with an authentication.
var browserToken = regexp.MustCompile(`^/([an])/[^/]+`)

// printedPath returns a path as a terminal may show it: without card numbers, tokens of browsers and what does not
// print. The query is never shown.
func printedPath(path string) string {
	path = cardnumber.Mask(browserToken.ReplaceAllString(path, "/$1/…"))
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, path)
}
