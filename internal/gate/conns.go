package gate

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/openthreeds/threeds/internal/socket"
)

// Conns bounds the connections of an [http.Server]. When there are too many, one goes on which no request is in
// work: that whose request has been longest in coming, else that which has been
// idle longest. So those who hold many and send little push out their own, while
// who has something to say gets in and says it. Only when requests are in work on
// all of them, the new one has to go.
type Conns struct {
	Max    int
	Many   int    // how many of those of TLS may be of HTTP/2, each with many requests at once
	Closed func() // is called for each that had to go; nil: nobody is

	mu     sync.Mutex
	known  map[net.Conn]*place
	many   map[net.Conn]bool // those that were offered HTTP/2, by what was accepted
	coming list.List         // whose request has not come completely, the oldest first
	idle   list.List         // between requests, idle longest first
}

// place is where a connection is: in one of the lists, or at work and in none.
type place struct {
	in *list.List
	at *list.Element
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

// follow returns the connection that has to go, if one has to.
func (c *Conns) follow(conn net.Conn, state http.ConnState) (gone net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		return c.add(conn)
	case http.StateActive:
		if p := c.known[conn]; p != nil && p.in != &c.coming {
			c.move(conn, &c.coming)
		}
	case http.StateIdle:
		c.move(conn, &c.idle)
	case http.StateHijacked, http.StateClosed:
		c.remove(conn)
	}
	return nil
}

// add takes a new connection in; it returns the one that has to go for it, or
// itself.
func (c *Conns) add(conn net.Conn) (gone net.Conn) {
	if len(c.known) >= c.Max {
		first := c.coming.Front()
		if first == nil {
			first = c.idle.Front()
		}
		if first == nil {
			return conn
		}
		gone = first.Value.(net.Conn)
		c.remove(gone)
	}
	if c.known == nil {
		c.known = make(map[net.Conn]*place)
	}
	c.known[conn] = new(place)
	c.move(conn, &c.coming)
	return gone
}

// move puts a connection at the end of a list, or in none; one that has gone
// stays where it is.
func (c *Conns) move(conn net.Conn, to *list.List) {
	p := c.known[conn]
	if p == nil {
		return
	}
	if p.in != nil {
		p.in.Remove(p.at)
	}
	if p.in = to; to != nil {
		p.at = to.PushBack(conn)
	}
}

func (c *Conns) remove(conn net.Conn) {
	c.move(conn, nil)
	delete(c.known, conn)
	delete(c.many, socket.Bottom(conn))
}
