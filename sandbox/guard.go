package sandbox

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard refuses requests under names that are not of this machine, where only it can
// reach the listeners: a page elsewhere whose name was made to resolve to this machine
// would be of the same origin, and could read and steer everything.
func (s *Sandbox) guard(next http.Handler) http.Handler {
	if !local(s.Listen) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !private(r.Host) {
			http.Error(w, "The sandbox answers only to names of this machine, such as 127.0.0.1 and localhost.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local reports whether a host, with a port or without, names the machine itself.
func local(host string) bool {
	name := nameOf(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}

// private reports whether a host is local or has a name that nobody can own: one
// without a dot, as machines beside this one are called, or below "internal", as
// containers call this one.
func private(host string) bool {
	name := nameOf(host)
	return local(host) || name != "" && !strings.ContainsAny(name, ".:") || strings.HasSuffix(name, ".internal")
}

// nameOf is a host without its port, in lower case.
func nameOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}
