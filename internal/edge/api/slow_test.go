package api_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/state/account"
)

// pipes is a listener whose connections a test makes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// anyone knows every key.
type anyone struct{}

func (anyone) Authenticate(context.Context, string) (*account.Account, error) {
	return &account.Account{Merchant: new(account.Merchant)}, nil
}

// verbose is an engine with a long answer.
type verbose struct{ api.Engine }

func (verbose) Preauth(_ context.Context, _ *account.Account, _ []byte) ([]byte, auth.Notes, error) {
	return make([]byte, 1<<20), auth.Notes{}, nil
}

// watched tells when it is closed.
type watched struct {
	net.Conn
	gone func()
}

func (w watched) Close() error {
	w.gone()
	return w.Conn.Close()
}

// serving is the listener of a server of the API, which ends with the test.
func serving(t *testing.T, slowest time.Duration) pipes {
	t.Helper()
	log, l := slog.New(slog.DiscardHandler), make(pipes)
	s := listen.NewServer(&api.Handler{Engine: verbose{}, Keys: anyone{}, Log: log}, slowest, log)
	ended := make(chan error)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		close(l)
		_ = s.Close()
		<-ended
	})
	return l
}

// drip says a text a byte at a time until the other side hangs up.
func drip(conn net.Conn, text string, every time.Duration) {
	for i := range len(text) {
		if _, err := conn.Write([]byte(text[i : i+1])); err != nil {
			return
		}
		time.Sleep(every)
	}
}

// TestSlowClientsAreClosed: whatever a client is slow at, its connection is not kept for longer than the bounds that
// Server sets. The limits are exact to the nanosecond, for the test runs in a synctest bubble.
func TestSlowClientsAreClosed(t *testing.T) {
	const slowest = 10 * time.Second
	head := "POST /preauth HTTP/1.1\r\nHost: x\r\nAPIKey: k\r\n"
	for _, test := range []struct {
		name string
		do   func(conn net.Conn)
		want time.Duration // after which the connection is gone
		says string        // the beginning of the answer
		mute bool          // there may be none
	}{
		{"nothing", func(net.Conn) {}, listen.RequestTime, "", true},
		{"header byte by byte", func(c net.Conn) { drip(c, head, time.Second/4) }, listen.RequestTime, "HTTP/1.1 400", true},
		{"header without end", func(c net.Conn) { drip(c, head+strings.Repeat("X: y\r\n", 1000), time.Millisecond) }, listen.RequestTime, "HTTP/1.1 400", true},
		{"no body", func(c net.Conn) { io.WriteString(c, head+"Content-Length: 100\r\n\r\n") }, listen.RequestTime, "HTTP/1.1 400", false},
		{"body byte by byte", func(c net.Conn) {
			io.WriteString(c, head+"Content-Length: 1000\r\n\r\n")
			drip(c, strings.Repeat(" ", 1000), time.Second/4)
		}, listen.RequestTime, "HTTP/1.1 400", false},
		{"chunks without end", func(c net.Conn) {
			io.WriteString(c, head+"Transfer-Encoding: chunked\r\n\r\n")
			drip(c, strings.Repeat("1\r\nx\r\n", 1000), time.Second/4)
		}, listen.RequestTime, "HTTP/1.1 400", false},
		{"idle", func(c net.Conn) { io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }, 130 * time.Second, "HTTP/1.1 404", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				serving(t, slowest) <- far
				start := time.Now()
				var all sync.WaitGroup
				all.Go(func() { test.do(near) })
				said, _ := io.ReadAll(near)
				took := time.Since(start)
				near.Close()
				all.Wait()
				if took != test.want || !strings.HasPrefix(string(said), test.says) && (len(said) > 0 || !test.mute) {
					t.Errorf("gone after %v with %.40q, want %v", took, said, test.want)
				}
			})
		})
	}
}

// TestSlowHandshakeIsClosed: a client that does not even say hello is gone as soon.
func TestSlowHandshakeIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		serving(t, time.Second) <- tls.Server(far, &tls.Config{Certificates: []tls.Certificate{{}}})
		start := time.Now()
		io.Copy(io.Discard, near)
		if took := time.Since(start); took != listen.RequestTime {
			t.Errorf("gone after %v, want %v", took, listen.RequestTime)
		}
	})
}

// TestSlowReaderIsClosed: a client that does not read its answer is hung up on.
func TestSlowReaderIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		start := time.Now()
		gone := make(chan time.Duration, 1)
		serving(t, 10*time.Second) <- watched{far, sync.OnceFunc(func() { gone <- time.Since(start) })}
		io.WriteString(near, "POST /preauth HTTP/1.1\r\nHost: x\r\nAPIKey: k\r\nContent-Length: 2\r\n\r\n{}")
		io.ReadFull(near, make([]byte, 1))
		if took := <-gone; took != 20*time.Second {
			t.Errorf("gone after %v, want 20 s", took)
		}
		near.Close()
	})
}

// TestStalledHTTP2IsClosed: a client of HTTP/2 that takes nothing at all is hung up on, too.
func TestStalledHTTP2IsClosed(t *testing.T) {
	template := httptest.NewUnstartedServer(nil)
	template.StartTLS()
	defer template.Close()
	config := &tls.Config{Certificates: template.TLS.Certificates, NextProtos: []string{"h2"}, SessionTicketsDisabled: true}
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		start := time.Now()
		gone := make(chan time.Duration, 1)
		serving(t, 10*time.Second) <- tls.Server(watched{far, sync.OnceFunc(func() { gone <- time.Since(start) })}, config)
		client := tls.Client(near, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		const noSettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
		if _, err := io.WriteString(client, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+noSettings); err != nil {
			t.Fatal(err)
		}
		select {
		case took := <-gone:
			if took < 20*time.Second || took > 30*time.Second {
				t.Errorf("gone after %v, want 20 s and a farewell", took)
			}
		case <-time.After(time.Hour):
			t.Error("it is still there after an hour")
		}
		near.Close()
	})
}

// TestOptionsStarReachesTheHandler: net/http would answer it by itself, whatever the key.
func TestOptionsStarReachesTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		serving(t, time.Second) <- far
		go io.WriteString(near, "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		said, _ := io.ReadAll(near)
		near.Close()
		if !strings.HasPrefix(string(said), "HTTP/1.1 404 ") || !strings.Contains(string(said), "There is no such operation") {
			t.Errorf("%q, want the handler's 404", said)
		}
	})
}
