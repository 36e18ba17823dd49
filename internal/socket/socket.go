// Package socket looks at connections that rest between two uses, and bounds what waits
// on them.
package socket

import (
	"net"
	"syscall"
)

// Under returns the socket under a connection, that of TLS too; nil if there is
// none.
func Under(c net.Conn) syscall.RawConn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}
