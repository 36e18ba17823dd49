package gate

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Patience lets the first request on a connection be as long in coming as the next one.
// net/http counts the time for a header from the beginning of a connection, or from the
// end of its handshake. But clients and balancers open connections before they have a
// request for them, and one that finds its connection closed as it sends cannot know
// whether the request was taken. Here the time for a handshake, and for the first
// request, counts from its first byte.
//
// All connections have to be accepted through Listener, below TLS, and the
// server told by Attach.
type Patience struct {
	header, arrival, rest time.Duration // the bounds of the server; 0: none
}

// Attach takes the bounds of a server, and has it follow them.
func (p *Patience) Attach(s *http.Server) {
	p.header, p.arrival, p.rest = s.ReadHeaderTimeout, s.ReadTimeout, s.IdleTimeout
	hook(s, follow, nil)
}

// Listener returns l with connections that may be silent.
func (p *Patience) Listener(l net.Listener) net.Listener { return patientListener{l, p} }

type patientListener struct {
	net.Listener
	of *Patience
}

func (l patientListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	p := &patient{Conn: c, of: l.of}
	p.expected.Store(true)
	return p, nil
}

// patient is a connection.
type patient struct {
	net.Conn
	of    *Patience
	stage atomic.Int32
	began time.Time // when the handshake or the first request did; for the goroutine that serves the connection

	// heard is called when the first byte of a handshake or a request comes. [Conns] sets it before the connection is
	// served; nil means that there is no limit.
	heard    func()
	expected atomic.Bool // the next byte is such a first byte
}

// The stages of a connection.
const (
	silent    int32 = iota // nothing has come, or nothing since the handshake
	handshake              // a handshake has begun
	begun                  // the first request has begun
	served                 // net/http has read a request, and from now on counts right
)

// NetConn is the connection that may be silent.
func (c *patient) NetConn() net.Conn { return c.Conn }

// CloseWrite sends the end, as net/http does before it leaves a request that it has
// answered and does not read to its end: else the client may lose the answer.
func (c *patient) CloseWrite() error {
	if below, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return below.CloseWrite()
	}
	return nil
}

// Read notes when a handshake or the first request begins.
func (c *patient) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.heard != nil && c.expected.Load() && c.expected.CompareAndSwap(true, false) {
		c.heard()
	}
	if n > 0 && c.stage.Load() == silent {
		return n, cmp.Or(err, c.begin(p[0]))
	}
	return n, err
}

// begin gives the handshake or request that begins with a byte its time. Of a handshake
// net/http also bounds the writing.
func (c *patient) begin(first byte) error {
	const record = 22 // of TLS, of a handshake
	c.began = time.Now()
	if first == record {
		c.stage.Store(handshake)
		return c.Conn.SetDeadline(within(c.began, c.of.header))
	}
	c.stage.Store(begun)
	return c.Conn.SetReadDeadline(within(c.began, c.of.header))
}

// within is the end of a time that began; none if it is not bounded.
func within(began time.Time, d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return began.Add(d)
}

// SetReadDeadline implements [net.Conn]. Until a request is read, net/http sets deadlines
// that it counts from the beginning of the connection.
func (c *patient) SetReadDeadline(t time.Time) error {
	switch c.stage.Load() {
	case silent:
		if !t.IsZero() {
			t = within(time.Now(), c.of.rest)
		}
	case handshake:
		if t.IsZero() { // it is over
			c.stage.Store(silent)
			c.expected.Store(true)
		}
	case begun:
		t = within(c.began, c.of.arrival)
	}
	return c.Conn.SetReadDeadline(t)
}

// follow notes that net/http has read a request, or the beginning of HTTP/2.
func follow(conn net.Conn, state http.ConnState) {
	if state != http.StateActive {
		return
	}
	c := patientOf(conn)
	if c == nil {
		return
	}
	stage := c.stage.Swap(served)
	secured, ok := conn.(*tls.Conn)
	if !ok || stage == served {
		return
	}
	// To set a deadline fails if the connection is closed already.
	switch {
	case secured.ConnectionState().NegotiatedProtocol == h2:
		_ = c.Conn.SetReadDeadline(time.Time{}) // that protocol has bounds of its own, and does not touch ours
	case stage == silent: // the request came in one piece with the end of the handshake; its body may be on the way
		_ = c.Conn.SetReadDeadline(within(time.Now(), c.of.arrival))
	}
}

// patientOf finds the connection below TLS; nil: it has none.
func patientOf(conn net.Conn) *patient {
	for {
		switch c := conn.(type) {
		case *patient:
			return c
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}
