package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"
)

// A manager reports the state of the process to the service manager, by the protocol of sd_notify(3): one datagram for
// each change. A nil manager reports nothing.
type notifier struct {
	conn     net.Conn
	log      *slog.Logger
	watchdog time.Duration // how often the manager wants a sign of life; 0 means never
}

// newNotifier returns the notifier for the manager that started this process, nil if none did.
func newNotifier(log *slog.Logger) *notifier {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", path) // a first @ stands for a zero byte there too
	if err != nil {
		log.Warn("cannot report the state to the service manager", "err", err)
		return nil
	}
	m := &notifier{conn: conn, log: log}
	usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if pid := os.Getenv("WATCHDOG_PID"); err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		m.watchdog = time.Duration(usec) * time.Microsecond
	}
	return m
}

// run reports that requests are accepted, sends signs of life, and reports the end when ctx
// ends.
func (m *notifier) run(ctx context.Context) {
	if m == nil {
		return
	}
	m.ready()
	var tick <-chan time.Time
	if m.watchdog > 0 {
		ticker := time.NewTicker(m.watchdog / 2)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			m.send("STOPPING=1")
			return
		case <-tick:
			m.send("WATCHDOG=1")
		}
	}
}

func (m *notifier) ready() {
	if m != nil {
		m.send("READY=1")
	}
}

// reloading reports a reload, after which ready follows. Its time tells the manager that this
// is the answer to its signal.
func (m *notifier) reloading() {
	if m != nil {
		m.send(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", monotonic().Microseconds()))
	}
}

func (m *notifier) send(news string) {
	if _, err := m.conn.Write([]byte(news)); err != nil {
		m.log.Warn("state not reported to the service manager", "err", err)
	}
}
