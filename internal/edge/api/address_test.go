package api_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/state/account"
)

// fromNetworks is a keeper of one key, which is good from some networks.
type fromNetworks []netip.Prefix

func (n fromNetworks) Authenticate(_ context.Context, key string) (*account.Account, error) {
	if key != "k" {
		return nil, account.ErrUnknownKey
	}
	return &account.Account{Merchant: &account.Merchant{Name: "Shop"}, Terms: account.Terms{Allow: n}}, nil
}

// TestD107KeyFromElsewhereIsUnknown: a key is good only from its networks. From elsewhere it is answered like a key
// that was never made. X-Forwarded-For counts only if it comes from a proxy, and then its last entry that is not a
// proxy.
func TestD107KeyFromElsewhereIsUnknown(t *testing.T) {
	networks := func(all ...string) (prefixes []netip.Prefix) {
		for _, text := range all {
			prefixes = append(prefixes, netip.MustParsePrefix(text))
		}
		return prefixes
	}
	proxies := networks("10.0.0.0/8", "fd00::/8")
	for _, test := range []struct {
		from      string
		forwarded []string
		proxies   []netip.Prefix
		isGood    bool
	}{
		{"192.0.2.7:5000", nil, nil, true},
		{"[::ffff:192.0.2.7]:5000", nil, nil, true},
		{"[2001:db8::7]:5000", nil, nil, true},
		{"198.51.100.1:5000", nil, nil, false},
		{"198.51.100.1:5000", []string{"192.0.2.7"}, nil, false},     // no proxy is known
		{"198.51.100.1:5000", []string{"192.0.2.7"}, proxies, false}, // The connection comes from no proxy.
		{"10.0.0.1:5000", nil, proxies, false},                       // a proxy that does not say
		{"10.0.0.1:5000", []string{"192.0.2.7"}, nil, false},
		{"10.0.0.1:5000", []string{"192.0.2.7"}, proxies, true},
		{"[fd00::1]:5000", []string{"2001:db8::7"}, proxies, true},
		{"10.0.0.1:5000", []string{"192.0.2.7:1234, 10.9.9.9"}, proxies, true},
		{"10.0.0.1:5000", []string{"192.0.2.7", "10.9.9.9"}, proxies, true},
		{"10.0.0.1:5000", []string{"192.0.2.7, 198.51.100.1"}, proxies, false}, // the client wrote the first
		{"10.0.0.1:5000", []string{"192.0.2.7, unknown"}, proxies, false},
		{"10.0.0.1:5000", []string{"10.1.1.1, 10.2.2.2"}, proxies, false},
	} {
		h := &api.Handler{
			Keys: fromNetworks(networks("192.0.2.0/24", "2001:db8::/32")), Proxies: test.proxies, Log: slog.New(slog.DiscardHandler),
		}
		ask := func(key string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, "/preauth", nil)
			r.RemoteAddr = test.from
			r.Header["X-Forwarded-For"] = test.forwarded
			r.Header.Set("APIKey", key)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		got, stranger := ask("k"), ask("unknown")
		if isGood := got.Code == http.StatusMethodNotAllowed; isGood != test.isGood {
			t.Errorf("from %s, forwarded %q: %d", test.from, test.forwarded, got.Code)
		}
		if !test.isGood && (got.Code != stranger.Code || got.Body.String() != stranger.Body.String()) {
			t.Errorf("from %s: %d %s, and of an unknown key %d %s", test.from, got.Code, got.Body, stranger.Code, stranger.Body)
		}
	}
}
