// Package socket works on the socket below a connection: [Peek] tells whether anything has come on an idle connection,
// and [GiveUp] limits how long sent data may stay unacknowledged.
package socket

import (
	"net"
	"syscall"
)

// Bottom returns the connection below all wrappers with a method NetConn. These are TLS, or TLS through a proxy that is
// itself reached with TLS.
func Bottom(c net.Conn) net.Conn {
	for {
		above, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = above.NetConn()
	}
}

// Under returns the socket below a connection, or nil if there is none.
func Under(c net.Conn) syscall.RawConn {
	s, ok := Bottom(c).(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}
