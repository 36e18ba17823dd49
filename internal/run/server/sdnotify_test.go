package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSignsOfLifeComeInTime: signs of life come twice as often as they are wanted, for as long
// as requests are served, between the first news and the last.
func TestSignsOfLifeComeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var news heard
		m := &notifier{conn: &news, log: slog.New(slog.DiscardHandler), watchdog: 30 * time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		m.run(ctx)
		want := []string{
			"0s READY=1", "15s WATCHDOG=1", "30s WATCHDOG=1", "45s WATCHDOG=1", "1m0s WATCHDOG=1", "1m15s WATCHDOG=1",
			"1m30s WATCHDOG=1", "1m40s STOPPING=1",
		}
		if !slices.Equal(news.all, want) {
			t.Errorf("%q, want %q", news.all, want)
		}
	})
}

// heard is a connection to a service manager that notes what comes, and when, from the
// beginning of a bubble on.
type heard struct {
	net.Conn
	all []string
}

func (h *heard) Write(p []byte) (int, error) {
	h.all = append(h.all, fmt.Sprint(time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), " ", string(p)))
	return len(p), nil
}

// TestWatchdogIsForThisProcess: signs of life are for a manager that wants them of this process.
func TestWatchdogIsForThisProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	me, parent := strconv.Itoa(os.Getpid()), strconv.Itoa(os.Getppid())
	for _, tt := range []struct {
		usec, pid string
		want      time.Duration
	}{
		{"30000000", "", 30 * time.Second}, {"30000000", me, 30 * time.Second}, {"30000000", parent, 0},
		{"", "", 0}, {"", me, 0}, {"0", me, 0}, {"-1", me, 0}, {"soon", me, 0},
	} {
		t.Setenv("NOTIFY_SOCKET", path)
		t.Setenv("WATCHDOG_USEC", tt.usec)
		t.Setenv("WATCHDOG_PID", tt.pid)
		m := newNotifier(slog.New(slog.DiscardHandler))
		if m == nil || m.watchdog != tt.want {
			t.Errorf("WATCHDOG_USEC=%s WATCHDOG_PID=%s: %+v, want a sign of life every %v", tt.usec, tt.pid, m, tt.want)
		}
		if m != nil {
			_ = m.conn.Close()
		}
	}
	t.Setenv("NOTIFY_SOCKET", path)
	var heard strings.Builder
	m := newNotifier(slog.New(slog.NewTextHandler(&heard, nil)))
	_ = m.conn.Close() // as if it had gone
	if m.ready(); !strings.Contains(heard.String(), "state not reported") {
		t.Errorf("nobody hears it, log %q", heard.String())
	}
	for _, none := range []string{"", path + ".gone"} {
		t.Setenv("NOTIFY_SOCKET", none)
		var log strings.Builder
		if m := newNotifier(slog.New(slog.NewTextHandler(&log, nil))); m != nil || (log.Len() > 0) != (none != "") {
			t.Errorf("NOTIFY_SOCKET=%s: manager %v, log %q", none, m, log.String())
		}
	}
}
