//go:build unix

package socket

import "syscall"

// Peek looks at what has come on a socket, without waiting and without taking it.
// Quiet: nothing, as it should be on a connection that rests. Over: the other side
// has ended it. Neither: it has said something, or there is no socket to look at.
func Peek(s syscall.RawConn) (quiet, over bool) {
	if s == nil {
		return false, false
	}
	// Not RawConn.Read: that would wait for the reader that a driver or a transport
	// may have left there.
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
