package gate_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/gate"
)

// pair is a connection that tells whether it was closed.
type pair struct {
	net.Conn
	closed atomic.Bool
}

func (p *pair) Close() error {
	p.closed.Store(true)
	return nil
}

// crowd is connections of a server with a bound, by name.
type crowd struct {
	t      *testing.T
	conns  gate.Conns
	server http.Server
	gone   int
	all    map[string]*pair
}

func newCrowd(t *testing.T, most int) *crowd {
	c := &crowd{t: t, all: make(map[string]*pair)}
	c.conns = gate.Conns{Max: most, Closed: func() { c.gone++ }}
	c.server.Handler = http.NotFoundHandler()
	c.conns.Attach(&c.server)
	return c
}

// answers has a request on a connection served.
func (c *crowd) answers(name string, major int) {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.ProtoMajor = major
	c.server.Handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(c.server.ConnContext(r.Context(), c.all[name])))
}

func (c *crowd) comes(names ...string) {
	for _, name := range names {
		c.all[name] = new(pair)
		c.is(http.StateNew, name)
	}
}

func (c *crowd) is(state http.ConnState, names ...string) {
	for _, name := range names {
		c.server.ConnState(c.all[name], state)
	}
}

func (c *crowd) arrived(names ...string) {
	for _, name := range names {
		gate.Arrived(c.server.ConnContext(context.Background(), c.all[name]))
	}
}

// want says who had to go, altogether.
func (c *crowd) want(names ...string) {
	c.t.Helper()
	gone := make(map[string]bool)
	for _, name := range names {
		gone[name] = true
	}
	for name, p := range c.all {
		if p.closed.Load() != gone[name] {
			c.t.Errorf("%s is closed: %t, want %t", name, p.closed.Load(), gone[name])
		}
	}
	if c.gone != len(names) {
		c.t.Errorf("%d had to go, want %d", c.gone, len(names))
	}
}

func TestConns(t *testing.T) {
	t.Run("at the bound", func(t *testing.T) {
		for n := 2; n <= 4; n++ { // 3 - 1, 3, 3 + 1
			c := newCrowd(t, 3)
			for i := range n {
				c.comes(fmt.Sprint(i))
			}
			if n > 3 {
				c.want("0")
			} else {
				c.want()
			}
			if got := c.conns.Len(); got != min(n, 3) {
				t.Errorf("%d of %d are there", got, n)
			}
		}
	})
	t.Run("the slowest goes first, then the one idle longest", func(t *testing.T) {
		c := newCrowd(t, 5)
		c.comes("idle", "later idle", "silent", "slow body", "works")
		c.is(http.StateActive, "later idle", "idle", "slow body", "works")
		c.arrived("works", "idle", "later idle")
		c.is(http.StateIdle, "idle")
		c.is(http.StateIdle, "later idle")
		c.comes("a")
		c.want("silent")
		c.is(http.StateActive, "a")
		c.arrived("a")
		c.comes("b")
		c.want("silent", "slow body")
		c.is(http.StateActive, "b")
		c.arrived("b")
		c.comes("c")
		c.want("silent", "slow body", "idle")
		c.is(http.StateActive, "c")
		c.arrived("c")
		c.comes("d")
		c.want("silent", "slow body", "idle", "later idle")
	})
	t.Run("none that works", func(t *testing.T) {
		c := newCrowd(t, 2)
		c.comes("a", "b")
		c.is(http.StateActive, "a", "b")
		c.arrived("a", "b")
		c.comes("c")
		c.want("c")
		c.is(http.StateClosed, "c", "a")
		c.comes("d")
		c.want("c")
	})
	t.Run("a second request begins anew", func(t *testing.T) {
		c := newCrowd(t, 2)
		c.comes("a", "b")
		c.is(http.StateActive, "a")
		c.arrived("a")
		c.is(http.StateIdle, "a")
		c.is(http.StateActive, "a") // after b came
		c.comes("c")
		c.want("b")
		c.comes("d")
		c.want("b", "a")
	})
	t.Run("requests that overlap are not one that is slow", func(t *testing.T) {
		c := newCrowd(t, 3)
		c.comes("overlaps", "a", "b")
		c.is(http.StateActive, "overlaps")
		c.answers("overlaps", 2)
		c.comes("c")
		c.want("a")
		c.comes("d", "e")
		c.want("a", "b", "overlaps") // it had nothing answered since
		c.answers("c", 1)
		c.comes("f")
		c.want("a", "b", "overlaps", "c")
	})
	t.Run("the first byte gives no more time", func(t *testing.T) {
		c := newCrowd(t, 2)
		c.comes("a", "b")
		c.is(http.StateActive, "a")
		c.comes("c")
		c.want("a")
	})
	t.Run("one of several requests is answered, the others are in work", func(t *testing.T) {
		c := newCrowd(t, 2)
		c.comes("a", "b")
		c.is(http.StateActive, "a", "b")
		c.arrived("a", "b")
		c.answers("a", 2)
		c.comes("c")
		c.want("c")
	})
	t.Run("no farewell is said", func(t *testing.T) {
		c := newCrowd(t, 1)
		below := new(pair)
		c.server.ConnState(polite{below, t}, http.StateNew)
		c.comes("a")
		if !below.closed.Load() || c.gone != 1 {
			t.Errorf("closed: %t, %d had to go", below.closed.Load(), c.gone)
		}
	})
	t.Run("those that have gone are forgotten", func(t *testing.T) {
		c := newCrowd(t, 2)
		c.comes("a", "b", "c")
		c.is(http.StateIdle, "a")
		c.is(http.StateClosed, "a", "b", "c")
		c.arrived("b")
		if n := c.conns.Len(); n != 0 {
			t.Errorf("%d are there", n)
		}
	})
}

