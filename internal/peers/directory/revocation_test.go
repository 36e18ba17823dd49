package directory

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/peers/tunnel"
	"github.com/openthreeds/threeds/internal/peers/tunnel/tunneltest"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// revokes is a policy with one list of the authority, read as from a file.
func (a *authority) revokes(revoked ...*x509.Certificate) *certs.RevocationPolicy {
	a.t.Helper()
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(time.Hour)}
	for _, c := range revoked {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, l, a.cert, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	lists, err := certs.ParseRevocationLists(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return &certs.RevocationPolicy{Lists: lists}
}

// under is an authority that another one has certified.
func under(a *authority, name string) *authority {
	made := &authority{t: a.t, key: newKey(a.t), pool: a.pool}
	c := a.issueFor(made.key, func(c *x509.Certificate) {
		c.Subject.CommonName, c.SerialNumber = name, big.NewInt(77)
		c.IsCA, c.BasicConstraintsValid, c.ExtKeyUsage, c.IPAddresses = true, true, nil, nil
		c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	})
	made.cert = c.Leaf
	return made
}

func lists(of ...*certs.RevocationPolicy) (all []*certs.RevocationList) {
	for _, p := range of {
		all = append(all, p.Lists...)
	}
	return all
}

// TestRevoked: a directory server whose certificate, or that of a CA between it and the
// root, was revoked hears nothing of either protocol (TL-05).
func TestRevoked(t *testing.T) {
	ca, namesake := newAuthority(t), newAuthority(t)
	between := under(ca, "between")
	shown := ca.issue(func(c *x509.Certificate) { c.SerialNumber = big.NewInt(0xabc) })
	deep := between.issue(func(c *x509.Certificate) { c.SerialNumber = big.NewInt(0xabc) })
	deep.Certificate = append(deep.Certificate, between.cert.Raw)
	const revoked, unknown = "certificate revoked: serial ", "no revocation list that is valid now: serial "
	for _, tt := range []struct {
		name  string
		shows tls.Certificate
		p     *certs.RevocationPolicy
		cause string // empty: it is taken
	}{
		{"no policy", shown, nil, ""},
		{"not on the list", shown, ca.revokes(between.cert), ""},
		{"on the list", shown, ca.revokes(shown.Leaf), revoked + "abc, issuer CN=test authority"},
		{"on that of another authority of the same name", shown, namesake.revokes(shown.Leaf), ""},
		{"under another, not on its list", deep, between.revokes(), ""},
		{"under another, on its list", deep, between.revokes(deep.Leaf), revoked + "abc, issuer CN=between"},
		{"under another that was revoked", deep, ca.revokes(between.cert), revoked + "4d, issuer CN=test authority"},
		{"no list, and one is needed", shown, &certs.RevocationPolicy{Required: true}, unknown + "abc, issuer CN=test authority"},
		{"a list, and it is needed", shown, &certs.RevocationPolicy{Lists: ca.revokes().Lists, Required: true}, ""},
		{"under another, one of two lists that are needed", deep,
			&certs.RevocationPolicy{Lists: ca.revokes().Lists, Required: true}, unknown + "abc, issuer CN=between"},
		{"under another, both", deep, &certs.RevocationPolicy{Lists: lists(ca.revokes(), between.revokes()), Required: true}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got atomic.Int32
			server := ca.server()
			server.Certificates = []tls.Certificate{tt.shows}
			address := serve(t, server, func(http.ResponseWriter, *http.Request) { got.Add(1) })
			p := peerAt("visa", address, ca.client())
			p.Revoked = tt.p
			c, _ := newClient(t, Hooks{}, p)
			_, err := send(t, c, "visa")
			v1, _ := newV1(t, V1Peer{Scheme: "visa", URL: address, TLS: ca.client(), Revoked: tt.p})
			_, v1Err := v1.Exchange(t.Context(), "visa", "Shop", "VEReq", "1", []byte("<x/>"))
			if tt.cause == "" {
				if err != nil || v1Err != nil || got.Load() != 2 {
					t.Errorf("%v, %v, %d requests", err, v1Err, got.Load())
				}
				return
			}
			v1Failed, _ := errors.AsType[*Error](v1Err)
			for name, err := range map[string]*Error{"AReq": err, "VEReq": v1Failed} {
				if err == nil || err.Kind != Connect || err.Text != "Certificate of the directory server is not trusted" ||
					!strings.Contains(err.LogValue().String(), tt.cause) {
					t.Errorf("%s: %+v, want %q", name, err, tt.cause)
				}
			}
			if got.Load() > 0 {
				t.Errorf("%d requests arrived", got.Load())
			}
		})
	}
}

