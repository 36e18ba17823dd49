package server

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/listen"
)

// A publicListener is where requestors come in, or directory servers.
type publicListener struct {
	listener *listener
	limiter  *listen.Limiter
	server   *http.Server // set by listen
}

// newListener makes one of a TCP listener, whose name is for the log. Its connections have a
// part of the files that may be open, and TLS as the generation in use has it.
func (n *Server) newListener(name string, l net.Listener, part int, secured func(*runtime) *tls.Config) *publicListener {
	limiter := n.newLimiter(name, part)
	return &publicListener{
		listener: &listener{
			Listener: limiter.Listener(n.kept.Listener(l)),
			config:   func() *tls.Config { return secured(n.current()) },
		},
		limiter: limiter,
	}
}

// take gives an publicListener its server.
func (n *Server) take(e *publicListener, s *http.Server) {
	s.ConnState = n.count
	n.kept.Attach(s)
	e.limiter.Attach(s)
	e.server = s
}

// A listener puts TLS on the connections that it accepts, by the configuration of that
// moment.
type listener struct {
	net.Listener
	config func() *tls.Config // may return nil, for none
	closed sync.Once
}

// plain is the configuration of a listener that never has TLS.
func plain() *tls.Config { return nil }

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if config := l.config(); config != nil {
		return tls.Server(c, config), nil
	}
	return c, nil
}

// Close returns when no connection will be accepted any more. Only the first call does
// anything: drain closes the listener before its server does.
func (l *listener) Close() (err error) {
	l.closed.Do(func() {
		closed := make(chan struct{})
		defer close(closed)
		go knock(l.Addr().String(), closed)
		err = l.Listener.Close()
	})
	return err
}

// knock connects to a socket until closed is. A socket that was passed to several
// processes becomes blocking in all of them if one makes it so. An accept that blocks
// then returns only when a connection comes, and Close waits for that.
func knock(address string, closed <-chan struct{}) {
	for {
		select {
		case <-closed:
			return
		case <-time.After(50 * time.Millisecond):
		}
		if c, err := net.DialTimeout("tcp", address, 50*time.Millisecond); err == nil {
			_ = c.Close()
		}
	}
}
