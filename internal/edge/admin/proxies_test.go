package admin_test

import (
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/edge/admin"
)

// TestK11AddressBehindAProxy: the audit trail has the address that a configured proxy reports, and trusts no other
// party's.
func TestK11AddressBehindAProxy(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.handler.Proxies = func() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }
	for _, test := range []struct{ from, forwarded, want string }{
		{"10.0.0.1:5000", "198.51.100.9, 192.0.2.7", "192.0.2.7"}, {"10.0.0.1:5000", "192.0.2.7, 10.0.0.2", "192.0.2.7"},
		{"203.0.113.5:5000", "192.0.2.8", "203.0.113.5"}, {"10.0.0.3:5000", "", "10.0.0.3"}, {"10.0.0.4:5000", "<b>", "10.0.0.4"},
		{"[2001:db8::1]:5000", "", "2001:db8::1"},
	} {
		r := httptest.NewRequest("POST", admin.Prefix+"authentications/search", strings.NewReader(`{}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+s.tokens["viewer"])
		r.RemoteAddr = test.from
		if test.forwarded != "" {
			r.Header.Set("X-Forwarded-For", test.forwarded)
		}
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		trail := s.call("admin", "GET", "audit?action=record.search&limit=1", "").Body.String()
		if w.Code != 200 || !strings.Contains(trail, `"from":"`+test.want+`"`) {
			t.Errorf("from %s for %q: %d, %s", test.from, test.forwarded, w.Code, trail)
		}
	}
}
