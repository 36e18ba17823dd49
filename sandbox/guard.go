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
		if !local(r.Host) {
			http.Error(w, "The sandbox answers only to names of this machine, such as 127.0.0.1 and localhost.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local reports whether a host, with a port or without, names the machine itself.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	name := strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}
