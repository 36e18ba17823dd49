package listen_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/edge/listen"
)

// fakeConn is a connection that records whether it was closed.
type fakeConn struct {
	net.Conn
	closed atomic.Bool
}

func (c *fakeConn) Close() error {
	c.closed.Store(true)
	return nil
}

// crowd is the connections of a server with a limiter, by name.
type crowd struct {
	t        *testing.T
	limiter  listen.Limiter
	server   http.Server
	gone     int
	fakes    map[string]*fakeConn
	accepted map[string]net.Conn // as the server knows them
}

func newCrowd(t *testing.T, most int) *crowd {
	c := &crowd{t: t, fakes: make(map[string]*fakeConn), accepted: make(map[string]net.Conn)}
	c.limiter = listen.Limiter{Max: most, Closed: func() { c.gone++ }}
	c.server.Handler = http.NotFoundHandler()
	c.limiter.Attach(&c.server)
	return c
}

// answers has a request on a connection served.
func (c *crowd) answers(name string, major int) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("a body that is not read"))
	r.ProtoMajor = major
	c.server.Handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(c.server.ConnContext(r.Context(), c.wrapped(name))))
}

func (c *crowd) comes(names ...string) {
	for _, name := range names {
		c.fakes[name] = new(fakeConn)
		c.is(http.StateNew, name)
	}
}

// wrapped returns a connection as the server knows it.
func (c *crowd) wrapped(name string) net.Conn {
	if c.accepted[name] == nil {
		c.accepted[name] = c.limiter.Wrap(c.fakes[name])
	}
	return c.accepted[name]
}

func (c *crowd) is(state http.ConnState, names ...string) {
	for _, name := range names {
		c.server.ConnState(c.wrapped(name), state)
	}
}

func (c *crowd) arrived(names ...string) {
	for _, name := range names {
		c.limiter.Begin(c.wrapped(name))
	}
}

// want says who had to go, altogether.
func (c *crowd) want(names ...string) {
	c.t.Helper()
	gone := make(map[string]bool)
	for _, name := range names {
		gone[name] = true
	}
	for name, p := range c.fakes {
		if p.closed.Load() != gone[name] {
			c.t.Errorf("%s is closed: %t, want %t", name, p.closed.Load(), gone[name])
		}
	}
	if c.gone != len(names) {
		c.t.Errorf("%d had to go, want %d", c.gone, len(names))
	}
}

