package gate

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/openthreeds/threeds/internal/socket"
)

// Kept are the connections of a server that clients keep between requests. When a
// server shuts down it closes those without a request in work, and a request that
// has come on one and was not yet looked at is lost with it: the client cannot know
// whether it was taken. Part closes them without that.
//
// It looks below TLS and HTTP, so all connections have to be accepted through
// Listener, and the server told by Attach. Those of HTTP/2 are left alone: that
// protocol has a farewell of its own.
type Kept struct {
	mu  sync.Mutex
	all map[*kept]bool
}

// kept is a connection.
type kept struct {
	*net.TCPConn
	below syscall.RawConn
	reads atomic.Int64 // how many reads have brought something
	wrote atomic.Int64 // reads, when something was last written
	rest  atomic.Int64 // reads, when the last request was answered; or busy, or fresh

	// Only Part uses these.
	lastReads, lastRest int64 // reads and rest at the last look
	same                int   // for how many looks in a row they have not changed
}

// What kept.rest holds instead of how many reads there were when the connection
// came to rest.
const (
	busy  = -1 - iota // a request is in work; or it is of HTTP/2
	fresh             // there was no request yet
)

// unusedLooks is for how many looks in a row nothing must come on a connection before
// Part closes it, if the last bytes on it may be the beginning of a request, or it is new.
// It makes the five seconds that net/http gives a new connection: a client on a busy
// machine may take more than one second from the handshake to the request.
const unusedLooks = 500

// Listener returns l with connections that can be parted with.
func (k *Kept) Listener(l net.Listener) net.Listener { return keptListener{l} }

type keptListener struct{ net.Listener }

func (l keptListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return &kept{TCPConn: tcp, below: socket.Under(tcp)}, nil
	}
	return c, err
}

// Read counts what it brings.
func (c *kept) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n > 0 {
		c.reads.Add(1)
	}
	return n, err
}

// Write notes after how many reads it comes. To note that when net/http calls the
// connection idle would be too late: a client that has its answer may have sent the next
// request by then, and net/http read it.
func (c *kept) Write(p []byte) (int, error) {
	c.wrote.Store(c.reads.Load())
	return c.TCPConn.Write(p)
}

// Attach has k follow the connections of a server.
func (k *Kept) Attach(s *http.Server) { hook(s, k.follow, nil) }

func (k *Kept) follow(conn net.Conn, state http.ConnState) {
	c, ok := socket.Bottom(conn).(*kept)
	if !ok {
		return
	}
	switch state {
	case http.StateNew:
		c.rest.Store(fresh)
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.all == nil {
			k.all = make(map[*kept]bool)
		}
		k.all[c] = true
	case http.StateActive:
		c.rest.Store(busy)
	case http.StateIdle:
		if secured, ok := conn.(*tls.Conn); !ok || secured.ConnectionState().NegotiatedProtocol != h2 {
			c.rest.Store(c.wrote.Load())
		}
	case http.StateHijacked, http.StateClosed:
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.all, c)
	}
}

// Part has a look at all connections, closes those on which nothing has come since
// the look before, and returns how many there are left at rest. It is to be called
// every ten milliseconds or so, when no new ones are accepted and each answer is the
// last on its connection, until none are left.
//
// A request can still be lost that comes in the microseconds between the look at a
// socket and its end, or that a client sends before it has noticed the end. There is
// no farewell in HTTP/1.1 that would prevent it.
func (k *Kept) Part() (left int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.all {
		rest, reads := c.rest.Load(), c.reads.Load()
		if rest == busy {
			continue
		}
		if c.same++; rest != c.lastRest || reads != c.lastReads {
			c.lastRest, c.lastReads, c.same = rest, reads, 0
		}
		wait := 1
		if rest != reads {
			wait = unusedLooks
		}
		if quiet, over := socket.Peek(c.below); c.same >= wait && quiet || over {
			// TLS's close_notify is left out: it would take time in which a request may
			// come. CloseWrite sends the end at once; Close alone would only do so when the
			// goroutine that waits in Read has woken up.
			_ = c.CloseWrite()
			_ = c.TCPConn.Close()
			delete(k.all, c)
			continue
		}
		left++
	}
	return left
}
