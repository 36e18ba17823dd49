package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// loiterers hold connections of the API and do next to nothing on them.
type loiterers struct {
	ended  sync.WaitGroup
	leave  context.CancelFunc
	opened atomic.Int64 // connections
}

// Loitering is how many loiterers there are, where, and with which key.
type Loitering struct {
	Count        int
	Address, Key string
}

// Loiter starts the loiterers. A third of them sends a header byte by byte, a third a body,
// and a third sends requests and reads no answer; each does so about once a second. One
// whose connection is closed makes another.
func (l *Load) Loiter(at Loitering, _ *int) error {
	ctx, leave := context.WithCancel(context.Background())
	l.loiterers.leave = leave
	l.loiterers.opened.Store(0)
	header := "POST /preauth HTTP/1.1\r\nHost: " + at.Address + "\r\nAPIKey: " + at.Key + "\r\n"
	whole := string(request(at.Address, "/postauth", at.Key, []byte("{}")))
	manners := []struct{ first, then string }{
		{header, "X"},
		{header + "Content-Length: 4000\r\n\r\n", " "},
		{whole, whole},
	}
	for i := range at.Count {
		m := manners[i%len(manners)]
		l.loiterers.ended.Go(func() {
			for ctx.Err() == nil {
				l.loiterers.loiter(ctx, at.Address, m.first, m.then)
			}
		})
		if i%10 == 0 {
			time.Sleep(2 * time.Millisecond)
		}
	}
	return nil
}

// Leave ends the loiterers and returns how many connections they made.
func (l *Load) Leave(_ int, opened *int64) error {
	l.loiterers.leave()
	l.loiterers.ended.Wait()
	*opened = l.loiterers.opened.Load()
	return nil
}

// loiter holds one connection until it is closed.
func (l *loiterers) loiter(ctx context.Context, address, first, then string) {
	pause := func() bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Second/2 + rand.N(time.Second)): // not all at the same moment
			return true
		}
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		pause()
		return
	}
	defer c.Close()
	l.opened.Add(1)
	_ = c.(*net.TCPConn).SetReadBuffer(4096)
	for _, err = io.WriteString(c, first); err == nil && pause(); _, err = io.WriteString(c, then) {
		_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second))
	}
}
