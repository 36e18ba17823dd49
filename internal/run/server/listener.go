package server

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/edge/shed"
)

// A publicListener accepts the connections of requestors, or of directory servers.
type publicListener struct {
	listener *listener
	limiter  *listen.Limiter
	server   *http.Server // set by attachServer
}

// newListener wraps a TCP listener, whose name is for the log. Its connections may use a part-th of the files that may
// be open, and use the TLS settings of the active runtime.
func (s *Server) newListener(name string, l net.Listener, part int,
	secured func(*runtime) *tls.Config) *publicListener {
	limiter := s.connectionLimit(name, part)
	return &publicListener{
		listener: &listener{
			Listener: limiter.Listener(s.keepAlive.Listener(l)),
			config:   func() *tls.Config { return secured(s.activeRuntime()) },
		},
		limiter: limiter,
	}
}

// attachServer gives the listener the server of its connections.
func (n *Server) attachServer(e *publicListener, s *http.Server) {
	s.ConnState = n.countConnection
	n.keepAlive.Attach(s)
	e.limiter.Attach(s)
	e.server = s
}

// isOverloaded reports whether less than half of the requests that begin an authentication are admitted.
func (s *Server) isOverloaded() bool { return s.gate.AdmittedShare(shed.Low) < 0.5 }

// A listener puts TLS on the connections that it accepts, by the configuration of that
// moment.
type listener struct {
	net.Listener
	config func() *tls.Config // may return nil, for none
	closed sync.Once
}

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
		go wakeAccept(l.Addr().String(), closed)
		err = l.Listener.Close()
	})
	return err
}

// wakeAccept connects to a socket until closed is. A socket that was passed to several
// processes becomes blocking in all of them if one makes it so. An accept that blocks
// then returns only when a connection comes, and Close waits for that.
func wakeAccept(address string, closed <-chan struct{}) {
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
