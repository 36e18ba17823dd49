package listen

import "net"

// Len returns how many connections are open.
func (l *Limiter) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Wrap returns a connection as Listener accepts it.
func (l *Limiter) Wrap(c net.Conn) net.Conn { return l.newConn(c) }
