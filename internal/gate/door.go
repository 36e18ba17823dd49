package gate

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
)

// A Door is a listener whose connections refuse requests of class [Begin] by
// themselves, before HTTP is looked at: to refuse one through net/http takes as
// long as to answer a simple one, and under load most are refused. It looks only at
// what is plainly one whole request, in one piece. All else is passed on to the server,
// and the handler has to ask the gate, unless [Asked] says that the door has. The listener
// is that of a [Patience], with TLS on it or not.
type Door struct {
	net.Listener
	Gate   *Gate
	Line   string        // the request line, with its end
	Answer func() []byte // the whole answer; it is called for each that is refused, which it may count
	Conns  *Conns        // that bounds the connections; nil: nobody does

	left atomic.Bool
}

// Attach prepares the server that is to serve on the door.
func (d *Door) Attach(s *http.Server) { hook(s, d.connState, d.connContext) }

// Leave has the door pass on all that comes from now on. When a server is about to end
// each answer has to close its connection, which those of the door do not.
func (d *Door) Leave() { d.left.Store(true) }

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

// Accept implements [net.Listener]. Connections of TLS are not ours to read.
func (d *Door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if p, ok := c.(*patient); ok {
		return d.guard(p), nil
	}
	return c, err
}

func (d *Door) guard(c *patient) *guarded {
	g := &guarded{patient: c, door: d}
	g.fresh.Store(true)
	return g
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
	*patient
	door  *Door
	fresh atomic.Bool // what comes next is the beginning of a request
	asked atomic.Bool // the gate was asked about it
	room  int         // size of the server's read buffer: the most it has asked Read for
}

// NetConn is the connection behind the door.
func (g *guarded) NetConn() net.Conn { return g.patient }

// Read returns what is not refused. While the server's read buffer still holds something,
// it asks for less than the whole buffer. Then what comes may not be the beginning of a
// request, though it looks like one, and is passed on.
func (g *guarded) Read(p []byte) (int, error) {
	for {
		n, err := g.patient.Read(p)
		if n == 0 || err != nil || !g.fresh.Load() {
			return n, err
		}
		g.room = max(g.room, len(p))
		asked := !g.door.left.Load() && len(p) == g.room && whole(p[:n], g.door.Line)
		if !asked || g.door.Gate.Admit(Begin) {
			g.fresh.Store(false)
			g.asked.Store(asked)
			return n, nil
		}
		if err := g.refuse(); err != nil {
			return 0, err
		}
	}
}

// refuse writes the answer. After it the connection counts as idle, as if the server
// had answered.
func (g *guarded) refuse() error {
	if err := g.rests(); err != nil {
		return err
	}
	_, err := g.Write(g.door.Answer())
	if k, ok := g.patient.Conn.(*kept); ok {
		k.rest.Store(k.wrote.Load())
	}
	if g.door.Conns != nil {
		g.door.Conns.follow(g, http.StateIdle)
	}
	return err
}

// whole reports whether data is exactly one request with the given request line. If
// anything in it could be read in another way, it says no.
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
