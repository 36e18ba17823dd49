package listen

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

// Limiter limits the number of connections of one [http.Server], and how long a connection may be silent. Its
// connections have to be accepted through Listener, below TLS, and the server be given to Attach.
//
// At the limit a new connection evicts the one that has been silent longest: since its last request was answered, or
// since its handshake or request began to come. So clients that keep many connections and send little evict their own.
// Bytes that come one by one do not end a silence. A connection that is new, or whose handshake or request is coming, is
// not evicted before connectTime is over. A connection with a request in work is never evicted. If none can be evicted,
// the new connection is closed.
//
// A connection may be silent before its first request for as long as between two requests: see conn.
type Limiter struct {
	Max      int    // connections; 0 means that there is no limit
	MaxHTTP2 int    // connections that may be of HTTP/2 at once, if there is a limit; each has many requests at once
	Closed   func() // is called for each connection that is evicted or closed; may be nil

	headerTimeout, readTimeout, idleTimeout time.Duration // of the server; 0 means none

	mu     sync.Mutex
	open   int       // connections
	http2  int       // connections that were offered HTTP/2
	coming list.List // of connections that are new, or whose handshake or request is coming, by their since
	idle   list.List // of connections between two requests, by their since
}

// connectTime is how long a connection is safe from eviction after it was accepted, and after its handshake or a
// request on it began. A TCP and a TLS handshake take two or three round trips, so it is enough for clients that are
// a third of a second away. Who wants to fill the limit with new connections has to open all of them again each
// second.
const connectTime = time.Second

// position is where a connection is in the lists of a Limiter, whose mutex guards it. While a request is in work the
// connection is in no list.
type position struct {
	isOpen      bool // counts as open
	offersHTTP2 bool // counts among those that were offered HTTP/2
	hasGreeted  bool // it speaks HTTP/2, and the two states at its beginning are over
	list        *list.List
	element     *list.Element
	since       time.Time // when it was put into the list
}

// Attach has the limiter follow the connections of a server, which has its handler and its timeouts.
func (l *Limiter) Attach(s *http.Server) {
	l.headerTimeout, l.readTimeout, l.idleTimeout = s.ReadHeaderTimeout, s.ReadTimeout, s.IdleTimeout
	addHooks(s, l.connState, connContext)
	handler := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
		if r.ProtoMajor >= 2 {
			restartTime(r.Context())
		}
	})
}

// Listener returns inner with connections that the limiter follows.
func (l *Limiter) Listener(inner net.Listener) net.Listener { return limitedListener{inner, l} }

type limitedListener struct {
	net.Listener
	limiter *Limiter
}

func (l limitedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.limiter.newConn(c), nil
}

// protoHTTP2 is the name of HTTP/2 in a TLS handshake.
const protoHTTP2 = "h2"

// Offer returns a TLS configuration that offers HTTP/2 as config does, but to no more than MaxHTTP2 connections at once.
// Later ones get HTTP/1.1, so that nobody can send hundreds of requests on each of thousands of connections. Without a
// limit of connections it returns config.
func (l *Limiter) Offer(config *tls.Config) *tls.Config {
	if l.Max == 0 {
		return config
	}
	withoutHTTP2 := config.Clone()
	withoutHTTP2.NextProtos = slices.DeleteFunc(slices.Clone(config.NextProtos), func(proto string) bool { return proto == protoHTTP2 })
	config = config.Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, protoHTTP2) && !l.admitHTTP2(connBelow(hello.Conn)) {
			return withoutHTTP2, nil
		}
		return nil, nil
	}
	return config
}

// admitHTTP2 reports whether a connection may have HTTP/2. It counts from now on, until it is closed: by the end of its
// handshake a thousand others may have come.
func (l *Limiter) admitHTTP2(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c == nil || l.http2 >= l.MaxHTTP2 {
		return false
	}
	if !c.position.offersHTTP2 {
		c.position.offersHTTP2 = true
		l.http2++
	}
	return true
}

type connKey struct{}

// connContext lets Arrived find the connection of a request.
func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connBelow(c))
}

func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}

