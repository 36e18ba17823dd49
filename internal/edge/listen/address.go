package listen

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientAddress returns the address that a request comes from. That is the address of the connection. If the connection
// comes from one of the proxies, it is the right-most entry of X-Forwarded-For that is not a proxy: any client can
// write the entries to the left of it. The result is not valid if that entry is no address, or if all entries are
// proxies.
func ClientAddress(r *http.Request, proxies []netip.Prefix) netip.Addr {
	from := parseAddress(r.RemoteAddr)
	if !isAmong(proxies, from) {
		return from
	}
	entries := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, entry := range slices.Backward(entries) {
		if from = parseAddress(strings.TrimSpace(entry)); !isAmong(proxies, from) {
			return from
		}
	}
	return netip.Addr{}
}

// parseAddress parses an address that may have a port; of one that is neither the result is not valid.
func parseAddress(text string) netip.Addr {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		withPort, _ := netip.ParseAddrPort(text) // not valid, too, after an error
		addr = withPort.Addr()
	}
	return addr.Unmap().WithZone("")
}

func isAmong(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// ClientName returns the address that a request comes from as text: that of [ClientAddress] or, if the proxies do not
// say, that of the connection. Nil means no proxies. Use the name only for records: no rule may depend on it.
func ClientName(r *http.Request, proxies func() []netip.Prefix) string {
	var known []netip.Prefix
	if proxies != nil {
		known = proxies()
	}
	from := ClientAddress(r, known)
	if !from.IsValid() {
		from = parseAddress(r.RemoteAddr)
	}
	if !from.IsValid() {
		return ""
	}
	return from.String()
}
