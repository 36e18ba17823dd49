package directory

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/certs"
	"github.com/openthreeds/threeds/internal/tunnel"
	"github.com/openthreeds/threeds/internal/wire"
	"github.com/openthreeds/threeds/message"
)

// Peer is the directory server of one payment scheme. Fields that are zero have
// the default named beside them.
type Peer struct {
	Scheme string

	// AReqURL and PReqURL are https. An Erro goes where the request went whose answer it
	// is about.
	AReqURL, PReqURL string

	OperatorID string                       // threeDSServerOperatorID, absent when empty
	RefNumber  func(message.Version) string // threeDSServerRefNumber
	Versions   []message.Version            // those spoken with this directory server; a PReq has the highest

	// TLS holds the authorities that sign the directory server's certificate
	// (RootCAs) and the certificate to show it (Certificates, or
	// GetClientCertificate when it may change). New takes a copy and refuses
	// one that trusts the system's authorities or verifies nothing.
	TLS *tls.Config

	// Revoked says which certificates are refused all the same; nil: none.
	Revoked *certs.RevocationPolicy

	// Proxy makes all connections, those for card range files too; nil: they are made
	// straight.
	Proxy *tunnel.Proxy

	Timeout        time.Duration // of Send and Report, all included: 10 s
	DialTimeout    time.Duration // of one connection: 5 s
	PReqTimeout    time.Duration // of a PReq, all included: 5 min
	MaxInFlight    int           // AReqs that wait for an answer: 5000
	MaxPerMerchant int           // AReqs of one merchant among them: half of MaxInFlight, at least one
	MaxDials       int           // connections that are being made: 64
	MaxPRes        int64         // length of a PRes, uncompressed: 1 GiB
	AlwaysTry      bool          // send every AReq, even if the directory server has not been reached for a while

	Refresh    time.Duration // how often PReq, give or take a tenth: 4 h
	MinRefresh time.Duration // never sooner after an answer: 1 h, after a full load of 2.3.1 12 h

	// FileHosts are the hosts that a card range file may be fetched from
	// (2.3.1). None: no file is asked for.
	FileHosts []string

	// Lab keeps a threeDSMethodURL with http, or with a host that is the browser's own
	// machine. It is for laboratories.
	Lab bool
}

const (
	// maxARes is the longest ARes taken, in bytes. The tables allow one of 2.3.1 some
	// 400,000 characters, most of them images for SPC; the rest is for characters of
	// more than one byte, white space and members that nobody knows.
	maxARes   = 512 << 10
	promised  = 64 << 10 // the most memory taken on the word of Content-Length; beyond it memory grows with what comes
	maxHeader = 16 << 10 // of an answer's header; also the most that drain reads

	drainTime = 250 * time.Millisecond // see drain
	idleTime  = time.Minute            // of an unused connection; best a little less than the directory server's

	maxReports = 64 // Erros to a peer that may be under way
	maxDials   = 64 // connections to it that are being made
)

// peer is a Peer at work.
type peer struct {
	Peer
	given     Peer // as New got it
	reach     *dialer
	client    *wire.Client
	files     *http.Transport // for card range files: other hosts, the same trust
	inFlight  chan struct{}
	reports   chan struct{}
	merchants merchantPlaces
	breaker   breaker // of AReqs
	clock     clock
	retried   func(ctx context.Context, err error) // a hook, may be nil
}

func newPeer(given Peer) (*peer, error) {
	p := &peer{Peer: given, given: given}
	p.Versions = slices.Sorted(slices.Values(p.Versions))
	p.Timeout = cmp.Or(p.Timeout, 10*time.Second)
	p.DialTimeout = cmp.Or(p.DialTimeout, 5*time.Second)
	p.PReqTimeout = cmp.Or(p.PReqTimeout, 5*time.Minute)
	p.MaxInFlight = cmp.Or(p.MaxInFlight, 5000)
	p.MaxDials = cmp.Or(p.MaxDials, maxDials)
	p.MaxPRes = cmp.Or(p.MaxPRes, 1<<30)
	p.Refresh = cmp.Or(p.Refresh, 4*time.Hour)
	if err := p.complete(); err != nil {
		return nil, err
	}
	if err := p.wire(p.AReqURL, p.PReqURL); err != nil {
		return nil, err
	}
	p.breaker.off = p.AlwaysTry
	p.files = &http.Transport{
		DialContext:            p.reach.connect,
		TLSClientConfig:        p.reach.secured,
		TLSHandshakeTimeout:    p.DialTimeout, // a transport goes on with a handshake after its request has ended
		IdleConnTimeout:        idleTime,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
	return p, nil
}

// wire makes p.client, which connects to the addresses; the caller may allow more
// through p.reach.listed. Of p it uses TLS, Revoked, Proxy and the limits.
func (p *peer) wire(addresses ...string) error {
	secured, err := harden(p.TLS, p.Revoked)
	if err != nil {
		return err
	}
	reach := &dialer{
		tls:     make(map[string]*tls.Config),
		listed:  func(string) (string, bool) { return "", false },
		secured: secured,
		limit:   p.DialTimeout,
		net:     net.Dialer{KeepAliveConfig: keepAlive},
	}
	if p.Proxy != nil {
		reach.proxy = tunnel.New(*p.Proxy, reach.net)
	}
	for _, address := range addresses {
		host, port, err := addressOf(address)
		if err != nil {
			return err
		}
		c := secured.Clone()
		c.ServerName = cmp.Or(c.ServerName, host)
		reach.tls[net.JoinHostPort(host, port)] = c
	}
	p.inFlight = make(chan struct{}, p.MaxInFlight)
	p.merchants.most = cmp.Or(p.MaxPerMerchant, max(p.MaxInFlight/2, 1))
	p.reports = make(chan struct{}, maxReports)
	p.reach = reach
	p.client = wire.New(wire.Config{
		Dial:      reach.dial,
		MaxDials:  p.MaxDials,
		MaxIdle:   p.MaxInFlight, // as many as there can be requests
		IdleTime:  idleTime,
		MaxHeader: maxHeader,
	})
	return nil
}

// complete reports what a peer lacks, all at once.
func (p *peer) complete() error {
	var faults []error
	if p.Scheme == "" {
		faults = append(faults, errors.New("no scheme"))
	}
	if p.RefNumber == nil {
		faults = append(faults, errors.New("no reference number"))
	}
	if len(p.Versions) == 0 {
		faults = append(faults, errors.New("no protocol version"))
	}
	return errors.Join(faults...)
}

// preqVersion is the version of PReqs: the highest that is spoken.
func (p *peer) preqVersion() message.Version { return p.Versions[len(p.Versions)-1] }

// addressOf returns where an https URL leads.
func addressOf(address string) (host, port string, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return "", "", fmt.Errorf("not an https URL: %q", address)
	}
	return u.Hostname(), cmp.Or(u.Port(), "443"), nil
}
