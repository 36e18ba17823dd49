package socket

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// GiveUp makes the system close a TCP connection when data sent on it was not acknowledged for d (TCP_USER_TIMEOUT).
// Data that was not delivered by then never is, even if the connection was closed before. Without this limit the data
// might arrive minutes later, when the network is back. Systems other than Linux have their own limits.
func GiveUp(s syscall.RawConn, d time.Duration) error {
	var failed error
	err := s.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
