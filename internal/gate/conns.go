package gate

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/socket"
)

// Conns limits the connections of an [http.Server]. At the limit a new connection evicts the one that has been silent
// longest: since its last request was answered, or since its handshake or request began to come. So clients that keep
// many connections and send little evict their own. Bytes that come one by one do not end a silence.
//
// A connection that is new, or whose handshake or request is coming, is not evicted before connectTime is over. A
// connection with a request in work is never evicted. If none can be evicted, the new connection is closed.
type Conns struct {
	Max    int
	Many   int    // how many of those of TLS may be of HTTP/2, each with many requests at once
	Closed func() // is called for each connection that is evicted or closed; may be nil

	mu     sync.Mutex
	known  map[net.Conn]*place
	many   map[net.Conn]bool // those that were offered HTTP/2, by what was accepted
	coming list.List         // places of connections that are new, or whose handshake or request is coming, by since
	idle   list.List         // places of connections between two requests, by since
}

// connectTime is how long a connection is safe from eviction after it was accepted, and after its handshake or a
// request on it began. A TCP and a TLS handshake take two or three round trips, so it is enough for clients that are
// a third of a second away. Who wants to fill the limit with new connections has to open all of them again each
// second.
const connectTime = time.Second

// A place is where a connection is: in one of the lists, or in none while a request is in work.
type place struct {
	conn    net.Conn
	in      *list.List
	at      *list.Element
	since   time.Time // when it was put there
	greeted bool      // it speaks HTTP/2, and the pair of states at its beginning is over
}

// Attach has a server, which has its handler, follow the bound. A nil Conns is none.
func (c *Conns) Attach(s *http.Server) {
	if c == nil {
		return
	}
	hook(s, c.connState, c.connContext)
	handler := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
		if r.ProtoMajor >= 2 {
			answered(r.Context())
		}
	})
}

// h2 is HTTP/2 in a handshake.
const h2 = "h2"

// Offer returns a configuration of TLS that offers HTTP/2 as config does, but no
// more than Many connections at once. Who comes then gets HTTP/1.1 and is none the
// worse for it, and who sends hundreds of requests on each of thousands of connections
// cannot. The connections have to be those of a server that follows the bound. A nil
// Conns offers what config does.
func (c *Conns) Offer(config *tls.Config) *tls.Config {
	if c == nil {
		return config
	}
	less := config.Clone()
	less.NextProtos = slices.DeleteFunc(slices.Clone(config.NextProtos), func(proto string) bool { return proto == h2 })
	config = config.Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, h2) && !c.admit(socket.Bottom(hello.Conn)) {
			return less, nil
		}
		return nil, nil
	}
	return config
}

// admit reports whether a connection may have HTTP/2. It has a place from now on, until
// it is closed, for by the end of its handshake a thousand others may have come.
func (c *Conns) admit(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.many) >= c.Many {
		return false
	}
	if c.many == nil {
		c.many = make(map[net.Conn]bool)
	}
	c.many[conn] = true
	return true
}

// answered says of a connection with several requests at once that one is over: if
// those that are left are still coming, their time counts from now on. Such a
// connection may not be idle for hours.
func answered(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(conned); ok {
		c.all.mu.Lock()
		defer c.all.mu.Unlock()
		if p := c.all.known[c.conn]; p != nil && p.in == &c.all.coming {
			c.all.move(c.conn, &c.all.coming)
		}
	}
}

func (c *Conns) connState(conn net.Conn, state http.ConnState) {
	gone := c.follow(conn, state)
	if gone == nil {
		return
	}
	_ = socket.Bottom(gone).Close() // a farewell of TLS might have to wait
	if c.Closed != nil {
		c.Closed()
	}
}

type connKey struct{}

// conned is a connection in the context of its requests.
type conned struct {
	all  *Conns
	conn net.Conn
}

// connContext lets Arrived find the connection of a request.
func (c *Conns) connContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conned{c, conn})
}

