//go:build unix

package socket

import "syscall"

// Peek looks at what has come on a socket, without waiting and without taking it.
// Quiet: nothing, as it should be on an idle connection. Over: the other side has ended
// it. Neither: something has come, or s is nil.
func Peek(s syscall.RawConn) (quiet, over bool) {
	if s == nil {
		return false, false
	}
	// Not RawConn.Read: that would wait for a Read that a driver or a transport may have
	// under way on the connection.
	err := s.Control(func(fd uintptr) {
		var b [1]byte
		for {
			n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			if err == syscall.EINTR {
				continue
			}
			quiet = err == syscall.EAGAIN
			over = !quiet && n <= 0
			return
		}
	})
	return quiet, over || err != nil
}
