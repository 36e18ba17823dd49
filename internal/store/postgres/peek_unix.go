//go:build unix

package postgres

import (
	"net"
	"syscall"
)

// peek looks at what has come on a connection that is not in use, without waiting and
// without taking it. quiet: nothing, as it should be. over: the server has closed it.
func peek(conn net.Conn) (quiet, over bool) {
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok { // of TLS
		conn = t.NetConn()
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false, false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false, true
	}
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN
		over = !quiet && n <= 0
		return true
	})
	return quiet, over || err != nil
}
