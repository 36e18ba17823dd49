// Package clientcert keeps the client certificates that directory servers see, with their keys, in the store. Use a
// [Service]: [Service.Request] makes a key and its certificate signing request, [Service.Install] takes the
// certificate, [Service.Activate] and [Service.Rollback] change over, [Service.Status] returns the state, and
// [Service.Load] returns what a node shows to directory servers.
//
// Each directory has one row, sealed with the key file. It holds up to three certificates: the next one, the current
// one and the previous one. A change that is planned needs no write at its time: each node compares the time with the
// clock of the store. Keys leave the package only inside a [tls.Certificate].
package clientcert

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// A Store is what a Service needs of a store.
type Store interface {
	store.Objects
	store.Leases
}

// A Service keeps the client certificates of all directories. Set its fields before use. Many goroutines may use it.
type Service struct {
	Store  Store
	Sealer store.Sealer
	Now    func() time.Time // the clock of the store, by which all nodes change over
}

// A RefusalError says why a change was refused. Nothing was changed.
type RefusalError struct {
	Rule string // a stable name: file, key, usage, dates, chain, time, subject, state, row or busy
	Text string // what is wrong, and what would be right
}

func (e *RefusalError) Error() string { return e.Text }

func refuse(rule, format string, args ...any) error {
	return &RefusalError{rule, fmt.Sprintf(format, args...)}
}

// A pair is a certificate with its key.
type pair struct {
	Chain     [][]byte  `json:"chain"` // DER, the certificate itself first
	Key       []byte    `json:"key"`   // PKCS #8
	Installed time.Time `json:"installed"`
	Since     time.Time `json:"since,omitzero"` // when it came into use
}

// A request is a key that waits for its certificate.
type request struct {
	Key  []byte    `json:"key"` // PKCS #8
	CSR  []byte    `json:"csr"` // DER
	Made time.Time `json:"made"`
}

// A state is what is sealed into the row of a directory.
type state struct {
	Requests []request `json:"requests,omitempty"` // the newest first
	Next     *pair     `json:"next,omitempty"`
	At       time.Time `json:"at,omitzero"` // when Next comes into use; zero: when Activate says so
	Current  *pair     `json:"current,omitempty"`
	Previous *pair     `json:"previous,omitempty"`
}

// settled returns the state as it is at a time: a change whose time has come has happened.
func (s state) settled(now time.Time) state {
	if s.Next == nil || s.At.IsZero() || now.Before(s.At) {
		return s
	}
	next := *s.Next
	next.Since = s.At
	s.Previous, s.Current, s.Next, s.At = s.Current, &next, nil, time.Time{}
	return s
}

// leaf returns the certificate itself.
func (p *pair) leaf() (*x509.Certificate, error) { return x509.ParseCertificate(p.Chain[0]) }

// tls returns the certificate as a handshake wants it.
func (p *pair) tls() (*tls.Certificate, error) {
	leaf, err := p.leaf()
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(p.Key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: p.Chain, PrivateKey: key, Leaf: leaf}, nil
}

// An Info describes a certificate, or a key that waits for one. It has no secret.
type Info struct {
	Subject     string    `json:"subject"`
	Key         string    `json:"key"`                  // such as RSA 2048
	KeyID       string    `json:"keyId"`                // the first 16 digits of the SHA-256 of the public key
	Issuer      string    `json:"issuer,omitzero"`      // of a certificate
	Serial      string    `json:"serial,omitzero"`      // hexadecimal
	Fingerprint string    `json:"fingerprint,omitzero"` // SHA-256 of the certificate, hexadecimal
	NotBefore   time.Time `json:"notBefore,omitzero"`
	NotAfter    time.Time `json:"notAfter,omitzero"`
	Chain       int       `json:"chain,omitzero"`     // how many certificates are sent
	Installed   time.Time `json:"installed,omitzero"` // when it was installed
	Since       time.Time `json:"since,omitzero"`     // when it came into use
	Requested   time.Time `json:"requested,omitzero"` // when the key was made; of a key that waits
	CSR         string    `json:"csr,omitzero"`       // PEM; of a key that waits
}

// A Status is the state of the certificates of a directory. It has no secret.
type Status struct {
	Scheme   string    `json:"scheme"`
	Requests []Info    `json:"requests"` // keys that wait for a certificate, the newest first
	Next     *Info     `json:"next"`     // installed, and not in use yet
	At       time.Time `json:"at,omitzero"`
	Current  *Info     `json:"current"`
	Previous *Info     `json:"previous"`

	// IsRefused says that the seal of the row does not open: the key file is another one, or the row was changed.
	IsRefused bool `json:"refused,omitzero"`
}

func describeKey(key crypto.PublicKey) (name, id string) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "unknown", ""
	}
	digest := sha256.Sum256(der)
	return keyName(key), hex.EncodeToString(digest[:8])
}

func (p *pair) info() *Info {
	if p == nil {
		return nil
	}
	leaf, err := p.leaf()
	if err != nil {
		return &Info{Subject: "unreadable"}
	}
	digest := sha256.Sum256(leaf.Raw)
	i := &Info{
		Subject: leaf.Subject.String(), Issuer: leaf.Issuer.String(), Serial: leaf.SerialNumber.Text(16),
		Fingerprint: hex.EncodeToString(digest[:]), NotBefore: leaf.NotBefore.UTC(), NotAfter: leaf.NotAfter.UTC(),
		Chain: len(p.Chain), Installed: p.Installed, Since: p.Since,
	}
	i.Key, i.KeyID = describeKey(leaf.PublicKey)
	return i
}

