// Package socket looks at connections that rest between two uses, and bounds what waits
// on them.
package socket

import (
	"net"
	"syscall"
)

// Bottom returns the connection below all others: that of TLS, of TLS through a proxy
// that is spoken to with TLS as well, of a door.
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
