//go:build unix

package socket

import "syscall"

// Peek reports what has come on a socket. It does not wait and does not consume data. Quiet means that nothing has
// come, as it should be on an idle connection; over means that the other side has closed the connection. If neither is
// set, data has come or s is nil.
func Peek(s syscall.RawConn) (quiet, over bool) {
	if s == nil {
		return false, false
	}
	// RawConn.Read would wait for a Read that a driver or a transport may have under way on the connection.
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
