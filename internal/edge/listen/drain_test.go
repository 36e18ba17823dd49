package listen

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/openthreeds/threeds/internal/base/socket"
	"github.com/openthreeds/threeds/internal/base/waittest"
)

// rested is a connection that a Drainer follows, and the client's end of it. The test plays the server.
type rested struct {
	t      *testing.T
	k      *Drainer
	server net.Conn
	client net.Conn
}

func newRested(t *testing.T) *rested { return newRestedOf(t, new(Drainer)) }

func newRestedOf(t *testing.T, k *Drainer) *rested {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := &rested{t: t, k: k}
	dialled := make(chan net.Conn, 1)
	go func() {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Error(err)
		}
		dialled <- c
	}()
	if r.server, err = r.k.Listener(l).Accept(); err != nil {
		t.Fatal(err)
	}
	r.client = <-dialled
	t.Cleanup(func() {
		r.server.Close()
		r.client.Close()
	})
	r.is(http.StateNew)
	return r
}

func (r *rested) is(s http.ConnState) { r.k.follow(r.server, s) }

// says sends a text, and waits until it lies in the server's socket.
func (r *rested) says(text string) {
	r.t.Helper()
	if _, err := io.WriteString(r.client, text); err != nil {
		r.t.Fatal(err)
	}
	r.arrives()
}

// arrives waits until what the client has done is seen at the server's socket.
func (r *rested) arrives() {
	r.t.Helper()
	for { // without a pause: some tests do this thousands of times
		if quiet, _ := socket.Peek(socket.Bottom(r.server).(*drainConn).raw); !quiet {
			return
		}
		runtime.Gosched()
	}
}

// hears reads on the server's side.
func (r *rested) hears(text string) {
	r.t.Helper()
	b := make([]byte, len(text))
	if _, err := io.ReadFull(r.server, b); err != nil || string(b) != text {
		r.t.Fatalf("the server hears %q: %v", b, err)
	}
}

// looks says how many looks it takes until the connection is closed; at most so many.
func (r *rested) looks(most int) int {
	r.t.Helper()
	for n := 1; n <= most; n++ {
		if r.k.CloseIdle() == 0 {
			return n
		}
	}
	return -1
}

// served is one request and its answer.
func (r *rested) served() {
	r.t.Helper()
	r.says("request")
	r.hears("request")
	r.is(http.StateActive)
	r.wantOpen("a request")
	r.is(http.StateIdle)
}

// wantOpen sends an answer.
func (r *rested) wantOpen(after string) {
	r.t.Helper()
	if _, err := io.WriteString(r.server, "answer"); err != nil {
		r.t.Fatalf("%s: it was closed: %v", after, err)
	}
	b := make([]byte, len("answer"))
	if _, err := io.ReadFull(r.client, b); err != nil {
		r.t.Fatalf("%s: %v", after, err)
	}
}

func (r *rested) wantClosed() {
	r.t.Helper()
	if n, err := r.client.Read(make([]byte, 1)); err != io.EOF {
		r.t.Errorf("the client reads %d bytes: %v, want the end", n, err)
	}
}

func TestDrainClosesAnIdleConnection(t *testing.T) {
	r := newRested(t)
	r.served()
	if n := r.looks(3); n != 2 {
		t.Errorf("%d looks, want 2: at the second nothing has changed", n)
	}
	r.wantClosed()
}

// TestDrainClosesAll: all that rest are closed, and one that works neither keeps them nor is forgotten.
func TestDrainClosesAll(t *testing.T) {
	k := new(Drainer)
	var all []*rested
	for range 4 {
		r := newRestedOf(t, k)
		r.served()
		all = append(all, r)
	}
	all[1].is(http.StateActive)
	if first, second := k.CloseIdle(), k.CloseIdle(); first != 4 || second != 1 {
		t.Errorf("%d are left, and at the second look %d, want 4 and 1", first, second)
	}
	all[1].wantOpen("the last looks")
	for i, r := range all {
		if i != 1 {
			r.wantClosed()
		}
	}
}

// TestDrainSendsTheEndAtOnce: the client sees the end before the server's reader of the connection has woken up.
func TestDrainSendsTheEndAtOnce(t *testing.T) {
	r := newRested(t)
	r.served()
	reading, wake := make(chan bool), make(chan bool)
	var group sync.WaitGroup
	group.Go(func() {
		_ = socket.Bottom(r.server).(*drainConn).raw.Read(func(uintptr) bool {
			close(reading)
			<-wake
			return true
		})
	})
	<-reading
	group.Go(func() {
		if n := r.looks(3); n != 2 { // the second waits for the reader
			t.Errorf("%d looks, want 2", n)
		}
	})
	r.wantClosed()
	close(wake)
	group.Wait()
}

