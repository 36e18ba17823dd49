package listen

import (
	"container/list"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/base/socket"
)

// Limiter limits the number of connections of one [http.Server], and how long a connection may be silent. Its
// connections have to be accepted through Listener, below TLS, and the server has to be given to Attach.
//
// At the limit a new connection evicts the one that has been silent longest: since its last request was answered, or
// since its handshake or request began to come. So clients that keep many connections and send little evict their own.
// Bytes that come one by one do not end a silence. A connection that is new, or whose handshake or request is coming,
// is not evicted before connectTime is over. A connection with a request in work is never evicted, unless all of its
// requests wait for another party (see [Wait]). It then counts as silent since it began to wait. Its requests are
// answered early, and then it is closed. If none can be evicted, the new connection is closed.
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
	coming list.List // new connections, and those whose handshake or request is coming, by their since
	idle   list.List // of connections between two requests, by their since
	waits  list.List // connections whose requests in work all wait, the one that began to wait first in front
}

// connectTime is how long a connection is safe from eviction after it was accepted, and after its handshake or a
// request on it began. A TCP and a TLS handshake take two or three round trips, so it is enough for clients with a
// round trip of a third of a second. An attacker who wants to fill the limit with new connections has to open all of
// them again each second.
const connectTime = time.Second

// position is where a connection is in the lists of a Limiter, whose mutex guards it. While it has a request in work
// that does not wait, the connection is in no list.
type position struct {
	isOpen      bool // counts as open
	isLeaving   bool // was evicted while its requests waited, and is closed when they are answered
	inWork      int  // requests that the handler has; one at most unless it is of HTTP/2
	arriving    int  // requests whose bodies are incomplete
	waiting     map[*waiter]bool
	offersHTTP2 bool // counts among those that were offered HTTP/2
	hasGreeted  bool // it speaks HTTP/2, and the two states at its beginning are over
	list        *list.List
	element     *list.Element
	since       time.Time // when it was put into the list
}

// Attach makes the limiter track the connections of a server, whose handler and timeouts are set.
func (l *Limiter) Attach(s *http.Server) {
	l.headerTimeout, l.readTimeout, l.idleTimeout = s.ReadHeaderTimeout, s.ReadTimeout, s.IdleTimeout
	addHooks(s, l.connState, connContext)
	handler := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := connOf(r.Context()); c != nil {
			body := l.startRequest(c, r)
			defer l.endRequest(c, body, r.ProtoMajor >= 2)
			if !body.over { // net/http looks at the body of its own request, so the handler gets another
				r = new(*r)
				r.Body = body
			}
		}
		handler.ServeHTTP(w, r)
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

// Offer returns a TLS configuration that offers HTTP/2 as config does, but to no more than MaxHTTP2 connections at
// once. Later ones get HTTP/1.1, so that no client can send hundreds of requests on each of thousands of connections.
// Without a limit of connections it returns config.
func (l *Limiter) Offer(config *tls.Config) *tls.Config {
	if l.Max == 0 {
		return config
	}
	withoutHTTP2 := config.Clone()
	withoutHTTP2.NextProtos = slices.DeleteFunc(slices.Clone(config.NextProtos), func(proto string) bool {
		return proto == protoHTTP2
	})
	config = config.Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, protoHTTP2) && !l.admitHTTP2(connBelow(hello.Conn)) {
			return withoutHTTP2, nil
		}
		return nil, nil
	}
	return config
}

// admitHTTP2 reports whether a connection may have HTTP/2. The connection counts from now on, until it is closed: by
// the end of its handshake a thousand others may have come.
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

// An arrivingBody is the body of a request that the handler has. It notes when all of it has come.
type arrivingBody struct {
	io.ReadCloser
	conn *conn
	left int64 // bytes to come; negative if that is not known
	over bool
}

func (b *arrivingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); err == io.EOF || b.left == 0 {
		b.end(true)
	}
	return n, err
}

// end notes that the body comes no more, because all of it has come or its request was answered. It may be called
// again.
func (b *arrivingBody) end(hasCome bool) {
	if b.over {
		return
	}
	b.over = true
	l := b.conn.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &b.conn.position
	if p.arriving--; hasCome && p.arriving == 0 && p.list == &l.coming {
		l.move(b.conn, nil)
	}
}

// startRequest notes that the handler has a request. The handler must read the body that startRequest returns.
func (l *Limiter) startRequest(c *conn, r *http.Request) *arrivingBody {
	body := &arrivingBody{ReadCloser: r.Body, conn: c, left: r.ContentLength}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &c.position
	if p.inWork++; p.list == &l.waits {
		l.move(c, nil)
	}
	if body.over = r.ContentLength == 0; !body.over {
		p.arriving++
	} else if p.arriving == 0 && p.list == &l.coming {
		l.move(c, nil)
	}
	return body
}