// TestEvictionAtTheLimit checks which connection is evicted when there is one too many. A connection that is new, or on
// which something is coming, is safe for a second. Otherwise the one that has been silent longest is evicted.
func TestEvictionAtTheLimit(t *testing.T) {
	for _, test := range []struct {
		name string
		play func(c *crowd)
	}{
		{"below the limit nothing is evicted", func(c *crowd) {
			c.comes("a", "b")
			c.want()
		}},
		{"at the limit nothing is evicted", func(c *crowd) {
			c.comes("a", "b", "c")
			c.want()
			time.Sleep(second)
			c.comes("d")
			c.want("a")
			if got := c.limiter.Len(); got != 3 {
				c.t.Errorf("%d are there, want 3", got)
			}
		}},
		{"the connection idle longest goes", func(c *crowd) {
			c.comes("a", "b", "c")
			c.serves("b")
			time.Sleep(tick)
			c.serves("c")
			time.Sleep(tick)
			c.serves("a")
			time.Sleep(tick)
			c.comes("d", "e", "f")
			c.want("b", "c", "a")
		}},
		{"a new connection has a second", func(c *crowd) {
			c.comes("a", "b", "c")
			time.Sleep(second - tick)
			c.comes("d")
			c.want("d")
			time.Sleep(tick)
			c.comes("e")
			c.want("d", "a")
		}},
		{"a new connection goes before an idle one that was served since", func(c *crowd) {
			c.comes("a", "b", "c")
			time.Sleep(second)
			c.serves("a", "b")
			c.comes("d")
			c.want("c")
		}},
		{"a new connection is safe while older ones are idle", func(c *crowd) {
			c.comes("a", "b")
			c.serves("a", "b")
			time.Sleep(tick)
			c.comes("c")
			time.Sleep(time.Minute)
			c.comes("d", "e", "f")
			c.want("a", "b", "c")
		}},
		{"an idle connection has no second", func(c *crowd) {
			c.comes("a", "b", "c")
			c.serves("a")
			c.comes("d")
			c.want("a")
		}},
		{"a slow body goes once it has been coming longest", func(c *crowd) {
			c.comes("slow")
			c.is(http.StateActive, "slow")
			time.Sleep(second)
			c.comes("a", "b")
			c.serves("a")
			c.comes("c")
			c.want("slow")
		}},
		{"requests in work stay, and the new connection goes", func(c *crowd) {
			c.comes("a", "b", "c")
			c.is(http.StateActive, "a", "b", "c")
			c.arrived("a", "b", "c")
			time.Sleep(time.Minute)
			c.comes("d")
			c.want("d")
			c.is(http.StateClosed, "d", "a")
			c.comes("e")
			c.want("d")
		}},
		{"a second request on a connection has a second of its own", func(c *crowd) {
			c.comes("a", "b", "c")
			c.serves("a", "b", "c")
			time.Sleep(time.Minute)
			c.is(http.StateActive, "a")
			c.comes("d")
			c.want("b")
			c.comes("e", "f")
			c.want("b", "c", "f")
			time.Sleep(second)
			c.comes("g")
			c.want("b", "c", "f", "a")
		}},
		{"what comes bit by bit gives no more time", func(c *crowd) {
			c.comes("a", "b", "c")
			time.Sleep(second - tick)
			c.is(http.StateActive, "a")
			time.Sleep(tick)
			c.comes("d")
			c.want("a")
		}},
		{"overlapping requests are not one slow request", func(c *crowd) {
			c.comes("overlaps", "a", "b")
			c.is(http.StateActive, "overlaps")
			time.Sleep(second)
			c.answers("overlaps", 2)
			c.comes("c")
			c.want("a")
			time.Sleep(second - tick)
			c.comes("d")
			c.want("a", "b")
			time.Sleep(tick)
			c.comes("e")
			c.want("a", "b", "overlaps") // it had nothing answered since
		}},
		{"an answer of HTTP/1.1 alone moves nothing", func(c *crowd) {
			c.comes("a", "b", "c")
			time.Sleep(second)
			c.answers("a", 1)
			c.comes("d")
			c.want("a")
		}},
		{"one of several requests is answered, the others are in work", func(c *crowd) {
			c.comes("a", "b", "c")
			c.is(http.StateActive, "a", "b", "c")
			c.arrived("a", "b", "c")
			time.Sleep(second)
			c.answers("a", 2)
			c.comes("d")
			c.want("d")
		}},
		{"the end of TLS is not waited for", func(c *crowd) {
			below := new(fakeConn)
			c.server.ConnState(slowToClose{c.limiter.Wrap(below), c.t}, http.StateNew)
			time.Sleep(second)
			c.comes("a", "b", "c")
			if !below.closed.Load() || c.gone != 1 {
				c.t.Errorf("closed: %t, %d had to go", below.closed.Load(), c.gone)
			}
		}},
		{"closed connections are forgotten", func(c *crowd) {
			c.comes("a", "b", "c", "d")
			c.is(http.StateIdle, "a")
			c.is(http.StateClosed, "a", "b", "c", "d")
			c.arrived("b")
			if n := c.limiter.Len(); n != 0 {
				c.t.Errorf("%d are there", n)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.play(newCrowd(t, 3)) })
		})
	}
}

// second is how long a connection may take until its request has come, tick a moment that is noticed.
const (
	second = time.Second
	tick   = time.Nanosecond
)

// serves has each connection get a request, and an answer.
func (c *crowd) serves(names ...string) {
	c.is(http.StateActive, names...)
	c.is(http.StateIdle, names...)
}

// slowToClose is a connection whose Close may wait for the other side, as that of TLS does. If the accept loop called
// it, the next connection would have to wait too.
type slowToClose struct {
	net.Conn
	t *testing.T
}

func (c slowToClose) NetConn() net.Conn { return c.Conn }

func (c slowToClose) Close() error {
	c.t.Error("the limiter waits for the other side")
	return nil
}

// TestHTTP2IsOfferedToSoMany: MaxHTTP2 connections get HTTP/2, and later ones HTTP/1.1, with the same checks of the
// client. A connection counts until it has ended, in the handshake or later.
func TestHTTP2IsOfferedToSoMany(t *testing.T) {
	const many = 3
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.EnableHTTP2 = true
	s.StartTLS() // for its certificate, and that HTTP/2 is set up
	defer s.Close()
	conns := &listen.Limiter{Max: 100, MaxHTTP2: many}
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
	go func() { _ = server.Serve(tls.NewListener(conns.Listener(l), offer)) }() // ends with the test
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
		if got := <-looked; got != want {
			t.Errorf("offered %v: the server saw %q, want %q", protos, got, want)
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
	if new(listen.Limiter).Offer(offer) != offer {
		t.Error("without a bound another configuration is offered")
	}
}

// cut is a connection on which nothing comes.
type cut struct{ net.Conn }

func (c *cut) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
