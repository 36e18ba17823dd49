package sandbox

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/openthreeds/threeds/sandbox/internal/cards"
	"github.com/openthreeds/threeds/sandbox/internal/peer"
	"github.com/openthreeds/threeds/sandbox/internal/pki"
	"github.com/openthreeds/threeds/sandbox/internal/scenario"
	v1 "github.com/openthreeds/threeds/sandbox/v1"
)

// A Sandbox is one set of directory servers with their issuers. Set fields,
// then Start; the zero value is ready to start.
type Sandbox struct {
	// Listen is where the listeners go: a host and the port 0, since there are
	// many of them. Empty means 127.0.0.1:0.
	Listen string

	// PagesURL is the address under which the caller serves [Sandbox.Pages], such as
	// https://lab.example/acs. Empty means that the sandbox serves them, on a port of
	// its own.
	PagesURL string

	// PagesListen is HOST:PORT where the sandbox serves the pages itself, with https. Empty means plain http next to the
	// other listeners. It excludes PagesURL.
	PagesListen string

	// CertificatesDir keeps the authorities of EMV 3-D Secure and the certificates of the
	// 3-D Secure server from one start to the next: results.pem, SCHEME/client.pem, and
	// their keys. Empty means that each start makes new ones.
	CertificatesDir string

	// ResultsCAPEM are further authorities that may have signed the certificate of the
	// listener that takes RReqs. Empty means only the sandbox's own.
	ResultsCAPEM []byte

	// DirectoriesListen is HOST:PORT of one listener for the directory servers of EMV
	// 3-D Secure, each below the path of its scheme. Empty means that each has a port
	// of its own. Directory servers of 1.0.2 and files of card ranges always have one.
	DirectoriesListen string

	// Now is the clock that stamps what is recorded and sent. nil means
	// time.Now.
	Now func() time.Time

	// Log takes what happens, never a card number. nil means nothing is logged.
	Log *slog.Logger

	// Nice switches off legal but inconvenient habits of real peers: unknown members (nested, and null) in every message,
	// and padded base64url in the CRes of some cards.
	Nice bool

	// FirstAnswerDelay is how long each directory server thinks about its first
	// AReq: real ones are slow when cold.
	FirstAnswerDelay time.Duration

	// DecoupledDelay is how long a cardholder takes to answer on another
	// device. Zero means 5 s.
	DecoupledDelay time.Duration

	// AppDelay is how long a challenge inside an app takes that no person decides, unless
	// an SDK sends its CReq before. Zero means 1 s.
	AppDelay time.Duration

	// PageDelay is how long a page that needs no cardholder is shown before it sends
	// itself. Zero means 800 ms.
	PageDelay time.Duration

	// FirstCReqTimeout and StepTimeout are how long the issuer waits for the
	// challenge to begin and for each step of it. Zero means 30 s and 10 min.
	FirstCReqTimeout, StepTimeout time.Duration

	// LateDelay is how late an ARes or a result is that is late for its merchant, and how long after a CReq an issuer
	// that is down gives up.
	// Zero means 5 s.
	LateDelay time.Duration

	// ResultTimeout is how long a directory server waits for the answer to its
	// RReq, with the connection. Zero means 5 s.
	ResultTimeout time.Duration

	// Outside lets an RReq go to a threeDSServerURL that is not on this
	// machine.
	Outside bool

	// Keep is how many transactions are remembered; the oldest are forgotten
	// first. Zero means 10,000.
	Keep int

	// Strict refuses an AReq with threeDSCompInd Y whose 3DS Method has not completed, with
	// Erro 305. Without it, that is logged and noted in what Received returns.
	Strict bool

	// IsStrictFor says whether Strict holds for AReqs with a notificationURL. nil means
	// that only Strict decides. It is called by several goroutines at once.
	IsStrictFor func(notificationURL string) bool

	// Alter, when set, sees every message before a directory server or issuer
	// sends it and returns what is sent instead: for tests of broken peers. It
	// is called by several goroutines at once. A PRes, too, is then made whole
	// before it is sent.
	Alter func(messageType string, body []byte) []byte

	credentials sync.Map // *credential by card number
	table       cards.Table
	merchants   scenario.Faults
	v1          *v1.Network
	directories []*directory
	schemes     map[string]*directory
	certs       *certificates
	rsaOnce     sync.Once
	rsaCert     tls.Certificate // of rsaSigner
	log         *slog.Logger
	acs         *issuer
	journal     *journal
	control     *listener
	shared      *sharedDirectories // nil means that each directory server has a port of its own

	ctx        context.Context
	cancel     context.CancelFunc
	servers    []*listener
	closing    sync.RWMutex   // nothing enters after the end
	background sync.WaitGroup // every goroutine and every request in progress
}

