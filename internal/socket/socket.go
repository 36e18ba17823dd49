// Package socket looks at connections that are idle, and limits how long data that was
// sent on one may stay unconfirmed.
package socket

import (
	"net"
	"syscall"
)

// Bottom returns the connection below all wrappers with a method NetConn: TLS, or TLS
// through a proxy that is itself spoken to with TLS.
func Bottom(c net.Conn) net.Conn {
	for {
		above, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = above.NetConn()
	}
}

// Under returns the socket at the bottom of a connection; nil if there is none.
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