// Arrived says of the request of a context that all of it has come: its
// connection is at work until it is idle again.
func Arrived(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(conned); ok {
		c.all.mu.Lock()
		defer c.all.mu.Unlock()
		c.all.move(c.conn, nil)
	}
}

// follow notes the state of a connection, and returns the connection to close, if any.
func (c *Conns) follow(conn net.Conn, state http.ConnState) (gone net.Conn) {
	multiplexed := (state == http.StateActive || state == http.StateIdle) && isHTTP2(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		return c.add(conn)
	case http.StateActive:
		if p := c.known[conn]; p != nil && (multiplexed || p.in != &c.coming) {
			c.move(conn, &c.coming)
		}
	case http.StateIdle:
		// net/http calls a connection of HTTP/2 active and idle before its first request.
		if p := c.known[conn]; p != nil && multiplexed && !p.greeted {
			p.greeted = true
			return nil
		}
		c.move(conn, &c.idle)
		if p := patientOf(conn); p != nil && !multiplexed {
			p.expected.Store(true)
		}
	case http.StateHijacked, http.StateClosed:
		c.remove(conn)
	}
	return nil
}

// isHTTP2 reports whether a connection speaks HTTP/2. Its handshake must be over.
func isHTTP2(conn net.Conn) bool {
	secured, ok := conn.(*tls.Conn)
	return ok && secured.ConnectionState().NegotiatedProtocol == h2
}

// add takes a new connection in. It returns the connection that is evicted for it, or the new one if none can be.
func (c *Conns) add(conn net.Conn) (gone net.Conn) {
	if len(c.known) >= c.Max {
		longest := c.silentLongest(time.Now())
		if longest == nil {
			return conn
		}
		gone = longest.conn
		c.remove(gone)
	}
	if c.known == nil {
		c.known = make(map[net.Conn]*place)
	}
	c.known[conn] = &place{conn: conn}
	c.move(conn, &c.coming)
	if p := patientOf(conn); p != nil {
		p.heard = func() { c.begin(conn) }
	}
	return gone
}

// silentLongest returns the place of the connection to evict; nil means that none may be evicted.
func (c *Conns) silentLongest(now time.Time) *place {
	idle, coming := first(&c.idle), first(&c.coming)
	if coming == nil || now.Sub(coming.since) < connectTime {
		return idle
	}
	if idle == nil || coming.since.Before(idle.since) {
		return coming
	}
	return idle
}

// first returns the first place of a list; nil means that the list is empty.
func first(l *list.List) *place {
	if front := l.Front(); front != nil {
		return front.Value.(*place)
	}
	return nil
}

// begin notes that the first byte of a handshake or a request has come on a connection.
func (c *Conns) begin(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.known[conn]; p != nil && p.in != nil {
		c.move(conn, &c.coming)
	}
}

// move puts a connection at the end of a list, or in none if to is nil. A connection that is not known stays so.
func (c *Conns) move(conn net.Conn, to *list.List) {
	p := c.known[conn]
	if p == nil {
		return
	}
	if p.in != nil {
		p.in.Remove(p.at)
	}
	if p.in = to; to != nil {
		p.at, p.since = to.PushBack(p), time.Now()
	}
}

func (c *Conns) remove(conn net.Conn) {
	c.move(conn, nil)
	delete(c.known, conn)
	delete(c.many, socket.Bottom(conn))
}

// hook adds state and within to the ConnState and ConnContext of a server, after those
// that it has; within may be nil.
func hook(s *http.Server, state func(net.Conn, http.ConnState), within func(context.Context, net.Conn) context.Context) {
	if before := s.ConnState; before != nil {
		after := state
		state = func(c net.Conn, to http.ConnState) {
			before(c, to)
			after(c, to)
		}
	}
	s.ConnState = state
	if within == nil {
		return
	}
	if before := s.ConnContext; before != nil {
		after := within
		within = func(ctx context.Context, c net.Conn) context.Context { return after(before(ctx, c), c) }
	}
	s.ConnContext = within
}