// A Directory is what a 3-D Secure server has to know of one of the directory
// servers.
type Directory struct {
	Scheme       string          // visa mastercard amex jcb upi protectbuy sbn cb standin
	URL          string          // takes AReq, PReq and Erro
	ServerCA     *x509.CertPool  // signed the directory server's certificate
	ServerCAPEM  []byte          // the same as text
	ClientCert   tls.Certificate // what the server shows to the directory server
	ClientCAPEM  []byte          // signed the certificate that an RReq comes with
	ClientName   string          // the DNS name in that certificate
	ID           string          // the scheme's RID, which an app's SDK knows it by
	RefNumber    string          // dsReferenceNumber
	DSVersions   []string        // the protocol versions it speaks
	CardPrefixes []string        // its documented ranges begin with these
}

// Start makes the certificates and opens all listeners. After an error the
// sandbox is closed.
func (s *Sandbox) Start() error {
	if s.ctx != nil {
		return errors.New("sandbox: started twice")
	}
	s.defaults()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.start(); err != nil {
		return errors.Join(fmt.Errorf("sandbox: %w", err), s.Close())
	}
	return nil
}

func (s *Sandbox) start() error {
	host, port, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return err
	}
	if port != "0" {
		return fmt.Errorf("listen %s: the port must be 0, there are several listeners", s.Listen)
	}
	if s.table, err = cards.Read(cardsText); err != nil {
		return fmt.Errorf("scenarios/cards.txt: %w", err)
	}
	if s.merchants, err = readMerchants(merchantsText); err != nil {
		return fmt.Errorf("scenarios/merchants.txt: %w", err)
	}
	if s.certs, err = s.newCertificates(s.certificateHosts(host)); err != nil {
		return err
	}
	s.journal = newJournal(s.Keep)
	if s.acs, err = newIssuer(s); err != nil {
		return err
	}
	if s.control, err = s.listen(s.guard(http.NewCrossOriginProtection().Handler(controlRoutes(s, true))),
		nil); err != nil {
		return err
	}
	if s.DirectoriesListen != "" {
		if s.shared, err = newSharedDirectories(s); err != nil {
			return err
		}
	}
	s.schemes = make(map[string]*directory)
	for _, of := range cards.Schemes() {
		d, err := newDirectory(s, of)
		if err != nil {
			return err
		}
		s.directories = append(s.directories, d)
		s.schemes[d.scheme.Word] = d
	}
	s.v1, err = v1.New(s.v1Options())
	return err
}

func (s *Sandbox) defaults() {
	s.Listen = cmp.Or(s.Listen, "127.0.0.1:0")
	if s.Now == nil {
		s.Now = time.Now
	}
	s.log = cmp.Or(s.Log, slog.New(slog.DiscardHandler))
	s.Keep = cmp.Or(s.Keep, 10_000)
	s.DecoupledDelay = cmp.Or(s.DecoupledDelay, 5*time.Second)
	s.AppDelay = cmp.Or(s.AppDelay, time.Second)
	s.PageDelay = cmp.Or(s.PageDelay, 800*time.Millisecond)
	s.FirstCReqTimeout = cmp.Or(s.FirstCReqTimeout, 30*time.Second)
	s.StepTimeout = cmp.Or(s.StepTimeout, 10*time.Minute)
	s.LateDelay = cmp.Or(s.LateDelay, 5*time.Second)
	s.ResultTimeout = cmp.Or(s.ResultTimeout, 5*time.Second)
}

// Close ends all listeners, requests and waiting results. Nothing is left.
func (s *Sandbox) Close() error {
	if s.ctx == nil {
		return nil
	}
	s.closing.Lock()
	s.cancel()
	s.closing.Unlock()
	var all error
	for _, l := range s.servers {
		all = errors.Join(all, l.server.Close())
	}
	for _, d := range s.directories {
		d.results.CloseIdleConnections()
	}
	s.background.Wait()
	for _, d := range s.directories {
		d.results.CloseIdleConnections()
	}
	return all
}

// Directories describes each directory server, in a fixed order.
func (s *Sandbox) Directories() []Directory {
	var all []Directory
	for _, d := range s.directories {
		all = append(all, Directory{
			Scheme:       d.scheme.Word,
			URL:          d.url,
			ServerCA:     s.certs.directories.Pool(),
			ServerCAPEM:  s.certs.directories.PEM(),
			ClientCert:   d.server3DS,
			ClientCAPEM:  s.certs.directories.PEM(),
			ClientName:   d.scheme.ClientName(),
			ID:           d.scheme.RID,
			RefNumber:    d.scheme.RefNumber(),
			DSVersions:   peer.Versions(),
			CardPrefixes: d.scheme.Prefixes,
		})
	}
	return all
}

