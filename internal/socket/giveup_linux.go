package socket

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// GiveUp has a TCP connection end when data that was sent on it has gone unconfirmed for
// d. What has not left by then never does, even if the connection was closed before. Without
// it the data might arrive minutes later, when the network is back. Systems other than
// Linux have limits of their own.
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
