package socket_test

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openthreeds/threeds/internal/base/socket"
)

// TestGiveUp sets the kernel's limit, on what has one.
func TestGiveUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialer := net.Dialer{Control: func(_, _ string, s syscall.RawConn) error { return socket.GiveUp(s, 4321*time.Millisecond) }}
	c, err := dialer.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	raw := socket.Under(c)
	var ms int
	if failed := raw.Control(func(fd uintptr) {
		ms, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); failed != nil || err != nil || ms != 4321 {
		t.Errorf("the limit is %d ms, %v, %v; want 4321", ms, failed, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	other, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := socket.GiveUp(socket.Under(other.(net.Conn)), time.Second); err == nil {
		t.Error("no error on a socket that has no such limit")
	}
	if err := socket.GiveUp(raw, time.Second); err == nil {
		t.Error("no error on a connection that is closed")
	}
}
