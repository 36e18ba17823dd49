package listen

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// maxFields is how many header fields a request may have, Host among them.
const maxFields = 64

// hsts has browsers and clients that heed it use https alone for this host, for a year.
var hsts = []string{"max-age=31536000"}

// checkHeaders refuses requests with more than maxFields header fields, and adds Strict-Transport-Security to answers
// over TLS. h serves the others.
func checkHeaders(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			w.Header()["Strict-Transport-Security"] = hsts
		}
		if countFields(r) > maxFields {
			if r.ProtoMajor == 1 {
				w.Header().Set("Connection", "close")
			}
			w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// countFields returns how many header fields a request has. Host and Transfer-Encoding are not in r.Header.
func countFields(r *http.Request) int {
	n := len(r.TransferEncoding)
	if r.Host != "" {
		n++
	}
	for _, values := range r.Header {
		n += len(values)
	}
	return n
}

// IsEncoded reports whether the body of a request is in a content coding, such as gzip.
func IsEncoded(r *http.Request) bool {
	for _, value := range r.Header["Content-Encoding"] {
		if value != "" && !strings.EqualFold(value, "identity") {
			return true
		}
	}
	return false
}

// IsLoopback reports whether only this machine reaches a listener at an address.
func IsLoopback(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	return err != nil || at.Addr().Unmap().IsLoopback() // other sockets than those of TCP are of this machine
}