// endRequest notes that a request was answered. If other requests on a connection of HTTP/2 are still coming, their
// time counts from now on: net/http calls such a connection idle only when all are answered, which may take hours.
func (l *Limiter) endRequest(c *conn, body *arrivingBody, isMultiplexed bool) {
	body.end(false)
	l.mu.Lock()
	defer l.mu.Unlock()
	c.position.inWork--
	if isMultiplexed && c.position.list == &l.coming {
		l.move(c, &l.coming)
	}
	l.noteWaits(c)
}

// noteWaits puts a connection into the list of those that wait, if all of its requests do and no other is coming.
func (l *Limiter) noteWaits(c *conn) {
	if p := &c.position; p.inWork > 0 && p.inWork == len(p.waiting) && p.list != &l.coming {
		l.move(c, &l.waits)
	}
}

// A waiter is a request that waits.
type waiter struct{ answerEarly context.CancelFunc }

// Wait marks a request as waiting for another party, until done is called. The whole request has to have come. The
// context that Wait returns ends when that of the request does, or when another client needs the connection: then
// answer the request with the present state. done has to be called before the answer is written. It returns whether the
// wait was cut short for another client; if so, it makes the answer end the connection.
func Wait(w http.ResponseWriter, r *http.Request) (waiting context.Context, done func() (isCutShort bool)) {
	waiting, cancel := context.WithCancel(r.Context())
	c := connOf(r.Context())
	if c == nil {
		return waiting, func() bool { cancel(); return false }
	}
	l, self := c.limiter, &waiter{cancel}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.position.waiting == nil {
		c.position.waiting = make(map[*waiter]bool)
	}
	if c.position.waiting[self] = true; c.position.isLeaving {
		cancel()
	}
	l.noteWaits(c)
	return waiting, func() bool {
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(c.position.waiting, self)
		if c.position.list == &l.waits {
			l.move(c, nil)
		}
		if c.position.isLeaving {
			// For HTTP/2, net/http takes this header as a request to send GOAWAY.
			w.Header().Set("Connection", "close")
		}
		return c.position.isLeaving
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
	evicted, isWaiting := l.follow(c, state, (state == http.StateActive || state == http.StateIdle) && isHTTP2(above))
	if evicted == nil {
		return
	}
	if !isWaiting {
		_ = socket.Bottom(evicted).Close() // without TLS's close_notify, which might have to wait
	}
	if l.Closed != nil {
		l.Closed()
	}
}

// follow notes the state of a connection, and returns the connection that has to be closed; nil means none. If its
// requests wait, they are being answered, and net/http closes it afterwards.
func (l *Limiter) follow(c *conn, state http.ConnState, multiplexed bool) (evicted *conn, isWaiting bool) {
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
			return nil, false
		}
		l.move(c, &l.idle)
		if !multiplexed {
			c.expectsFirstByte.Store(true)
		}
	case http.StateHijacked, http.StateClosed:
		l.remove(c)
	}
	return nil, false
}

// isHTTP2 reports whether a connection speaks HTTP/2. Its handshake must be over.
func isHTTP2(c net.Conn) bool {
	secured, ok := c.(*tls.Conn)
	return ok && secured.ConnectionState().NegotiatedProtocol == protoHTTP2
}

// add adds a new connection. It returns the connection that is evicted for it, or the new one if none can be evicted.
// If the requests of the evicted one wait, it lets them be answered; the place is free from now on.
func (l *Limiter) add(c *conn) (evicted *conn, isWaiting bool) {
	if l.Max > 0 && l.open >= l.Max {
		if evicted = l.silentLongest(time.Now()); evicted == nil {
			return c, false
		}
		isWaiting = evicted.position.list == &l.waits
		l.remove(evicted)
		if isWaiting {
			evicted.position.isLeaving = true
			for w := range evicted.position.waiting {
				w.answerEarly()
			}
		}
	}
	l.open++
	c.position.isOpen = true
	l.move(c, &l.coming)
	return evicted, isWaiting
}

// silentLongest returns the connection to evict, or nil if none may be evicted.
func (l *Limiter) silentLongest(now time.Time) *conn {
	var longest *conn
	for _, silent := range []*list.List{&l.idle, &l.waits, &l.coming} {
		c := firstOf(silent)
		if c == nil || silent == &l.coming && now.Sub(c.position.since) < connectTime {
			continue
		}
		if longest == nil || c.position.since.Before(longest.position.since) {
			longest = c
		}
	}
	return longest
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