// Arrived notes that the whole request of ctx has come: its connection is in work until it is idle again.
func Arrived(ctx context.Context) {
	if c := connOf(ctx); c != nil {
		c.limiter.mu.Lock()
		defer c.limiter.mu.Unlock()
		c.limiter.move(c, nil)
	}
}

// restartTime notes that one of several requests on the connection of ctx was answered: if others are still coming,
// their time counts from now on. net/http calls such a connection idle only when all are answered, which may take hours.
func restartTime(ctx context.Context) {
	if c := connOf(ctx); c != nil {
		c.limiter.mu.Lock()
		defer c.limiter.mu.Unlock()
		if c.position.list == &c.limiter.coming {
			c.limiter.move(c, &c.limiter.coming)
		}
	}
}

// connState follows the states that net/http gives a connection.
func (l *Limiter) connState(above net.Conn, state http.ConnState) {
	c := connBelow(above)
	if c == nil {
		return
	}
	if state == http.StateActive {
		c.requestRead(above)
	}
	evicted := l.follow(c, state, (state == http.StateActive || state == http.StateIdle) && isHTTP2(above))
	if evicted == nil {
		return
	}
	_ = socket.Bottom(evicted).Close() // without TLS's close_notify, which might have to wait
	if l.Closed != nil {
		l.Closed()
	}
}

// follow notes the state of a connection, and returns the connection to close; nil means none.
func (l *Limiter) follow(c *conn, state http.ConnState, multiplexed bool) (evicted *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateNew:
		return l.add(c)
	case http.StateActive:
		if multiplexed || c.position.list != &l.coming {
			l.move(c, &l.coming)
		}
	case http.StateIdle:
		// net/http calls a connection of HTTP/2 active and idle before its first request.
		if multiplexed && !c.position.hasGreeted {
			c.position.hasGreeted = true
			return nil
		}
		l.move(c, &l.idle)
		if !multiplexed {
			c.expectsFirstByte.Store(true)
		}
	case http.StateHijacked, http.StateClosed:
		l.remove(c)
	}
	return nil
}

// isHTTP2 reports whether a connection speaks HTTP/2. Its handshake must be over.
func isHTTP2(c net.Conn) bool {
	secured, ok := c.(*tls.Conn)
	return ok && secured.ConnectionState().NegotiatedProtocol == protoHTTP2
}

// add takes a new connection in. It returns the connection that is evicted for it, or the new one if none can be.
func (l *Limiter) add(c *conn) (evicted *conn) {
	if l.Max > 0 && l.open >= l.Max {
		if evicted = l.silentLongest(time.Now()); evicted == nil {
			return c
		}
		l.remove(evicted)
	}
	l.open++
	c.position.isOpen = true
	l.move(c, &l.coming)
	return evicted
}

// silentLongest returns the connection to evict; nil means that none may be evicted.
func (l *Limiter) silentLongest(now time.Time) *conn {
	idle, coming := firstOf(&l.idle), firstOf(&l.coming)
	if coming == nil || now.Sub(coming.position.since) < connectTime {
		return idle
	}
	if idle == nil || coming.position.since.Before(idle.position.since) {
		return coming
	}
	return idle
}

// firstOf returns the first connection of a list; nil means that the list is empty.
func firstOf(l *list.List) *conn {
	if front := l.Front(); front != nil {
		return front.Value.(*conn)
	}
	return nil
}

// firstByte notes that the first byte of a handshake or a request has come on a connection.
func (l *Limiter) firstByte(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.position.list != nil {
		l.move(c, &l.coming)
	}
}

// move puts a connection at the end of a list, or in none if to is nil. A connection that is not open stays in none.
func (l *Limiter) move(c *conn, to *list.List) {
	p := &c.position
	if !p.isOpen {
		return
	}
	if p.list != nil {
		p.list.Remove(p.element)
	}
	if p.list = to; to != nil {
		p.element, p.since = to.PushBack(c), time.Now()
	}
}

func (l *Limiter) remove(c *conn) {
	l.move(c, nil)
	if c.position.isOpen {
		c.position.isOpen = false
		l.open--
	}
	if c.position.offersHTTP2 {
		c.position.offersHTTP2 = false
		l.http2--
	}
}