// ResultsCert is a certificate for the listener that takes RReq, of an
// authority that the directory servers trust, for localhost and the host of
// Listen.
func (s *Sandbox) ResultsCert() tls.Certificate { return s.certs.results }

// CAPEM is the certificates of all the sandbox's authorities.
func (s *Sandbox) CAPEM() []byte {
	var all []byte
	for _, a := range []*pki.Authority{s.certs.directories, s.certs.servers, s.certs.issuers} {
		all = append(all, a.PEM()...)
	}
	for _, d := range s.V1Directories() {
		all = append(all, d.ServerCAPEM...)
	}
	return all
}

// ServersCAPEM is the authority of the 3-D Secure server's certificates: ResultsCert and
// each ClientCert.
func (s *Sandbox) ServersCAPEM() []byte { return s.certs.servers.PEM() }

// IssuerCAPEM is the authority that acsSignedContent is signed under: what an
// app's SDK trusts.
func (s *Sandbox) IssuerCAPEM() []byte { return s.certs.issuers.PEM() }

// ACSURL is the base of the pages that a browser opens: PagesURL, or plain http.
func (s *Sandbox) ACSURL() string { return s.acs.url }

// Pages are the pages of the issuers, for a server of the caller's that has PagesURL.
func (s *Sandbox) Pages() http.Handler { return s.acs.handler }

// Control is the handler behind [Sandbox.ControlURL], for another server of the caller. It lacks the page of GET /app,
// since a form cannot send a key. The caller checks who may use it.
func (s *Sandbox) Control() http.Handler { return s.countRequests(controlRoutes(s, false)) }

// DirectoriesURL is the base of the listener of DirectoriesListen, "" without one.
func (s *Sandbox) DirectoriesURL() string {
	if s.shared == nil {
		return ""
	}
	return s.shared.url
}

// ControlURL is the base of the listener for looking and steering.
func (s *Sandbox) ControlURL() string { return s.control.url }

// Received is what passed between the sandbox and its peers in a transaction,
// in the order in which it passed. transID may be any of its ids.
func (s *Sandbox) Received(transID string) []Exchange { return s.journal.exchanges(transID) }

// A listener is one open port with the server on it.
type listener struct {
	server *http.Server
	url    string
}

// idleTimeout is how long a connection without its first request is kept: longer
// than the servers under test keep theirs for reuse (60 s), or one of them
// would now and then send a message into a connection that is just ending.
const idleTimeout = 90 * time.Second

// listen opens a port, with TLS when conf is given. Requests are known to
// Close and end with the sandbox.
func (s *Sandbox) listen(h http.Handler, conf *tls.Config) (*listener, error) {
	return s.listenAt(s.Listen, h, conf)
}

// listenAt is listen with another address than that of Listen.
func (s *Sandbox) listenAt(address string, h http.Handler, conf *tls.Config) (*listener, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	l := &listener{url: "http://" + reachableAddress(ln)}
	if conf != nil {
		ln = tls.NewListener(ln, conf)
		l.url = "https://" + reachableAddress(ln)
	}
	l.server = &http.Server{
		Handler:           s.countRequests(h),
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ReadHeaderTimeout: idleTimeout, // and none for the rest: silence lasts as long as the client bears it
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.servers = append(s.servers, l)
	s.background.Go(func() {
		if err := l.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("sandbox listener ended", "url", l.url, "err", err)
		}
	})
	return l, nil
}

// reachableAddress is where a listener can be reached from this machine.
func reachableAddress(ln net.Listener) string {
	at := ln.Addr().(*net.TCPAddr)
	if at.IP.IsUnspecified() {
		return fmt.Sprintf("127.0.0.1:%d", at.Port)
	}
	return at.String()
}

// countRequests has Close wait for requests, and refuses them afterwards.
func (s *Sandbox) countRequests(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.beginRequest() {
			panic(http.ErrAbortHandler)
		}
		defer s.background.Done()
		h.ServeHTTP(w, r)
	})
}

// beginRequest lets a request in unless the sandbox is closed.
func (s *Sandbox) beginRequest() bool {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.background.Add(1)
	return true
}

// runAfter runs f after d unless the sandbox is closed, or stop is called, before.
func (s *Sandbox) runAfter(d time.Duration, f func()) (stop func()) {
	ctx, stop := context.WithCancel(s.ctx)
	s.background.Go(func() {
		defer stop()
		select {
		case <-time.After(d):
			f()
		case <-ctx.Done():
		}
	})
	return stop
}
