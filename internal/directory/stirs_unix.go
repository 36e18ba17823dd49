//go:build unix

package directory

import (
	"errors"
	"syscall"
)

// stirs reports whether a socket on which nothing is due has something to read
// all the same: its end, or what a peer says before it hangs up.
func stirs(socket syscall.RawConn) bool {
	if socket == nil {
		return false
	}
	quiet := false
	// Not RawConn.Read: that would wait for the transport's own reader.
	err := socket.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
	})
	return err != nil || !quiet
}