func TestDrainWaitsForAnUnusedConnection(t *testing.T) {
	r := newRested(t)
	if n := r.looks(1000); n != unusedCalls+1 {
		t.Errorf("%d looks, want %d", n, unusedCalls+1)
	}
	r.wantClosed()
	r = newRested(t)
	r.looks(unusedCalls)
	r.says("han")
	r.hears("han") // a part of a handshake, or of a header
	if n := r.looks(1000); n != unusedCalls+1 {
		t.Errorf("after a sign of life %d looks, want %d", n, unusedCalls+1)
	}
}

// TestDrainLosesNoRequest: a request is in the socket, then read but not yet parsed, then in work, then answered. Only
// then is the connection closed.
func TestDrainLosesNoRequest(t *testing.T) {
	r := newRested(t)
	r.served()
	r.k.CloseIdle()
	r.says("request")
	if n := r.looks(1000); n != -1 {
		t.Fatalf("closed at look %d with a request in the socket", n)
	}
	r.wantOpen("a request in the socket")
	r.hears("request")
	if n := r.looks(unusedCalls - 1); n != -1 {
		t.Fatalf("closed at look %d with a request that was read", n)
	}
	r.is(http.StateActive)
	if n := r.looks(1000); n != -1 {
		t.Errorf("closed, or forgotten, at look %d with a request in work", n)
	}
	r.wantOpen("a request in work")
	r.is(http.StateIdle)
	if n := r.looks(3); n != 2 {
		t.Errorf("%d looks after the answer, want 2", n)
	}
	r.wantClosed()
}

// TestDrainWaitsForTheNextRequest: a client that has its answer sends the next request while net/http is about to call
// the connection idle, and has already read some of the request.
func TestDrainWaitsForTheNextRequest(t *testing.T) {
	r := newRested(t)
	r.says("request")
	r.hears("request")
	r.is(http.StateActive)
	r.wantOpen("a request")
	r.says("req")
	r.hears("req")
	r.is(http.StateIdle)
	if n := r.looks(unusedCalls); n != -1 {
		t.Errorf("closed at look %d with a part of a request read", n)
	}
}

func TestDrainOfAClosedConnection(t *testing.T) {
	r := newRested(t)
	r.client.Close()
	r.arrives()
	if n := r.looks(1); n != 1 {
		t.Error("one that the client has closed is still there")
	}
	r = newRested(t)
	r.is(http.StateClosed)
	if n := r.k.CloseIdle(); n != 0 {
		t.Errorf("%d are left of one that the server has closed", n)
	}
}

// TestDrainWaitsForConnectionsWithAnAnswer: a client has its answer and sends the next request while net/http has not
// yet called the connection idle. If the server were shut down at that moment, net/http would close the connection.
func TestDrainWaitsForConnectionsWithAnAnswer(t *testing.T) {
	var k Drainer
	idle := make(chan bool)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") }))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateIdle {
			<-idle
		}
	}
	k.Attach(s.Config)
	s.Listener = k.Listener(s.Listener)
	s.Start()
	defer s.Close()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	ask := func() {
		t.Helper()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	if n := k.CloseIdle(); n != 1 {
		t.Errorf("%d connections are left, want 1: its client has an answer that does not end it", n)
	}
	close(idle)
	ask()
}

// TestDrainFindsConnectionsBelowTLS: connections are found below TLS; those of HTTP/2 are left.
func TestDrainFindsConnectionsBelowTLS(t *testing.T) {
	for _, test := range []struct {
		name     string
		tls, two bool
	}{{"plain", false, false}, {"TLS", true, false}, {"HTTP/2", true, true}} {
		t.Run(test.name, func(t *testing.T) {
			var k Drainer
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
			limiter := new(Limiter)
			limiter.Attach(s.Config)
			k.Attach(s.Config)
			s.Listener, s.EnableHTTP2 = limiter.Listener(k.Listener(s.Listener)), test.two
			if test.tls {
				s.StartTLS()
			} else {
				s.Start()
			}
			defer s.Close()
			res, err := s.Client().Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			if err != nil || (string(text) == "HTTP/2.0") != test.two {
				t.Fatalf("%s, %v", text, err)
			}
			if test.two {
				for range 1000 {
					if n := k.CloseIdle(); n != 0 {
						t.Fatalf("%d connections of HTTP/2 are at rest", n)
					}
				}
				if res, err := s.Client().Get(s.URL); err != nil {
					t.Error("after it: ", err)
				} else {
					res.Body.Close()
				}
				return
			}
			waittest.Until(t, "the end of all connections", func() bool {
				k.CloseIdle()
				k.mu.Lock()
				defer k.mu.Unlock()
				return len(k.all) == 0
			})
		})
	}
}

// TestDrainCountsReadsBelowTLS: bytes below TLS count as come.
func TestDrainCountsReadsBelowTLS(t *testing.T) {
	r := newRested(t)
	s := tls.Server(r.server, &tls.Config{})
	r.says(strings.Repeat("x", 5))
	if _, err := bufio.NewReader(s).ReadByte(); err == nil {
		t.Fatal("x is no TLS")
	}
	if c := socket.Bottom(s).(*drainConn); c.reads.Load() == 0 {
		t.Error("what TLS has read is not counted")
	}
}
