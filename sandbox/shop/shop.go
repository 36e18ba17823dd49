package shop

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/internal/base/compress"
	"github.com/openthreeds/threeds/sandbox/internal/peer"
	"github.com/openthreeds/threeds/sandbox/shop/runs"
)

// A Shop is the demonstration merchant. Set the fields, then call Start, or
// serve Handler yourself; do not change the fields afterwards.
type Shop struct {
	API    string       // base URL of the 3DS server's API, required
	MPI    string       // base URL of the merchant plug-in, for cards of 1.0.2 alone; empty: API
	APIKey string       // the merchant's key; never leaves the back end
	Client *http.Client // for calls to both; nil means a client with the timeouts of package client
	Log    *slog.Logger // nil: discards

	// HookURL is where the server reaches HookPath of the shop, to tell how payments of the short way ended. The shop
	// adds an endpoint with that URL before its first payment. Empty: the shop asks for results.
	HookURL string

	// PublicURL is where browsers and ACSs reach the shop, without a slash at
	// the end. Empty: taken from the Host of each request, which is a name of
	// the loopback interface or the request is refused.
	PublicURL string

	// MethodLimit is how long the page waits for the 3DS Method. Zero means the time of the protocol: 10 s, and 5 s in
	// 2.3.1.
	MethodLimit time.Duration
	// ChallengeLimit is how long the dialog may stay open. Zero: 11 minutes,
	// which is the ACS's 10 and time for its result to arrive.
	ChallengeLimit time.Duration
	// ResultWait is how long the shop asks for the result after the cardholder
	// has come back from the challenge. Zero: 30 s.
	ResultWait time.Duration
	// CancelWait is the same after the cardholder closed the dialog. Zero: 3 s.
	CancelWait time.Duration
	// Processing is how long the processing screen stays at the least. Zero:
	// 2 s, which is what the protocol asks for.
	Processing time.Duration

	// EventWait is how long the page of an order waits for the event before the shop asks. Zero: 3 s.
	EventWait time.Duration

	// MaxCheckouts bounds the checkouts and payments that are kept at a time, zero: 1000.
	// Each is forgotten CheckoutAge after it began, zero: 30 minutes.
	MaxCheckouts int
	CheckoutAge  time.Duration

	Now func() time.Time // nil: time.Now

	// Source tells what passed beyond the shop, for the lanes of a payment. Nil: they show what the shop itself knows.
	// It may be set until the first request.
	Source runs.Source
	// PublicKey is an API key that everybody may know, for lines to copy. Empty: these have $KEY in its place.
	PublicKey string
	// Docs is the address of the documentation, with a slash at the end, which elements of messages have links to. Empty:
	// they have none.
	Docs string

	noticeWait time.Duration // for the CRes, when the result was there before it

	once      sync.Once
	handler   http.Handler
	api       *client.Client
	mpi       *client.Client
	checkouts *checkoutStore
	payments  *paymentStore
	runs      *runs.History
	server    *http.Server
	served    chan struct{} // closed when server.Serve has returned

	registering chan struct{} // has room for the one that adds the endpoint
	isTold      atomic.Bool   // the server knows HookURL
	verifier    atomic.Pointer[standardwebhooks.Webhook]
}

// Handler returns the shop's pages and what they call.
func (s *Shop) Handler() http.Handler {
	s.once.Do(s.build)
	return s.handler
}

