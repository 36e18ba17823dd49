package listen

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
)

const (
	testHeader  = 3 * time.Second
	testArrival = 5 * time.Second
	testIdle    = time.Minute
)

// connected returns a client's connection to a server whose connections may be silent. With a configuration the server
// uses TLS, and the client has not begun the handshake.
func connected(t *testing.T, secure *tls.Config) net.Conn {
	near, far := net.Pipe()
	l := make(singleConnListener, 1)
	l <- far
	s := &http.Server{ReadHeaderTimeout: testHeader, ReadTimeout: testArrival, WriteTimeout: time.Hour, IdleTimeout: testIdle}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	s.ErrorLog = log.New(io.Discard, "", 0)
	limiter := new(Limiter)
	limiter.Attach(s)
	listener := limiter.Listener(l)
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	ended := make(chan error)
	go func() { ended <- s.Serve(listener) }()
	t.Cleanup(func() {
		near.Close()
		close(l)
		s.Close()
		<-ended
	})
	return near
}

// secured is the configuration of a server of TLS.
func secured() *tls.Config {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return s.TLS
}

// TestFirstRequestMayBeLate: before its first request a connection may be silent for as long as between two requests,
// with TLS before and after the handshake. What begins late has the same time as what begins immediately.
func TestFirstRequestMayBeLate(t *testing.T) {
	const moment = time.Millisecond
	const request = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"
	const header = len(request) - len("body")
	secure := secured()
	for _, test := range []struct {
		name  string
		parts []string      // of the request
		wait  time.Duration // between them
		want  int
		took  time.Duration // from the first part
	}{
		{"whole", []string{request}, 0, 200, 0},
		{"slow header", []string{request[:20], request[20:]}, testHeader - moment, 200, testHeader - moment},
		{"too slow a header", []string{request[:20], request[20:]}, testHeader + moment, 400, testHeader},
		{"slow body", []string{request[:header], request[header:]}, testArrival - moment, 200, testArrival - moment},
		{"too slow a body", []string{request[:header], request[header:]}, testArrival + moment, 500, testArrival},
	} {
		for _, before := range []time.Duration{0, testIdle - moment} {
			for _, config := range []*tls.Config{nil, secure} {
				t.Run(test.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var writer sync.WaitGroup
						t.Cleanup(writer.Wait)
						c := connected(t, config)
						time.Sleep(before)
						if config != nil {
							over := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
							if err := over.Handshake(); err != nil {
								t.Fatal(err)
							}
							c = over
							time.Sleep(before)
						}
						start := time.Now()
						writer.Go(func() {
							for i, part := range test.parts {
								if i > 0 {
									time.Sleep(test.wait)
								}
								if _, err := io.WriteString(c, part); err != nil {
									return
								}
							}
						})
						res, err := http.ReadResponse(bufio.NewReader(c), nil)
						if took := time.Since(start); err != nil || res.StatusCode != test.want || took != test.took {
							t.Errorf("TLS %t, %v of silence: %v, %v after %v, want %d after %v",
								config != nil, before, res, err, took, test.want, test.took)
						}
					})
				})
			}
		}
	}
}

// TestSilentConnectionsAreClosed: the server closes the connection of a client that sends nothing, and of one whose
// handshake is too slow.
func TestSilentConnectionsAreClosed(t *testing.T) {
	const farewell = time.Second // of HTTP/2, which bounds its connections itself
	secure, two := secured(), secured()
	two.NextProtos = []string{protoHTTP2}
	for _, test := range []struct {
		name   string
		config *tls.Config
		shake  bool
		say    string
		want   time.Duration
	}{
		{"silent", nil, false, "", testIdle},
		{"silent before TLS", secure, false, "", testIdle},
		{"silent after the handshake", secure, true, "", testIdle},
		{"a request that stops", nil, false, "GET", testHeader},
		{"a handshake that stops", secure, false, "\x16\x03\x01", testHeader},
		{"a request over TLS that stops", secure, true, "GET", testHeader},
		{"silent from the first request of HTTP/2 on", two, true, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", testIdle + farewell},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := connected(t, test.config)
				if test.shake {
					c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: test.config.NextProtos})
					if err := c.(*tls.Conn).Handshake(); err != nil {
						t.Fatal(err)
					}
				}
				start := time.Now()
				if test.say != "" {
					if _, err := io.WriteString(c, test.say); err != nil {
						t.Fatal(err)
					}
				}
				_, _ = io.Copy(io.Discard, c) // what TLS says of an end without its own farewell
				if took := time.Since(start); took != test.want {
					t.Errorf("it took %v, want %v", took, test.want)
				}
			})
		})
	}
}

// joined is a connection that holds back what is written, from the second piece on, until it is released.
type joined struct {
	net.Conn
	first, loose bool
	held         []byte
}

func (j *joined) Write(p []byte) (int, error) {
	if !j.first || j.loose {
		j.first = true
		return j.Conn.Write(p)
	}
	j.held = append(j.held, p...)
	return len(p), nil
}

func (j *joined) let() error {
	j.loose = true
	_, err := j.Conn.Write(j.held)
	return err
}

