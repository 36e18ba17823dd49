package listen

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/openthreeds/threeds/internal/base/socket"
)

// Drainer ends the connections that clients keep between requests. [http.Server.Shutdown] closes connections without a
// request in work. A request that has arrived on such a connection, and was not read yet, is lost with it: the client
// cannot know whether it was accepted. The same happens on a connection whose answer is just being sent without
// "Connection: close", for net/http closes it when the answer is out. CloseIdle closes them without losing requests.
//
// It works below TLS and HTTP. So all connections have to be accepted through Listener, directly on TCP, and the
// servers have to be given to Attach. Connections of HTTP/2 are left alone: that protocol has a GOAWAY frame.
type Drainer struct {
	mu  sync.Mutex
	all map[*drainConn]bool
}

// drainConn is a connection of a [Drainer].
type drainConn struct {
	*net.TCPConn
	raw       syscall.RawConn
	reads     atomic.Int64 // how many reads have brought something
	wroteAt   atomic.Int64 // reads, when something was last written
	restsFrom atomic.Int64 // reads, when the last request was answered; or inWork, multiplexed or unused

	// Only CloseIdle uses these.
	lastReads, lastRest int64 // reads and restsFrom at the last call
	unchanged           int   // for how many calls in a row they have not changed
}

// Values of restsFrom that count no reads.
const (
	inWork      = -1 - iota // A request is in work on the connection.
	multiplexed             // The connection is of HTTP/2.
	unused                  // No request has come on the connection yet.
)

// unusedCalls is the number of calls in a row without any bytes after which CloseIdle closes a connection that is new,
// or whose last bytes may be the beginning of a request. At one call every ten milliseconds these are the five seconds
// that net/http gives a new connection: a client on a busy machine may take more than one second from the handshake to
// the request.
const unusedCalls = 500

// Listener returns inner with connections that the drainer can close.
func (d *Drainer) Listener(inner net.Listener) net.Listener { return drainListener{inner} }

type drainListener struct{ net.Listener }

func (l drainListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return &drainConn{TCPConn: tcp, raw: socket.Under(tcp)}, nil
	}
	return c, err
}

// Read counts the reads that bring something.
func (c *drainConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n > 0 {
		c.reads.Add(1)
	}
	return n, err
}

// Write remembers how many reads came before it. It would be too late to do that when net/http calls the connection
// idle: by then the client may have sent the next request, and net/http may have read it.
func (c *drainConn) Write(p []byte) (int, error) {
	c.wroteAt.Store(c.reads.Load())
	return c.TCPConn.Write(p)
}

// Attach makes the drainer track the connections of a server.
func (d *Drainer) Attach(s *http.Server) { addHooks(s, d.follow, nil) }

func (d *Drainer) follow(above net.Conn, state http.ConnState) {
	c, ok := socket.Bottom(above).(*drainConn)
	if !ok {
		return
	}
	switch state {
	case http.StateNew:
		c.restsFrom.Store(unused)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.all == nil {
			d.all = make(map[*drainConn]bool)
		}
		d.all[c] = true
	case http.StateActive, http.StateIdle:
		switch {
		case isHTTP2(above):
			c.restsFrom.Store(multiplexed)
		case state == http.StateActive:
			c.restsFrom.Store(inWork)
		default:
			c.restsFrom.Store(c.wroteAt.Load())
		}
	case http.StateHijacked, http.StateClosed:
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.all, c)
	}
}

// CloseIdle closes each connection between two requests on which nothing has come since the last call, and returns how
// many connections of HTTP/1 are left, those with a request in work among them. It is to be called about every ten
// milliseconds until none are left, once no new connections are accepted and each answer is the last on its connection.
//
// A request can still be lost if it comes in the microseconds between the check of a socket and its end, or if a client
// sends it before it has noticed the end. Nothing in HTTP/1.1 would prevent that.
func (d *Drainer) CloseIdle() (left int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.all {
		// The socket is looked at before the reads are counted, so that a read between the two is not missed.
		quiet, over := socket.Peek(c.raw)
		rest, reads := c.restsFrom.Load(), c.reads.Load()
		if rest == multiplexed {
			continue
		}
		if rest == inWork {
			left++
			continue
		}
		if c.unchanged++; rest != c.lastRest || reads != c.lastReads {
			c.lastRest, c.lastReads, c.unchanged = rest, reads, 0
		}
		wait := 1
		if rest != reads {
			wait = unusedCalls
		}
		if c.unchanged >= wait && quiet || over {
			// TLS's close_notify is left out: it would take time in which a request may come. CloseWrite sends the end
			// immediately; Close alone would only do so when the goroutine that waits in Read has woken up.
			_ = c.CloseWrite()
			_ = c.TCPConn.Close()
			delete(d.all, c)
			continue
		}
		left++
	}
	return left
}
