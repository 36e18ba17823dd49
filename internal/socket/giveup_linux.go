package socket

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// GiveUp has a TCP connection end when what was sent on it has gone unconfirmed for d.
// What has not left by then never does, though the connection was closed before; else
// it might wait for a network that comes back after minutes. Other systems than Linux
// have their own limits.
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
