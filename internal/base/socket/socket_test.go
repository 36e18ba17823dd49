//go:build unix

package socket_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/openthreeds/threeds/internal/base/socket"
	"github.com/openthreeds/threeds/internal/base/waittest"
)

// TestPeek looks at a connection at rest, with something said, and ended in two
// ways; and nothing is taken.
func TestPeek(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pair := func() (near, far *net.TCPConn) {
		t.Helper()
		a, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		b, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			a.Close()
			b.Close()
		})
		return a.(*net.TCPConn), b.(*net.TCPConn)
	}
	for name, test := range map[string]struct {
		do          func(far *net.TCPConn) error
		quiet, over bool
	}{
		"at rest": {func(*net.TCPConn) error { return nil }, true, false},
		"says something": {func(far *net.TCPConn) error {
			_, err := io.WriteString(far, "word")
			return err
		}, false, false},
		"ended": {(*net.TCPConn).Close, false, true},
		"reset": {func(far *net.TCPConn) error {
			_ = far.SetLinger(0)
			return far.Close()
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := pair()
			if err := test.do(far); err != nil {
				t.Fatal(err)
			}
			var quiet, over bool
			waittest.Until(t, fmt.Sprintf("quiet to be %t", test.quiet), func() bool { // until it has come
				quiet, over = socket.Peek(socket.Under(near))
				return quiet == test.quiet
			})
			if over != test.over {
				t.Errorf("over %t, want %t", over, test.over)
			}
			if quiet || over {
				return
			}
			word := make([]byte, 4)
			if _, err := io.ReadFull(near, word); err != nil || string(word) != "word" {
				t.Errorf("read %q, %v", word, err)
			}
		})
	}
	near, _ := pair()
	secured := tls.Client(near, nil)
	for what, c := range map[string]net.Conn{"TLS": secured, "TLS in TLS": tls.Client(secured, nil)} {
		if quiet, _ := socket.Peek(socket.Under(c)); !quiet || socket.Bottom(c) != net.Conn(near) {
			t.Errorf("the socket under %s is not found", what)
		}
	}
	near.Close()
	if _, over := socket.Peek(socket.Under(near)); !over {
		t.Error("one that we have closed ourselves is not over")
	}
}

// TestNoSocket: of what has no socket nothing is known.
func TestNoSocket(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	if quiet, over := socket.Peek(socket.Under(near)); quiet || over {
		t.Errorf("quiet %t, over %t; want neither", quiet, over)
	}
}
