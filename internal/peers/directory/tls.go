package directory

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"github.com/openthreeds/threeds/internal/peers/certs"
)

// sessionCache is how many TLS sessions of a peer are kept for resumption.
const sessionCache = 64

var errWeakKey = errors.New("certificate with a weak key")

// harden returns a copy of the configuration with what EMV 3DS annex D demands: TLS 1.2 or later with forward secrecy
// and AES-GCM, P-256, a client certificate, and trust in the scheme's own authorities alone. Revoked certificates are
// refused, also when a session is resumed.
func harden(given *tls.Config, revoked *certs.RevocationPolicy) (*tls.Config, error) {
	if given == nil {
		return nil, errors.New("no TLS configuration")
	}
	var faults []error
	if given.RootCAs == nil {
		faults = append(faults, errors.New("no authority to trust: the system's are not used"))
	}
	if given.InsecureSkipVerify {
		faults = append(faults, errors.New("the server's certificate would not be verified"))
	}
	if len(given.Certificates) == 0 && given.GetClientCertificate == nil {
		faults = append(faults, errors.New("no client certificate"))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	c := given.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	c.CipherSuites = certs.StrongSuites()
	c.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256}
	c.Renegotiation = tls.RenegotiateNever
	c.NextProtos = nil                   // HTTP/1.1
	c.DynamicRecordSizingDisabled = true // a part of a request is of no use, so it needs no small first records
	if c.ClientSessionCache == nil {
		c.ClientSessionCache = tls.NewLRUClientSessionCache(sessionCache)
	}
	also := c.VerifyConnection
	c.VerifyConnection = func(state tls.ConnectionState) error {
		if err := refuseWeakKeys(state.PeerCertificates); err != nil {
			return err
		}
		if err := revoked.Check(state.VerifiedChains, time.Now()); err != nil {
			return err
		}
		if also != nil {
			return also(state)
		}
		return nil
	}
	return c, nil
}

// refuseWeakKeys returns errWeakKey if a key of the chain is weak: RSA below 2048 bits or a curve below 256 bits.
func refuseWeakKeys(chain []*x509.Certificate) error {
	for _, cert := range chain {
		switch key := cert.PublicKey.(type) {
		case *rsa.PublicKey:
			if key.N.BitLen() < 2048 {
				return errWeakKey
			}
		case *ecdsa.PublicKey:
			if key.Params().BitSize < 256 {
				return errWeakKey
			}
		}
	}
	return nil
}