// TestRequestInOnePieceWithTheHandshakeHasItsTime: a request that comes in one piece with the end of the handshake has
// the same time as any other.
func TestRequestInOnePieceWithTheHandshakeHasItsTime(t *testing.T) {
	secure := secured()
	synctest.Test(t, func(t *testing.T) {
		j := &joined{Conn: connected(t, secure)}
		c := tls.Client(j, &tls.Config{InsecureSkipVerify: true})
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := j.let(); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if took := time.Since(start); err != nil || res.StatusCode != 500 || took != testArrival {
			t.Errorf("%v, %v after %v, want 500 after %v", res, err, took, testArrival)
		}
	})
}

// startOver returns the two ends of a TCP connection. The server's end belongs to a limiter whose limits are an hour,
// so that a limit passes only when the test says so.
func startOver(t *testing.T) (server *conn, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	inner, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		inner.Close()
	})
	limiter := &Limiter{headerTimeout: time.Hour, readTimeout: time.Hour, idleTimeout: time.Hour}
	return limiter.newConn(inner), client
}

// TestLimitPassesOnlyWhileNothingWaitsToBeRead: a server that had no processor time reads what has come in time, even
// if it looks only after the limit. A client that has sent nothing is late, and a Read that is interrupted consumes
// nothing.
func TestLimitPassesOnlyWhileNothingWaitsToBeRead(t *testing.T) {
	for _, stage := range []int32{stageHandshake, stageRequest, stageServed} {
		server, client := startOver(t)
		server.expectsFirstByte.Store(false) // it has come
		server.stage.Store(stage)
		passed := func() {
			if err := server.Conn.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		b := make([]byte, 4)
		passed()
		if n, err := server.Read(b); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("stage %d: a client that has sent nothing: %d, %v", stage, n, err)
		}
		if _, err := io.WriteString(client, "word"); err != nil {
			t.Fatal(err)
		}
		waittest.Until(t, "the word to come", server.hasUnreadBytes)
		if stage == stageServed {
			if err := server.SetReadDeadline(time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			if n, err := server.Read(b); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("interrupted: %d, %v", n, err)
			}
			if err := server.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		passed()
		if n, err := server.Read(b); err != nil || string(b[:n]) != "word" {
			t.Errorf("stage %d: a word that has come: %q, %v", stage, b[:n], err)
		}
	}
}

// TestServerThatIsLateGivesTheClientItsTime: a limit that is over when net/http sets it, or when a handshake goes on,
// begins again.
func TestServerThatIsLateGivesTheClientItsTime(t *testing.T) {
	server, client := startOver(t)
	server.stage.Store(stageServed)
	if err := server.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(server, make([]byte, 4))
		read <- err
	}()
	if _, err := io.WriteString(client, "word"); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Errorf("after a limit that was over when it was set: %v", err)
	}
	server.stage.Store(stageHandshake)
	if err := server.Conn.SetDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(server, "hello"); err != nil {
		t.Errorf("a part of a handshake that the server is late with: %v", err)
	}
	go func() {
		_, err := io.ReadFull(server, make([]byte, 4))
		read <- err
	}()
	if _, err := io.WriteString(client, "word"); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Errorf("the client's next part: %v", err)
	}
}

// TestAnswerThatIsLateIsSent: an answer that the server has only after the time to send it reaches the client, over TLS,
// too. A client that then does not take it has no further time.
func TestAnswerThatIsLateIsSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limiter := new(Limiter)
	s := &http.Server{ReadHeaderTimeout: time.Hour, ErrorLog: log.New(io.Discard, "", 0)}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Error(err)
		}
		_, _ = w.Write(bytes.Repeat([]byte("late "), 2000)) // what the client reads says how it went
	})
	limiter.Attach(s)
	ended := make(chan error)
	go func() { ended <- s.Serve(tls.NewListener(limiter.Listener(l), secured())) }()
	t.Cleanup(func() {
		s.Close()
		<-ended
	})
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for range 2 { // on the same connection
		res, err := client.Get("https://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || len(body) != 10000 {
			t.Errorf("%d bytes, %v; want 10000", len(body), err)
		}
		res.Body.Close()
	}

	server, _ := startOver(t)
	server.stage.Store(stageServed)
	past := time.Now().Add(-time.Second)
	if err := server.SetWriteDeadline(past); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(server, "late"); err != nil {
		t.Errorf("an answer that is late: %v", err)
	}
	if err := server.Conn.SetWriteDeadline(past); err != nil { // as if the client had not taken it
		t.Fatal(err)
	}
	if _, err := io.WriteString(server, "later"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the rest of it, after the time that was given again: %v", err)
	}
}

// A singleConnListener is a listener of one connection.
type singleConnListener chan net.Conn

func (l singleConnListener) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (singleConnListener) Close() error { return nil }

func (singleConnListener) Addr() net.Addr { return &net.TCPAddr{} }

// TestHooksAreCalledInOrder: a new hook of a server is called for its connections, and so is the previous hook, which
// is called first.
func TestHooksAreCalledInOrder(t *testing.T) {
	s, heard := new(http.Server), ""
	for _, name := range []string{"a", "b", "c"} {
		addHooks(s, func(net.Conn, http.ConnState) { heard += name }, func(ctx context.Context, _ net.Conn) context.Context {
			heard += strings.ToUpper(name)
			return ctx
		})
	}
	s.ConnState(nil, http.StateNew)
	s.ConnContext(t.Context(), nil)
	if heard != "abcABC" {
		t.Errorf("heard: %s, want abcABC", heard)
	}
}
