package gate

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// A Door is a listener whose connections refuse requests of class [Begin] by
// themselves, before HTTP is looked at: to refuse one through net/http takes as
// long as to answer a simple one, and under load most are refused. It takes only
// what is plainly one whole request, in one piece; all else goes on, and the
// handler has to ask the gate, unless [Door.Asked] says that it was asked.
type Door struct {
	net.Listener
	Gate   *Gate
	Line   string        // the request line, with its end
	Answer func() []byte // the whole answer; it is called for each that is refused, which it may count
	Conns  *Conns        // that bounds the connections; nil: nobody does

	idle time.Duration
}

// Attach prepares the server that is to serve on the door.
func (d *Door) Attach(s *http.Server) {
	d.idle = s.IdleTimeout
	hook(s, d.connState, d.connContext)
}

// hook adds to what a server does already; within may be nil.
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

// Accept implements [net.Listener]. Connections of TLS are not ours to read.
func (d *Door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	switch c.(type) {
	case *net.TCPConn, *kept:
		guarded := &guarded{Conn: c, door: d}
		guarded.fresh.Store(true)
		return guarded, nil
	}
	return c, err
}

// connState tells the door where a request ends.
func (d *Door) connState(c net.Conn, state http.ConnState) {
	if g, ok := c.(*guarded); ok {
		g.fresh.Store(state == http.StateNew || state == http.StateIdle)
	}
}

type guardedKey struct{}

// connContext lets Asked find the connection of a request.
func (d *Door) connContext(ctx context.Context, c net.Conn) context.Context {
	if g, ok := c.(*guarded); ok {
		return context.WithValue(ctx, guardedKey{}, g)
	}
	return ctx
}

// Asked reports, once, whether a door has let the request of a context in.
func Asked(ctx context.Context) bool {
	g, ok := ctx.Value(guardedKey{}).(*guarded)
	return ok && g.asked.Swap(false)
}

// guarded is a connection through a door.
type guarded struct {
	net.Conn
	door  *Door
	fresh atomic.Bool // what comes next is the beginning of a request
	asked atomic.Bool // the gate was asked about it
}

// NetConn is the connection behind the door.
func (g *guarded) NetConn() net.Conn { return g.Conn }

// Read returns what is not refused.
func (g *guarded) Read(p []byte) (int, error) {
	for {
		n, err := g.Conn.Read(p)
		if n == 0 || err != nil || !g.fresh.Load() {
			return n, err
		}
		if !whole(p[:n], g.door.Line) {
			g.fresh.Store(false)
			return n, nil
		}
		if g.door.Gate.Admit(Begin) {
			g.fresh.Store(false)
			g.asked.Store(true)
			return n, nil
		}
		if err := g.refuse(); err != nil {
			return 0, err
		}
	}
}

// refuse answers. Then the connection is idle, as if HTTP had answered.
func (g *guarded) refuse() error {
	if err := g.SetDeadline(time.Now().Add(g.door.idle)); err != nil {
		return err
	}
	_, err := g.Write(g.door.Answer())
	if g.door.Conns != nil {
		g.door.Conns.follow(g, http.StateIdle)
	}
	return err
}

// whole reports whether data is one request with the given line, to its end, and
// nothing in it could mean something else than it seems to: when in doubt, not.
func whole(data []byte, line string) bool {
	if !bytes.HasPrefix(data, []byte(line)) {
		return false
	}
	header, body, ok := bytes.Cut(data[len(line):], []byte("\r\n\r\n"))
	if !ok {
		return false
	}
	length := -1
	for field := range bytes.SplitSeq(header, []byte("\r\n")) {
		name, value, ok := bytes.Cut(field, []byte(":"))
		if !ok || bytes.ContainsAny(name, " \t\r\n") || bytes.ContainsAny(value, "\r\n") {
			return false
		}
		switch {
		case oneOf(name, "Connection", "Expect", "Trailer", "Transfer-Encoding", "Upgrade"):
			return false
		case oneOf(name, "Content-Length"):
			n, err := strconv.ParseUint(string(bytes.Trim(value, " \t")), 10, 16)
			if err != nil || length >= 0 {
				return false
			}
			length = int(n)
		}
	}
	return length == len(body)
}

func oneOf(name []byte, names ...string) bool {
	for _, n := range names {
		if len(n) == len(name) && bytes.EqualFold(name, []byte(n)) {
			return true
		}
	}
	return false
}
