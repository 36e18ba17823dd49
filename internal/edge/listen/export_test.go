package listen

import (
	"net"
	"net/http"
)

// Len returns how many connections are open.
func (l *Limiter) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Wrap returns a connection as Listener accepts it.
func (l *Limiter) Wrap(c net.Conn) net.Conn { return l.newConn(c) }

// Begin has the handler get a request without a body on a connection, and not answer it.
func (l *Limiter) Begin(c net.Conn) { l.startRequest(connBelow(c), &http.Request{Body: http.NoBody}) }
