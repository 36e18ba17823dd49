package directory

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/peers/tunnel"
)

// TestD145TestOfACertificateSaysWhatHappened: a handshake in either version of TLS tells a certificate that is taken
// from one that is not, and both from what has nothing to do with it. No message is sent.
func TestD145TestOfACertificateSaysWhatHappened(t *testing.T) {
	t.Parallel()
	ca, otherCA := newAuthority(t), newAuthority(t)
	v12 := func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }
	noTickets := func(c *tls.Config) { c.SessionTicketsDisabled = true }
	good, bad := ca.issue(nil), otherCA.issue(nil)
	forServers := ca.issue(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	for _, test := range []struct {
		name   string
		change func(*tls.Config)
		cert   tls.Certificate
		want   HandshakeResult
		detail string
	}{
		{"taken, TLS 1.3", func(*tls.Config) {}, good, HandshakeAccepted, "took this one"},
		{"taken, TLS 1.3 without tickets", noTickets, good, HandshakeAccepted, "took this one"},
		{"taken, TLS 1.2", v12, good, HandshakeAccepted, "took this one"},
		{"another CA, TLS 1.3", func(*tls.Config) {}, bad, HandshakeRefused, "refused the certificate: tls: unknown certificate authority"},
		{"another CA, TLS 1.2", v12, bad, HandshakeRefused, "refused the certificate: tls: unknown certificate authority"},
		{"for servers", func(*tls.Config) {}, forServers, HandshakeRefused, "refused the certificate: tls: bad certificate"},
		{"not asked", func(c *tls.Config) { c.ClientAuth = tls.NoClientCert }, good, HandshakeNotAsked, "did not ask"},
		{"its own certificate", func(c *tls.Config) { c.Certificates = []tls.Certificate{bad} }, good, HandshakeFailed,
			"Certificate of the directory server is not trusted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			address := serve(t, with(ca.server(), test.change), func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
			r, err := TryHandshake(t.Context(), peerAt("visa", address, ca.client()), test.cert)
			if err != nil || r.Result != test.want || !strings.Contains(r.Detail, test.detail) {
				t.Errorf("%+v, %v, want %s with %q", r, err, test.want, test.detail)
			}
			if "https://"+r.Address != address || (test.want == HandshakeAccepted) && (r.TLS == "" || r.Suite == "" || r.Server != "CN=test") {
				t.Errorf("the report lacks something: %+v", r)
			}
		})
	}
	r, err := TryHandshake(t.Context(), peerAt("visa", "https://127.0.0.1:1", ca.client()), good)
	if err != nil || r.Result != HandshakeFailed || !strings.HasPrefix(r.Detail, "Connection refused") {
		t.Errorf("nobody is there: %+v, %v", r, err)
	}
}

// TestD145TestGoesThroughTheProxy: the handshake goes through the forward proxy, by a name that it alone knows, and its
// refusal is told from that of the directory server.
func TestD145TestGoesThroughTheProxy(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	proxy, through := behind(t, ca, true, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") }, "ds.example")
	p := peerAt("visa", "https://ds.example", ca.client())
	p.Proxy = through
	r, err := TryHandshake(t.Context(), p, ca.issue(nil))
	if err != nil || r.Result != HandshakeAccepted || r.Proxy != through.String() || proxy.Asked()["ds.example:443"] != 1 {
		t.Errorf("%+v, %v; the proxy was asked for %v", r, err, proxy.Asked())
	}
	if r, err = TryHandshake(t.Context(), p, newAuthority(t).issue(nil)); err != nil || r.Result != HandshakeRefused {
		t.Errorf("a certificate of another CA: %+v, %v", r, err)
	}
	p.Proxy = &tunnel.Proxy{Address: through.Address, Roots: through.Roots, User: "nobody", Password: "hush"}
	if r, err = TryHandshake(t.Context(), p, ca.issue(nil)); err != nil || r.Result != HandshakeFailed || !strings.HasPrefix(r.Detail, "Proxy: ") {
		t.Errorf("a proxy that refuses: %+v, %v", r, err)
	}
}
