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

	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/internal/peers/tunnel"
	"github.com/openthreeds/threeds/internal/peers/wire"
	"github.com/openthreeds/threeds/message"
)

// Peer is the directory server of one payment scheme. Fields that are zero have the default named next to them.
type Peer struct {
	Scheme string

	// AReqURL and PReqURL are https. An Erro goes to the address of the request whose answer it is about.
	AReqURL, PReqURL string

	OperatorID string                       // threeDSServerOperatorID, absent when empty
	RefNumber  func(message.Version) string // threeDSServerRefNumber
	Versions   []message.Version            // protocol versions used with this directory server; a PReq has the highest

	// TLS holds the authorities that sign the directory server's certificate (RootCAs) and our client certificate
	// (Certificates, or GetClientCertificate if it may change). New makes a copy. It refuses a configuration that
	// trusts the system's authorities or does not verify the server's certificate.
	TLS *tls.Config

	// Revoked says which certificates are refused although they verify; nil means none.
	Revoked *certs.RevocationPolicy

	// Proxy makes all connections, also those for card range files. Nil means that no proxy is used.
	Proxy *tunnel.Proxy

	Timeout        time.Duration // limit of a whole Send or Report; default 10 s
	DialTimeout    time.Duration // limit of making one connection, TLS handshake included; default 5 s
	PReqTimeout    time.Duration // limit of a PReq and all of its answer; default 5 min
	MaxInFlight    int           // most AReqs that wait for an answer; default 5000
	MaxPerMerchant int           // most AReqs of one merchant among them; default half of MaxInFlight, at least one
	MaxDials       int           // most connections that are being made at once; default 64
	MaxPRes        int64         // longest PRes in bytes, uncompressed; default 1 GiB
	AlwaysTry      bool          // send every AReq, even if the directory server has not been reached for a while

	Refresh    time.Duration // from one PReq to the next, give or take a tenth; default 4 h
	MinRefresh time.Duration // least time from an answer to the next PReq; default 1 h, after a full load of 2.3.1 12 h

	// FileHosts are the hosts that a card range file may be fetched from (2.3.1). If there are none, no file is
	// asked for.
	FileHosts []string

	// Lab keeps a threeDSMethodURL with http, or with a host that is the browser's own
	// machine. It is for laboratories.
	Lab bool
}

const (
	// maxARes is the longest accepted ARes in bytes. The tables allow one of 2.3.1 some
	// 400,000 characters, most of them images for SPC; the rest is for characters of
	// more than one byte, white space and unknown members.
	maxARes         = 512 << 10
	maxPreallocated = 64 << 10 // bytes allocated because of Content-Length; beyond it the buffer grows as bytes come
	maxHeader       = 16 << 10 // longest header of an answer in bytes; also the limit of drain

	drainTime = 250 * time.Millisecond // limit of drain
	idleTime  = time.Minute            // limit of an idle connection; should be a little less than the directory server's

	maxReports = 64 // most Erros to a peer that are under way
	maxDials   = 64 // most connections to a peer that are being made
)

// peer is a Peer in use, with its connections and limits.
type peer struct {
	Peer
	config    Peer // as New got it
	dialer    *dialer
	client    *wire.Client
	files     *http.Transport // for card range files: other hosts, the same authorities
	inFlight  chan struct{}
	reports   chan struct{}
	merchants merchantPlaces
	breaker   breaker // of AReqs
	clock     clockCheck
	retried   func(ctx context.Context, err error) // a hook, may be nil
}

func newPeer(given Peer) (*peer, error) {
	p := &peer{Peer: given, config: given}
	p.Versions = slices.Sorted(slices.Values(p.Versions))
	p.Timeout = cmp.Or(p.Timeout, 10*time.Second)
	p.DialTimeout = cmp.Or(p.DialTimeout, 5*time.Second)
	p.PReqTimeout = cmp.Or(p.PReqTimeout, 5*time.Minute)
	p.MaxInFlight = cmp.Or(p.MaxInFlight, 5000)
	p.MaxDials = cmp.Or(p.MaxDials, maxDials)
	p.MaxPRes = cmp.Or(p.MaxPRes, 1<<30)
	p.Refresh = cmp.Or(p.Refresh, 4*time.Hour)
	if err := p.validate(); err != nil {
		return nil, err
	}
	if err := p.initClient(p.AReqURL, p.PReqURL); err != nil {
		return nil, err
	}
	p.breaker.disabled = p.AlwaysTry
	p.files = &http.Transport{
		DialContext:            p.dialer.dialWithoutTLS,
		TLSClientConfig:        p.dialer.baseTLS,
		TLSHandshakeTimeout:    p.DialTimeout, // a transport goes on with a handshake after its request has ended
		IdleConnTimeout:        idleTime,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
	return p, nil
}

// initClient makes p.client, which connects to the addresses and to no others. The caller may allow more of them with
// p.dialer.listedHost. It uses TLS, Revoked, Proxy and the limits of p.
func (p *peer) initClient(addresses ...string) error {
	secured, err := harden(p.TLS, p.Revoked)
	if err != nil {
		return err
	}
	reach := &dialer{
		tls:        make(map[string]*tls.Config),
		listedHost: func(string) (string, bool) { return "", false },
		baseTLS:    secured,
		timeout:    p.DialTimeout,
		net:        net.Dialer{KeepAliveConfig: keepAlive},
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
	p.merchants.max = cmp.Or(p.MaxPerMerchant, max(p.MaxInFlight/2, 1))
	p.reports = make(chan struct{}, maxReports)
	p.dialer = reach
	p.client = wire.New(wire.Config{
		Dial:      reach.dialTLS,
		MaxDials:  p.MaxDials,
		MaxIdle:   p.MaxInFlight, // as many as there can be requests
		IdleTime:  idleTime,
		MaxHeader: maxHeader,
	})
	return nil
}

// validate returns an error with everything that a peer lacks.
func (p *peer) validate() error {
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

// preqVersion returns the version of PReqs, the highest of Versions.
func (p *peer) preqVersion() message.Version { return p.Versions[len(p.Versions)-1] }

// addressOf returns the host and the port of an https URL.
func addressOf(address string) (host, port string, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return "", "", fmt.Errorf("not an https URL: %q", address)
	}
	return u.Hostname(), cmp.Or(u.Port(), "443"), nil
}
