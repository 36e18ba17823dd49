package postgres

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openthreeds/threeds/internal/base/socket"
)

// TestSentLate: what a connection has not delivered within the time of a call, it never delivers.
func TestSentLate(t *testing.T) {
	_, at := openNew(t)
	db := openAt(t, at, Options{Timeout: 3 * time.Second})
	conn, err := db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	ms := 0
	failed := socket.Under(conn.Conn().PgConn().Conn()).Control(func(fd uintptr) {
		ms, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	})
	if failed != nil || err != nil || ms != 3000 {
		t.Errorf("TCP_USER_TIMEOUT is %d ms, %v, %v; want 3000", ms, failed, err)
	}
}
