package listen_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/edge/listen"
)

const goodKey = "good"

// serveLimited starts a server on a listener until the test ends. It answers 401 to requests without the good key. It
// has a connection limit and first-byte timeouts, as the listeners of the program have. Config is for TLS; nil means no
// TLS.
func serveLimited(t *testing.T, l net.Listener, most int, config *tls.Config) {
	t.Helper()
	s := &http.Server{
		ReadHeaderTimeout: 3 * time.Second, ReadTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("APIKey") != goodKey {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
		}),
	}
	limiter := &listen.Limiter{Max: most, MaxHTTP2: most}
	limiter.Attach(s)
	l = limiter.Listener(l)
	if config != nil {
		l = tls.NewListener(l, limiter.Offer(config))
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
	})
}

// serverTLS is a TLS configuration of a server that any client accepts that verifies nothing.
func serverTLS(protos ...string) *tls.Config {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates, NextProtos: protos}
}

// ask sends one request on a connection and returns the status of its answer.
func ask(c net.Conn, key string) (status int, err error) {
	if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nAPIKey: %s\r\nContent-Length: 4\r\n\r\nbody", key); err != nil {
		return 0, err
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// TestIdleStrangersDoNotShutOutNewClients reaches the limit of connections with clients that got a 401 and stay idle,
// while fifty more of them come per second. All new clients are served, even though they take a moment between
// connecting and their request. Half of them come at the same time.
func TestIdleStrangersDoNotShutOutNewClients(t *testing.T) {
	const most, clients = 200, 100
	const moment = 100 * time.Millisecond
	secured := serverTLS()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", secure), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := make(pipes)
				var config *tls.Config
				connect := l.connect
				if secure {
					config = secured
					connect = func() net.Conn { return tls.Client(l.connect(), &tls.Config{InsecureSkipVerify: true}) }
				}
				serveLimited(t, l, most, config)
				strange := func() {
					c := connect()
					t.Cleanup(func() { _ = c.Close() })
					if status, err := ask(c, "none"); err != nil || status != http.StatusUnauthorized {
						t.Errorf("a stranger got %d, %v; want 401", status, err)
					}
				}
				for range most + 100 {
					strange()
					synctest.Wait() // until the server knows that it is idle
				}
				end := make(chan struct{})
				var more sync.WaitGroup
				more.Go(func() {
					for {
						select {
						case <-end:
							return
						case <-time.After(time.Second / 50):
							strange()
						}
					}
				})
				var all sync.WaitGroup
				var served atomic.Int64
				for i := range clients {
					all.Go(func() {
						time.Sleep(max(0, time.Duration(i-clients/2)) * moment)
						c := connect()
						defer c.Close()
						time.Sleep(moment)
						if status, err := ask(c, goodKey); err == nil && status == http.StatusOK {
							served.Add(1)
						}
					})
				}
				all.Wait()
				close(end)
				more.Wait()
				if n := served.Load(); n != clients {
					t.Errorf("%d of %d new clients were served", n, clients)
				}
			})
		})
	}
}

// pipes is a listener whose connections are pipes, for tests with a clock of their own.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// connect returns the client's side of a new connection.
func (p pipes) connect() net.Conn {
	client, server := net.Pipe()
	p <- server
	return client
}

// trickle sends a text, a byte every tenth of a second.
func trickle(w io.Writer, text string) {
	for i := range len(text) {
		if _, err := w.Write([]byte{text[i]}); err != nil {
			return
		}
		time.Sleep(time.Second / 10)
	}
}

