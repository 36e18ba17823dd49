// Package threedstest runs a 3-D Secure server inside a Go test, in the manner of
// net/http/httptest. Use [NewServer] in a test, or [Start] where there is no test, as in
// TestMain. [Server.Client] calls its API; a program under test gets its URL and Key.
//
// The server is the one that runs in production, with a store of its own. The directory
// servers and issuers that it talks to are those of package sandbox. What a payment comes
// to is chosen by the card number: docs/test-cards.md has the list, and 4000000000000103
// is a card that is authenticated without a challenge. [sandbox.Sandbox.Received] tells
// what the directory servers and issuers got.
//
// An authentication of a browser that POST /authentications begins goes on at the address of
// its page. A real browser may open that, with threeds.js or without. [Server.PlayShopper] does
// what a shopper does there, without a browser.
//
// The sandbox is strict: a threeDSCompInd Y is refused with Erro 305 unless the 3DS Method
// of the card has completed.
//
// The server listens on 127.0.0.1 and nothing leaves the machine. It is ready when
// NewServer returns, which takes some hundredths of a second. Servers share nothing, so
// tests that run in parallel may each have one.
package threedstest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/run/playground"
	"github.com/openthreeds/threeds/sandbox"
)

// A Server is a running 3-D Secure server. Its fields must not be changed.
type Server struct {
	URL      string           // of the API, such as http://127.0.0.1:40713, without a / at the end
	Key      string           // an API key, which goes into the header APIKey
	OtherKey string           // the API key of another merchant
	Sandbox  *sandbox.Sandbox // the directory servers and issuers

	// BrowserURL is where browsers find threeds.js and the hosted page, on a port of its own.
	BrowserURL string

	client *client.Client
	close  func() error
}

// NewServer starts a server that is closed when the test ends. What the server logs, from
// warnings on, goes to the output of the test. If the server cannot start, or does not end
// in good order, the test fails.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s, err := Start(obs.NewLogger(t.Output(), slog.LevelWarn))
	if err != nil {
		t.Fatalf("threedstest: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("threedstest: %v", err)
		}
	})
	return s
}

// Start starts a server that has to be closed. A nil log means that nothing is logged.
func Start(log *slog.Logger) (*Server, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	dir, err := os.MkdirTemp("", "threedstest-")
	if err != nil {
		return nil, err
	}
	s, err := start(dir, log)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// shutdown is how long requests may take to finish when a server ends. A machine may be busy with other tests.
const shutdown = 5 * time.Minute

// start starts a server whose data is in dir.
func start(dir string, log *slog.Logger) (*Server, error) {
	ctx, stop := context.WithCancel(context.Background())
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		stop()
		return nil, err
	}
	pages, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		stop()
		return nil, errors.Join(err, l.Close())
	}
	p, err := playground.Start(ctx, playground.Options{
		Dir: dir, API: l, Browser: pages, Release: "test", Log: log, Strict: true, Shutdown: shutdown,
	})
	if err != nil {
		stop()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	s := &Server{
		URL: "http://" + l.Addr().String(), Key: playground.Key, OtherKey: playground.OtherKey, Sandbox: p.Sandbox,
		BrowserURL: "http://" + pages.Addr().String(),
	}
	s.client = client.New(s.URL, s.Key)
	s.close = sync.OnceValue(func() error {
		s.client.CloseIdleConnections()
		stop()
		return errors.Join(<-ended, os.RemoveAll(dir))
	})
	return s, nil
}

// Client returns a client of the API, with Key.
func (s *Server) Client() *client.Client { return s.client }

// Close ends the server when the requests that it is answering are done, and removes its
// data. Further calls do nothing and return the same.
func (s *Server) Close() error { return s.close() }