func (s *Shop) build() {
	s.Log = cmp.Or(s.Log, slog.New(slog.DiscardHandler))
	s.ChallengeLimit = cmp.Or(s.ChallengeLimit, 11*time.Minute)
	s.ResultWait = cmp.Or(s.ResultWait, 30*time.Second)
	s.CancelWait = cmp.Or(s.CancelWait, 3*time.Second)
	s.Processing = cmp.Or(s.Processing, 2*time.Second)
	s.noticeWait = cmp.Or(s.noticeWait, 5*time.Second)
	s.EventWait = cmp.Or(s.EventWait, 3*time.Second)
	s.MaxCheckouts = cmp.Or(s.MaxCheckouts, 1000)
	s.CheckoutAge = cmp.Or(s.CheckoutAge, 30*time.Minute)
	if s.Now == nil {
		s.Now = time.Now
	}
	s.runs = s.newRuns()
	s.api = newClient(s.API, s.APIKey, s.runs.Transport(s.Client))
	s.MPI = cmp.Or(s.MPI, s.API)
	s.mpi = newClient(s.MPI, s.APIKey, s.Client)
	s.checkouts = newCheckoutStore(s.MaxCheckouts, s.CheckoutAge, s.Now)
	s.payments = newPaymentStore(s.MaxCheckouts, s.CheckoutAge, s.Now)
	s.verifier.Store(noKey())
	s.registering = make(chan struct{}, 1)

	own := http.NewServeMux() // only for the shop's own pages
	own.HandleFunc("POST /checkout", s.openCheckout)
	own.HandleFunc("GET /checkout/{id}", s.onCheckout((*Shop).show))
	own.HandleFunc("POST /checkout/{id}/enrolled", s.onCheckout((*Shop).enrol))
	own.HandleFunc("POST /checkout/{id}/auth", s.onCheckout((*Shop).authenticate))
	own.HandleFunc("POST /checkout/{id}/confirmed", s.onCheckout((*Shop).confirmed))
	own.HandleFunc("POST /checkout/{id}/result", s.onCheckout((*Shop).result))
	own.HandleFunc("POST /checkout/{id}/cancel", s.onCheckout((*Shop).cancel))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.home)
	mux.HandleFunc("GET /steps", s.stepsPage)
	mux.Handle("GET /pay", http.RedirectHandler("/", http.StatusSeeOther)) // where the page was once
	mux.Handle("GET /order", s.runs.Watch("order", http.HandlerFunc(s.orderPage)))
	mux.Handle("POST "+HookPath, s.runs.WatchEvents(http.HandlerFunc(s.receiveEvent)))
	mux.Handle("POST /pay", http.NewCrossOriginProtection().Handler(s.runs.Watch("pay", http.HandlerFunc(s.pay))))
	s.runs.Register(mux)
	s.serveFiles(mux)
	mux.HandleFunc("GET /frame/{id}/method", s.onCheckout((*Shop).methodFrame))
	mux.HandleFunc("GET /frame/{id}/challenge", s.onCheckout((*Shop).challengeFrame))
	mux.HandleFunc("POST /notify/method", s.methodNotice)
	mux.HandleFunc("POST /notify/challenge", s.challengeNotice)
	mux.HandleFunc("POST /notify/pares", s.paResNotice)
	mux.Handle("/checkout", http.NewCrossOriginProtection().Handler(own))
	mux.Handle("/checkout/", http.NewCrossOriginProtection().Handler(own))
	s.handler = compress.Handler(s.guard(mux))
}

// policy is the Content-Security-Policy of every answer. The hosts of ACSs
// cannot be known, so frames and the forms inside them may go anywhere; all
// else is the shop's own.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self' http: https:; frame-src 'self' http: https:; frame-ancestors 'self'; base-uri 'none'"

// guard sets the headers that every answer has, and refuses requests for other hosts than the shop's. A page whose name
// was made to resolve to this machine must not reach it.
func (s *Shop) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		if !s.isOurHost(r.Host) {
			http.Error(w,
				"This shop answers only to names of this machine, such as 127.0.0.1 and localhost, or to its public address.",
				http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isOurHost reports whether a Host header names the shop.
func (s *Shop) isOurHost(host string) bool {
	if public, err := url.Parse(s.PublicURL); err == nil && public.Host != "" && strings.EqualFold(host, public.Host) {
		return true
	}
	return peer.IsLocalHost(host)
}

// base is the address under which this request's browser knows the shop.
func (s *Shop) base(r *http.Request) string {
	if s.PublicURL != "" {
		return strings.TrimSuffix(s.PublicURL, "/")
	}
	return "http://" + r.Host
}

// Start serves the shop on an address such as 127.0.0.1:0 until Close, and
// returns its URL.
func (s *Shop) Start(listen string) (string, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return "", err
	}
	s.server = &http.Server{
		Handler:        s.Handler(),
		ReadTimeout:    15 * time.Second,
		WriteTimeout:   45 * time.Second,
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 32 << 10,
		ErrorLog:       slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	s.served = make(chan struct{})
	go func() {
		defer close(s.served)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.Log.Error("shop: serving ended", "err", err)
		}
	}()
	if s.PublicURL != "" {
		return strings.TrimSuffix(s.PublicURL, "/"), nil
	}
	return "http://" + l.Addr().String(), nil
}

// closeServer gives requests in flight two seconds.
func (s *Shop) closeServer() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.server.Close()
	}
	<-s.served
	return err
}

// Close stops what Start began, and closes connections to the API that are not in use.
func (s *Shop) Close() error {
	var err error
	if s.server != nil {
		err = s.closeServer()
	}
	if s.Client == nil && s.api != nil {
		s.api.CloseIdleConnections()
		s.mpi.CloseIdleConnections()
	}
	return err
}
