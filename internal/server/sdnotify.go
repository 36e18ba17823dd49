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

// A manager is the service manager, if it wants to hear of the state of the process:
// the protocol of sd_notify(3), one datagram for each piece of news. Nil: there is none.
type manager struct {
	conn     net.Conn
	log      *slog.Logger
	watchdog time.Duration // it wants a sign of life this often; 0: never
}

// newManager finds the manager that started us, if one did.
func newManager(log *slog.Logger) *manager {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", path) // a first @ stands for a zero byte there too
	if err != nil {
		log.Warn("the service manager cannot be told how things stand", "err", err)
		return nil
	}
	m := &manager{conn: conn, log: log}
	usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if pid := os.Getenv("WATCHDOG_PID"); err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		m.watchdog = time.Duration(usec) * time.Microsecond
	}
	return m
}

// run says that requests are taken, and at the end that they soon will not be.
func (m *manager) run(ctx context.Context) {
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
			m.tell("STOPPING=1")
			return
		case <-tick:
			m.tell("WATCHDOG=1")
		}
	}
}

func (m *manager) ready() {
	if m != nil {
		m.tell("READY=1")
	}
}

// reloading says that ready will follow. By its time the manager knows that this is the
// answer to its signal.
func (m *manager) reloading() {
	if m != nil {
		m.tell(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", monotonic().Microseconds()))
	}
}

func (m *manager) tell(news string) {
	if _, err := m.conn.Write([]byte(news)); err != nil {
		m.log.Warn("the service manager was not told", "err", err)
	}
}