func (r *request) info() Info {
	csr, err := x509.ParseCertificateRequest(r.CSR)
	if err != nil {
		return Info{Subject: "unreadable", Requested: r.Made}
	}
	i := Info{Subject: csr.Subject.String(), Requested: r.Made, CSR: string(encodeCSR(r.CSR))}
	i.Key, i.KeyID = describeKey(csr.PublicKey)
	return i
}

func (s *state) status(scheme string) Status {
	st := Status{
		Scheme: scheme, Requests: []Info{}, Next: s.Next.info(), At: s.At, Current: s.Current.info(),
		Previous: s.Previous.info(),
	}
	for i := range s.Requests {
		st.Requests = append(st.Requests, s.Requests[i].info())
	}
	return st
}

// open reads what is sealed into a row.
func (s *Service) open(row *store.Object) (state, error) {
	var st state
	plain, err := s.Sealer.Open(row.Name(), row.Data)
	if err == nil {
		err = json.Unmarshal(plain, &st)
	}
	if err != nil {
		return state{}, refuse("row", "the seal of the certificates of %s in the store does not open: "+
			"use the key file of the nodes that serve, or load a backup", row.ID)
	}
	return st, nil
}

func (s *Service) seal(row *store.Object, st *state) error {
	plain, err := json.Marshal(st)
	if err != nil {
		return err
	}
	row.Data = s.Sealer.Seal(row.Name(), plain)
	return nil
}

// Status returns the state of the client certificates of a scheme's directory. It is empty if no certificate was ever
// requested.
func (s *Service) Status(ctx context.Context, scheme string) (Status, error) {
	row, was, err := s.read(ctx, scheme)
	switch {
	case isRefusal(err, "row"):
		return Status{Scheme: scheme, Requests: []Info{}, IsRefused: true}, nil
	case err != nil:
		return Status{}, err
	case row == nil:
		return (&state{}).status(scheme), nil
	}
	now := was.settled(s.Now())
	return now.status(scheme), nil
}

// A Shown is what a node shows to the directory server of a scheme.
type Shown struct {
	Certificate *tls.Certificate // nil if none is in use
	Fault       string           // why the row cannot be used
}

// A Set is what the store had for all directories at one moment. It also knows what comes into use later, so that a
// node changes over in time while the store is away.
type Set struct {
	rows   map[string][]byte // sealed, by scheme
	states map[string]state
	faults map[string]string
	parsed map[string]*tls.Certificate // by the certificate in DER
}

// Load reads the certificates of the store. Rows that former, which may be nil, already has are not opened again. If a
// row cannot be opened, the certificate in former stays in use.
func (s *Service) Load(ctx context.Context, former *Set) (*Set, error) {
	rows, err := s.Store.Objects(ctx, store.CertificateObjects)
	if err != nil {
		return nil, err
	}
	if former == nil {
		former = &Set{}
	}
	next := &Set{map[string][]byte{}, map[string]state{}, map[string]string{}, map[string]*tls.Certificate{}}
	for i := range rows {
		scheme := rows[i].ID
		was, isKnown := former.states[scheme]
		if isKnown && former.faults[scheme] == "" && bytes.Equal(former.rows[scheme], rows[i].Data) {
			next.rows[scheme], next.states[scheme] = rows[i].Data, was
			continue
		}
		st, err := s.open(&rows[i])
		if err != nil {
			next.faults[scheme], st = err.Error(), was
		}
		next.rows[scheme], next.states[scheme] = rows[i].Data, st
	}
	for _, st := range next.states {
		for _, p := range []*pair{st.Next, st.Current} {
			if p == nil {
				continue
			}
			id := string(p.Chain[0])
			if next.parsed[id] = former.parsed[id]; next.parsed[id] == nil ||
				!slices.EqualFunc(next.parsed[id].Certificate, p.Chain, bytes.Equal) {
				if next.parsed[id], err = p.tls(); err != nil {
					return nil, err
				}
			}
		}
	}
	return next, nil
}

// InUse returns what the directory server of a scheme is shown at a time.
func (s *Set) InUse(scheme string, now time.Time) Shown {
	shown := Shown{Fault: s.faults[scheme]}
	st := s.states[scheme]
	if current := st.settled(now).Current; current != nil {
		shown.Certificate = s.parsed[string(current.Chain[0])]
	}
	return shown
}

// Candidate returns the certificate that a test is about: the next one, else the current one. what says which.
func (s *Service) Candidate(ctx context.Context, scheme string) (cert *tls.Certificate, what string, err error) {
	_, was, err := s.read(ctx, scheme)
	if err != nil {
		return nil, "", err
	}
	st := was.settled(s.Now())
	p, what := st.Next, "next"
	if p == nil {
		p, what = st.Current, "current"
	}
	if p == nil {
		return nil, "", refuse("state", "%s has no certificate to test: install one", scheme)
	}
	cert, err = p.tls()
	return cert, what, err
}

// A Summary is what the audit trail has of a status.
type Summary struct {
	Requests []string  `json:"requests,omitempty"` // ids of the keys that wait
	Next     string    `json:"next,omitzero"`
	At       time.Time `json:"at,omitzero"`
	Current  string    `json:"current,omitzero"`
	Previous string    `json:"previous,omitzero"`
}

// Summary returns what the audit trail has of a status: certificates by serial number and end.
func (s *Status) Summary() Summary {
	sum := Summary{At: s.At, Next: s.Next.short(), Current: s.Current.short(), Previous: s.Previous.short()}
	for _, r := range s.Requests {
		sum.Requests = append(sum.Requests, r.KeyID)
	}
	return sum
}

func (i *Info) short() string {
	if i == nil {
		return ""
	}
	return fmt.Sprintf("%s, serial %s, until %s", i.Subject, i.Serial, i.NotAfter.Format(time.RFC3339))
}