// TestRevokedResumption: who was trusted before is not because of it.
func TestRevokedResumption(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			ca := newAuthority(t)
			var got atomic.Int32
			resumed := make(chan bool, 3) // of TLS 1.3 the server may verify after the client has gone
			server := ca.server()
			server.MaxVersion = version
			server.VerifyConnection = func(state tls.ConnectionState) error {
				resumed <- state.DidResume
				return nil
			}
			leaf := server.Certificates[0].Leaf
			address := serve(t, server, func(w http.ResponseWriter, _ *http.Request) {
				got.Add(1)
				w.Header().Set("Connection", "close")
			})
			p := peerAt("visa", address, ca.client())
			p.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			first, _ := newClient(t, Hooks{}, p)
			for i := range 2 {
				if _, err := send(t, first, "visa"); err != nil {
					t.Fatal(err)
				}
				if did := <-resumed; did != (i == 1) {
					t.Fatalf("connection %d: resumed %t", i, did)
				}
			}
			p.Revoked = ca.revokes(leaf)
			second, _ := newClient(t, Hooks{}, p)
			if _, err := send(t, second, "visa"); err == nil || got.Load() != 2 {
				t.Errorf("%v, %d requests arrived", err, got.Load())
			}
			if !<-resumed {
				t.Error("the session was not resumed, so nothing was shown")
			}
		})
	}
}

// TestRevokedNext: a connection that rests is of no use once its directory server was
// revoked; the same list, read again, changes nothing.
func TestRevokedNext(t *testing.T) {
	ca := newAuthority(t)
	var got, conns atomic.Int32
	server := ca.server()
	server.VerifyConnection = func(tls.ConnectionState) error {
		conns.Add(1)
		return nil
	}
	leaf := server.Certificates[0].Leaf
	address := serve(t, server, func(w http.ResponseWriter, _ *http.Request) {
		got.Add(1)
		io.WriteString(w, transID)
	})
	peer, v1Peer := peerAt("visa", address, fixed(ca)), V1Peer{Scheme: "visa", URL: address, TLS: fixed(ca)}
	cards := ranges.NewSchemes("visa")
	log := slog.New(slog.DiscardHandler)
	c, err := New([]Peer{peer}, cards, storetest.NewMemory(time.Now), log, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	v1, err := NewV1([]V1Peer{v1Peer}, log, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() (failed, v1Failed bool) {
		_, err := send(t, c, "visa")
		_, v1Err := v1.Exchange(t.Context(), "visa", "Shop", "VEReq", "", []byte("<x/>"))
		return err != nil, v1Err != nil
	}
	change := func(p *certs.RevocationPolicy) {
		t.Helper()
		peer.Revoked, v1Peer.Revoked = p, p
		c, v1 = follow(t, c, v1, peer, v1Peer, cards)
	}
	good := ca.revokes()
	again := &certs.RevocationPolicy{Lists: append([]*certs.RevocationList{}, good.Lists...)}
	for i, tt := range []struct {
		p      *certs.RevocationPolicy
		failed bool
		got    int32 // requests and, in all, connections
		conns  int32
	}{{nil, false, 2, 2}, {good, false, 4, 4}, {again, false, 6, 4}, {ca.revokes(leaf), true, 6, -1}} {
		change(tt.p)
		failed, v1Failed := ask()
		if failed != tt.failed || v1Failed != tt.failed || got.Load() != tt.got || tt.conns >= 0 && conns.Load() != tt.conns {
			t.Errorf("%d: failed %t, %t; %d requests on %d connections", i, failed, v1Failed, got.Load(), conns.Load())
		}
	}
	c.Close()
	v1.Close()
}

// TestRevokedFile: the host of a card range file is under the same authority.
func TestRevokedFile(t *testing.T) {
	ca := newAuthority(t)
	server := ca.server()
	server.ClientAuth = tls.RequestClientCert
	address := serve(t, server, func(http.ResponseWriter, *http.Request) { t.Error("it was asked for a file") })
	given := peerAt("visa", "https://ds.example", ca.client())
	given.Revoked = ca.revokes(server.Certificates[0].Leaf)
	given.FileHosts = []string{"127.0.0.1"}
	p, err := newPeer(given)
	if err != nil {
		t.Fatal(err)
	}
	f := &download{peer: p, ctx: t.Context(), url: address + "/ranges.json"}
	_, err = f.open()
	if _, ok := errors.AsType[*certs.RevocationError](err); !ok {
		t.Errorf("%v", err)
	}
}

// TestRevokedHangsUp: nothing is left of a connection to a directory server that was
// revoked, however long that would wait for more.
func TestRevokedHangsUp(t *testing.T) {
	ca := newAuthority(t)
	own := newAuthority(t)
	config := ca.server()
	ended := make(chan error, 10)
	address := serveRaw(t, nil, func(conn net.Conn) {
		_ = tls.Server(conn, config).Handshake()
		_, err := io.Copy(io.Discard, conn)
		ended <- err
	})
	_, to, _ := strings.Cut(address, "//")
	plain, overTLS := tunneltest.Start(t, nil), tunneltest.Start(t, &tls.Config{Certificates: []tls.Certificate{own.issue(nil)}})
	plain.Way(to, to)
	overTLS.Way(to, to)
	for name, proxy := range map[string]*tunnel.Proxy{
		"straight": nil, "through http": {Address: plain.Address}, "through https": {Address: overTLS.Address, Roots: own.pool},
	} {
		p := peerAt("visa", address, ca.client())
		p.Revoked, p.Proxy = ca.revokes(config.Certificates[0].Leaf), proxy
		c, _ := newClient(t, Hooks{}, p)
		if _, err := send(t, c, "visa"); err == nil || !strings.Contains(err.LogValue().String(), "certificate revoked") {
			t.Errorf("%s: %v", name, err)
		}
		for range 2 { // attempts
			if err := <-ended; err != nil {
				t.Errorf("%s: the connection ended with %v", name, err)
			}
		}
	}
}