// polite is a connection whose end may take its time: whoever accepts the next one would
// have to wait for it.
type polite struct {
	*pair
	t *testing.T
}

func (p polite) NetConn() net.Conn { return p.pair }

func (p polite) Close() error {
	p.t.Error("the end waits for the other side")
	return nil
}

// TestOffer: so many connections get HTTP/2 as may have it, and those that come then
// HTTP/1.1 and are looked at no less. A place is free again when its connection has ended,
// in the handshake or later.
func TestOffer(t *testing.T) {
	const many = 3
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.EnableHTTP2 = true
	s.StartTLS() // for its certificate, and that HTTP/2 is set up
	defer s.Close()
	conns := &gate.Conns{Max: 100, Many: many}
	server := &http.Server{Handler: http.NotFoundHandler()}
	conns.Attach(server)
	ended, follow := make(chan bool, 100), server.ConnState
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if follow(c, state); state == http.StateClosed {
			ended <- true
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	looked := make(chan string, 100)
	given := &tls.Config{
		Certificates: s.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}, ClientAuth: tls.RequestClientCert,
		VerifyConnection: func(state tls.ConnectionState) error {
			looked <- state.NegotiatedProtocol
			return nil
		},
	}
	offer := conns.Offer(given)
	if given.GetConfigForClient != nil {
		t.Error("the configuration that was given is another now")
	}
	go func() { _ = server.Serve(tls.NewListener(l, offer)) }() // ends with the test
	defer server.Close()
	sessions := tls.NewLRUClientSessionCache(1)
	asked := false
	dial := func(protos ...string) (*tls.Conn, error) {
		return tls.Dial("tcp", l.Addr().String(), &tls.Config{
			InsecureSkipVerify: true, NextProtos: protos, ClientSessionCache: sessions,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				asked = true
				return new(tls.Certificate), nil
			},
		})
	}
	comes := func(want string, protos ...string) net.Conn {
		t.Helper()
		c, err := dial(protos...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		state := c.ConnectionState()
		if got := state.NegotiatedProtocol; got != want {
			t.Errorf("offered %v: %q, want %q", protos, got, want)
		}
		select {
		case got := <-looked:
			if got != want {
				t.Errorf("offered %v: the server saw %q, want %q", protos, got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("offered %v: nobody looked at the connection", protos)
		}
		if !asked && !state.DidResume {
			t.Errorf("offered %v: no certificate was asked for", protos)
		}
		asked = false
		return c
	}
	for range many {
		comes("http/1.1", "http/1.1") // takes no place
		comes("", []string{}...)
	}
	for range many - 1 {
		comes("h2", "h2", "http/1.1")
	}
	last := comes("h2", "h2")
	comes("http/1.1", "h2", "http/1.1")
	if c, err := dial("h2"); err == nil {
		c.Close()
		t.Error("a client that speaks nothing else got HTTP/2 where it is one too many")
	}
	<-ended
	last.Close()
	<-ended
	for range 2 { // who takes the place and never ends the handshake
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		half := tls.Client(&cut{Conn: c}, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err := half.Handshake(); err == nil {
			t.Fatal("the handshake came to an end")
		}
		c.Close()
		<-ended
	}
	c := comes("h2", "h2")
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 100)); n == 0 {
		t.Errorf("no frame in answer: %v", err)
	}
	if (*gate.Conns)(nil).Offer(offer) != offer {
		t.Error("without a bound another configuration is offered")
	}
}

// cut is a connection on which nothing comes.
type cut struct{ net.Conn }

func (c *cut) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestSlowloris: connections that send half a request are no hindrance.
func TestSlowloris(t *testing.T) {
	const most = 20
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
		gate.Arrived(r.Context())
	}))
	conns := &gate.Conns{Max: most}
	conns.Attach(s.Config)
	s.Start()
	defer s.Close()
	for i := range 5 * most {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		half := "POST / HTTP/1.1\r\nHost: x\r\nX-A: "
		if i%2 == 1 {
			half = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
		}
		if _, err := io.WriteString(c, half); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(res.Body); string(got) != "ok" {
			t.Errorf("answer %q", got)
		}
	}
	if n := conns.Len(); n > most {
		t.Errorf("%d connections, at most %d may be", n, most)
	}
}
