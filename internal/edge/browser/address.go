package browser

import (
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientIP returns the address of a browser: that of the connection or, behind trusted
// proxies, the right-most address in X-Forwarded-For that is not a trusted proxy.
func (h *handler) clientIP(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	ip := peer.Addr().Unmap().WithZone("")
	if !h.isTrusted(ip) {
		return ip.String()
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		ip = hop.Unmap().WithZone("")
		if !h.isTrusted(ip) {
			break
		}
	}
	return ip.String()
}

func (h *handler) isTrusted(ip netip.Addr) bool {
	return slices.ContainsFunc(h.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// linear returns a channel of sRGB as light.
func linear(channel uint64) float64 {
	c := float64(channel) / 255
	if c <= 0.04045 {
		return c / 12.92
	}
	return math.Pow((c+0.055)/1.055, 2.4)
}
