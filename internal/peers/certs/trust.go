package certs

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

	"github.com/openthreeds/threeds/internal/base/obs"
)

// Client says which certificates a directory server may show as a client.
type Client struct {
	Scheme string
	CA     *x509.CertPool
	Names  []string // the certificate must have one of them; empty means any certificate under CA

	// Revoked says which certificates are refused as revoked; nil means none.
	Revoked *RevocationPolicy
}

// Trust decides which directory servers a client certificate stands for. Each scheme has its own roots: a certificate
// of one scheme gives no access for another. It is safe for concurrent use.
type Trust struct {
	Clients []Client
	Now     func() time.Time
	Log     *slog.Logger // gets the reason why a client was refused; may be nil

	throttle obs.LogThrottle // anybody can cause the line
}

// errUnknownClient ends the handshake of a client with a certificate of no directory.
var errUnknownClient = errors.New("results: client certificate of no configured directory")

// Schemes returns the schemes whose directory server may show this chain.
func (t *Trust) Schemes(chain []*x509.Certificate) []string {
	var schemes []string
	for _, client := range t.Clients {
		if client.verify(chain, t.Now()) == nil {
			schemes = append(schemes, client.Scheme)
		}
	}
	return schemes
}

var (
	errNoCertificate = errors.New("no certificate")
	errTooMany       = fmt.Errorf("more than %d certificates", maxShown)
	errWeakKey       = errors.New("the key is too short, or of a kind that the protocol does not have")
	errWrongName     = errors.New("the name is none of client_names")
)

// maxShown is how many certificates a client may show: its own, the intermediates, and the root.
const maxShown = 10

// verify returns nil if the client may show a chain, else why not.
func (c *Client) verify(chain []*x509.Certificate, now time.Time) error {
	switch {
	case len(chain) == 0:
		return errNoCertificate
	case len(chain) > maxShown:
		return errTooMany
	case !hasStrongKey(chain[0]):
		return errWeakKey
	}
	opts := x509.VerifyOptions{
		Roots: c.CA, Intermediates: x509.NewCertPool(), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	flaw := addIntermediates(chain[1:], opts)
	verified, err := chain[0].Verify(opts)
	switch {
	case err == nil && !hasName(chain[0], c.Names):
		return errWrongName
	case err != nil:
		return errors.Join(err, flaw)
	}
	return c.Revoked.Check(verified, now)
}

// addIntermediates adds to the intermediates of opts the shown certificates that lead to a root, and returns what is
// wrong with another one. The keys of others are never used: anybody may bring such, and to check one signature with a
// long key takes milliseconds.
func addIntermediates(shown []*x509.Certificate, opts x509.VerifyOptions) (flaw error) {
	left := slices.Clone(shown)
	for before := -1; len(left) != before; { // an added certificate may lead others to the root
		before = len(left)
		left = slices.DeleteFunc(left, func(cert *x509.Certificate) bool {
			if !hasStrongKey(cert) { // somebody may have computed its private key
				flaw = errWeakKey
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

// logRefusal logs why a chain is of no directory. Results that are refused in the handshake show nowhere else.
func (t *Trust) logRefusal(chain []*x509.Certificate) {
	if t.Log == nil {
		return
	}
	now := t.Now()
	others, ok := t.throttle.Due(now)
	if !ok {
		return
	}
	var why []string
	for _, client := range t.Clients {
		why = append(why, client.Scheme+": "+truncate(fmt.Sprint(client.verify(chain, now))))
	}
	names := append([]string{chain[0].Subject.CommonName}, chain[0].DNSNames...)
	t.Log.Warn("client of the results listener turned away",
		"names", truncate(strings.Join(names, ",")), "issuer", truncate(chain[0].Issuer.String()), "why", why,
		"others", others)
}

// truncate returns the beginning of a text that a stranger may have written.
func truncate(s string) string { return fmt.Sprintf("%.200s", s) }

// hasStrongKey reports whether the key of a certificate has the size that the protocol asks for: RSA 2048, elliptic
// curves 256 bits (EMV 3DS annex D).
func hasStrongKey(c *x509.Certificate) bool {
	switch key := c.PublicKey.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= 2048
	case *ecdsa.PublicKey:
		return key.Curve.Params().BitSize >= 256
	}
	return false
}

// hasName reports whether c has one of names, as a DNS name or as its common name. Without names
// every certificate does.
func hasName(c *x509.Certificate, names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool {
		return strings.EqualFold(c.Subject.CommonName, name) ||
			slices.ContainsFunc(c.DNSNames, func(dns string) bool { return strings.EqualFold(dns, name) })
	})
}

// TLS returns the configuration of the listener for results. The server's certificate is chosen by the name that the
// client asks for; it is the first one if the client asks for none. The handshake fails unless the client shows a
// certificate of a directory. Sessions are not resumed, so that a changed trust holds for the next connection.
func (t *Trust) TLS(certs ...tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		CipherSuites:           StrongSuites(),
		Certificates:           certs,
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true,
		NextProtos:             []string{"h2", "http/1.1"},
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(t.Schemes(state.PeerCertificates)) == 0 {
				t.logRefusal(state.PeerCertificates)
				return errUnknownClient
			}
			return nil
		},
	}
}

type identityKey struct{}

// identity remembers the schemes of one connection. They are decided again when another Trust asks, after a reload.
type identity struct {
	mu      sync.Mutex
	by      *Trust
	schemes []string
}

// ConnContext is for [http.Server.ConnContext]: it gives each connection a place where SchemesOf remembers its schemes.
func ConnContext(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, identityKey{}, new(identity))
}

// SchemesOf returns the schemes whose directory server has sent a request.
func (t *Trust) SchemesOf(r *http.Request) []string {
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
		if len(id.schemes) == 0 { // the handshake was judged by another Trust
			t.logRefusal(r.TLS.PeerCertificates)
		}
	}
	return id.schemes
}
