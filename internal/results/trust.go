package results

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/obs"
	"github.com/openthreeds/threeds/internal/revocation"
	"github.com/openthreeds/threeds/internal/suite"
)

// A Client says by which certificates a directory server is known.
type Client struct {
	Scheme string
	CA     *x509.CertPool
	Names  []string // of the certificate; empty: any under CA

	// Revoked says which certificates are refused all the same; nil: none.
	Revoked *revocation.Policy
}

// Trust decides which directory servers a client certificate stands for. Each
// scheme has its own roots: what opens one scheme's door opens no other.
type Trust struct {
	Clients []Client
	Now     func() time.Time
	Log     *slog.Logger // hears why a client was turned away; nil: nobody does

	strangers obs.Seldom // anybody may knock
}

// errForeign ends the handshake of a client that no directory vouches for.
var errForeign = errors.New("results: client certificate of no configured directory")

// Schemes lists the schemes whose directory server may show this chain.
func (t *Trust) Schemes(chain []*x509.Certificate) []string {
	var schemes []string
	for _, client := range t.Clients {
		if client.vouches(chain, t.Now()) == nil {
			schemes = append(schemes, client.Scheme)
		}
	}
	return schemes
}

var (
	errNone  = errors.New("no certificate")
	errMany  = fmt.Errorf("more than %d certificates", maxShown)
	errWeak  = errors.New("the key is too short, or of a kind that the protocol does not have")
	errNamed = errors.New("the name is none of client_names")
)

// maxShown is how many certificates a client may show: its own, those between it and a
// root, and the root.
const maxShown = 10

// vouches says why a chain is not one of the client's, nil when it is.
func (c *Client) vouches(chain []*x509.Certificate, now time.Time) error {
	switch {
	case len(chain) == 0:
		return errNone
	case len(chain) > maxShown:
		return errMany
	case !strong(chain[0]):
		return errWeak
	}
	opts := x509.VerifyOptions{
		Roots: c.CA, Intermediates: x509.NewCertPool(), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	flaw := anchor(chain[1:], opts)
	verified, err := chain[0].Verify(opts)
	switch {
	case err == nil && !named(chain[0], c.Names):
		return errNamed
	case err != nil:
		return errors.Join(err, flaw)
	}
	return c.Revoked.Check(verified, now)
}

// anchor adds to the intermediates those of the certificates that lead to a root, and
// returns what is wrong with another. The keys of others are never used: anybody may bring
// such, and to check one signature with a long one takes milliseconds.
func anchor(shown []*x509.Certificate, opts x509.VerifyOptions) (flaw error) {
	left := slices.Clone(shown)
	for before := -1; len(left) != before; { // what is added may lead others there
		before = len(left)
		left = slices.DeleteFunc(left, func(cert *x509.Certificate) bool {
			if !strong(cert) { // somebody else may have its key
				flaw = errWeak
				return false
			}
			_, err := cert.Verify(opts)
			if err == nil {
				opts.Intermediates.AddCert(cert)
			} else if _, foreign := errors.AsType[x509.UnknownAuthorityError](err); !foreign {
				flaw = err
			}
			return err == nil
		})
	}
	return flaw
}

// refuse tells why no directory vouches for a chain: results that do not come in
// show nowhere else.
func (t *Trust) refuse(chain []*x509.Certificate) {
	if t.Log == nil {
		return
	}
	now := t.Now()
	others, ok := t.strangers.Due(now)
	if !ok {
		return
	}
	var why []string
	for _, client := range t.Clients {
		why = append(why, client.Scheme+": "+brief(fmt.Sprint(client.vouches(chain, now))))
	}
	names := append([]string{chain[0].Subject.CommonName}, chain[0].DNSNames...)
	t.Log.Warn("client of the results listener turned away",
		"names", brief(strings.Join(names, ",")), "issuer", brief(chain[0].Issuer.String()), "why", why, "others", others)
}

// brief is the beginning of what a stranger may have written.
func brief(s string) string { return fmt.Sprintf("%.200s", s) }

// strong reports whether a key has the size that the protocol asks for: RSA
// 2048, elliptic curves 256 bits (EMV 3DS annex D).
func strong(c *x509.Certificate) bool {
	switch key := c.PublicKey.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= 2048
	case *ecdsa.PublicKey:
		return key.Curve.Params().BitSize >= 256
	}
	return false
}

// named reports whether c carries one of names, as a DNS name or as its common
// name.
func named(c *x509.Certificate, names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool {
		return strings.EqualFold(c.Subject.CommonName, name) ||
			slices.ContainsFunc(c.DNSNames, func(dns string) bool { return strings.EqualFold(dns, name) })
	})
}

// TLS is the listener's configuration: the certificate by the name the client
// asks for (the first one when it asks for none), and a client certificate that
// a directory vouches for, checked in the handshake. Sessions are not resumed,
// so that a changed trust holds for the next connection.
func (t *Trust) TLS(certs ...tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		CipherSuites:           suite.Strong(),
		Certificates:           certs,
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true,
		NextProtos:             []string{"h2", "http/1.1"},
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(t.Schemes(state.PeerCertificates)) == 0 {
				t.refuse(state.PeerCertificates)
				return errForeign
			}
			return nil
		},
	}
}

type identityKey struct{}

// identity remembers, for one connection, whose it is, as long as the same trust
// asks: what another one thinks of the certificate is decided anew.
type identity struct {
	mu      sync.Mutex
	by      *Trust
	schemes []string
}

// ConnContext gives each connection a place to remember whose it is: for
// [http.Server.ConnContext].
func ConnContext(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, identityKey{}, new(identity))
}

func (t *Trust) schemesOf(r *http.Request) []string {
	if r.TLS == nil {
		return nil
	}
	id, ok := r.Context().Value(identityKey{}).(*identity)
	if !ok {
		return t.Schemes(r.TLS.PeerCertificates)
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.by != t {
		id.by, id.schemes = t, t.Schemes(r.TLS.PeerCertificates)
		if len(id.schemes) == 0 { // it was let in by another trust
			t.refuse(r.TLS.PeerCertificates)
		}
	}
	return id.schemes
}