// TestSlowStrangersDoNotShutOutNewClients reaches the limit of connections with clients that never finish a handshake
// or a request. Each of them is evicted a second after it began, and a new client gets its place.
func TestSlowStrangersDoNotShutOutNewClients(t *testing.T) {
	const most = 20
	const moment = 100 * time.Millisecond
	secured, multiplexed := serverTLS(), serverTLS("h2", "http/1.1")
	anyServer := func(protos ...string) *tls.Config { return &tls.Config{InsecureSkipVerify: true, NextProtos: protos} }
	for _, test := range []struct {
		name   string
		config *tls.Config
		play   func(c net.Conn)
	}{
		{"no byte", nil, func(net.Conn) {}},
		{"a header that trickles", nil, func(c net.Conn) { trickle(c, "POST / HTTP/1.1\r\nHost: example.com\r\nX-A: ") }},
		{"a body that trickles", nil, func(c net.Conn) {
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nAPIKey: good\r\nContent-Length: 100\r\n\r\n")
			trickle(c, "a body that does not come to its end before the server loses its patience")
		}},
		{"no handshake", secured, func(net.Conn) {}},
		{"half a handshake", secured, func(c net.Conn) { _, _ = io.WriteString(c, "\x16\x03\x01\x02\x00\x01") }},
		{"a handshake and no request", secured, func(c net.Conn) { _ = tls.Client(c, anyServer()).Handshake() }},
		{"a handshake and a request that trickles", secured, func(c net.Conn) {
			over := tls.Client(c, anyServer())
			_ = over.Handshake()
			trickle(over, "POST / HTTP/1.1\r\nHost: example.com\r\nX-A: ")
		}},
		{"HTTP/2 without a request", multiplexed, func(c net.Conn) {
			over := tls.Client(c, anyServer("h2"))
			_ = over.Handshake()
			go func() { _, _ = io.Copy(io.Discard, over) }()
			_, _ = io.WriteString(over, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := make(pipes)
				serveLimited(t, l, most, test.config)
				var strangers sync.WaitGroup
				t.Cleanup(strangers.Wait)
				for range 3 * most {
					c := l.connect()
					t.Cleanup(func() { _ = c.Close() })
					strangers.Go(func() { test.play(c) })
				}
				time.Sleep(time.Second)
				synctest.Wait()
				for i := range 2 * most {
					c := l.connect()
					time.Sleep(moment)
					if test.config != nil {
						c = tls.Client(c, anyServer())
					}
					if status, err := ask(c, goodKey); err != nil || status != http.StatusOK {
						t.Errorf("new client %d got %d, %v; want 200", i+1, status, err)
					}
					_ = c.Close()
				}
			})
		})
	}
}

// TestRequestBegunOnAnIdleConnectionIsSafe: a client that has been idle longest, or was silent since it connected,
// begins a request. It is not evicted while the request comes, with TLS and without. Clients that are still idle are
// evicted.
func TestRequestBegunOnAnIdleConnectionIsSafe(t *testing.T) {
	secured := serverTLS()
	for _, config := range []*tls.Config{nil, secured} {
		for _, served := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				l := make(pipes)
				serveLimited(t, l, 3, config)
				var all []net.Conn
				for range 3 {
					c := l.connect()
					if config != nil {
						c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
						if err := c.(*tls.Conn).Handshake(); err != nil {
							t.Fatal(err)
						}
					}
					if served {
						if status, err := ask(c, goodKey); err != nil || status != http.StatusOK {
							t.Fatalf("%d, %v", status, err)
						}
						_ = c.SetDeadline(time.Time{})
					}
					all = append(all, c)
					t.Cleanup(func() { _ = c.Close() })
					time.Sleep(time.Minute / 4)
				}
				const request = "POST / HTTP/1.1\r\nHost: x\r\nAPIKey: good\r\nContent-Length: 0\r\n\r\n"
				if _, err := io.WriteString(all[0], request[:10]); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // the server has seen that the request begins
				for range 2 {
					c := l.connect()
					t.Cleanup(func() { _ = c.Close() })
				}
				synctest.Wait()
				if _, err := io.WriteString(all[0], request[10:]); err != nil {
					t.Fatalf("TLS %t, served before %t: evicted while its request came: %v", config != nil, served, err)
				}
				res, err := http.ReadResponse(bufio.NewReader(all[0]), nil)
				if err != nil || res.StatusCode != http.StatusOK {
					t.Errorf("TLS %t, served before %t: %v, %v; want 200", config != nil, served, res, err)
				}
				for i, c := range all[1:] {
					_ = c.SetReadDeadline(time.Now().Add(time.Second))
					if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("TLS %t, served before %t: connection %d that rests was not evicted: %v", config != nil, served, i+2, err)
					}
				}
			})
		}
	}
}
