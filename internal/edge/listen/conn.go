package listen

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/openthreeds/threeds/internal/base/socket"
)

// conn is a connection of a [Limiter]. It sees when a handshake or a request begins.
//
// It allows a client the same time before the first request of a connection as between two requests. net/http counts
// the time for a header from the beginning of a connection, or from the end of its handshake. But clients and balancers
// open connections before they have a request for them. If a client finds its connection closed while it sends, it
// cannot know whether the request was accepted. Here the time for a handshake, and for the first request, counts from
// its first byte.
//
// Only the client's time counts. A server that got no processor time may find that a limit has passed although the
// bytes that it waits for have already arrived in the kernel. It then reads them, and the limit begins again. And an
// answer that the server has only after the time to send it is sent: the client gets the time for a header to take it.
type conn struct {
	net.Conn
	limiter *Limiter
	raw     syscall.RawConn // of the socket; nil if there is none

	stage atomic.Int32
	began time.Time // when the handshake or the first request did; for the goroutine that serves the connection
	// the next byte is the first one of a handshake or a request
	expectsFirstByte atomic.Bool
	isInterrupted    atomic.Bool // a Read has to end, whatever has come
	// when the time to send an answer ends, in milliseconds since 1970; 0 is never, and also after it began again
	answerUntil atomic.Int64

	position position // is the limiter's
}

// The stages of a connection.
const (
	stageSilent    int32 = iota // nothing has come, or nothing since the handshake
	stageHandshake              // a handshake has begun
	stageRequest                // the first request has begun
	stageServed                 // net/http has read a request, and from now on counts right
)

func (l *Limiter) newConn(inner net.Conn) *conn {
	c := &conn{Conn: inner, limiter: l, raw: socket.Under(inner)}
	c.expectsFirstByte.Store(true)
	return c
}

// connBelow returns the conn at or below a connection, under TLS for example; nil means that there is none.
func connBelow(c net.Conn) *conn {
	for {
		switch wrapper := c.(type) {
		case *conn:
			return wrapper
		case interface{ NetConn() net.Conn }:
			c = wrapper.NetConn()
		default:
			return nil
		}
	}
}

// NetConn returns the connection that c wraps.
func (c *conn) NetConn() net.Conn { return c.Conn }

// CloseWrite ends the sending. net/http does that before it closes a connection with a request that it has answered
// without reading all of it; else the client may lose the answer.
func (c *conn) CloseWrite() error {
	if inner, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return inner.CloseWrite()
	}
	return nil
}

// Read notes when a handshake or a request begins.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) && c.hasUnreadBytes() {
		now := time.Now()
		if c.stage.Load() == stageRequest {
			c.began = now
		}
		if err := c.Conn.SetReadDeadline(deadline(now, c.limiter.headerTimeout)); err != nil {
			return 0, err
		}
		n, err = c.Conn.Read(p)
	}
	if n > 0 && c.expectsFirstByte.Load() && c.expectsFirstByte.CompareAndSwap(true, false) {
		c.limiter.firstByte(c)
	}
	if n > 0 && c.stage.Load() == stageSilent {
		return n, cmp.Or(err, c.startTimeout(p[0]))
	}
	return n, err
}

// hasUnreadBytes reports whether bytes of the client wait to be read. It says no while a Read is interrupted.
func (c *conn) hasUnreadBytes() bool {
	if c.raw == nil || c.isInterrupted.Load() {
		return false
	}
	quiet, over := socket.Peek(c.raw)
	return !quiet && !over
}

// Write gives the client the whole time again for each part of a handshake: what was spent so far may have been ours.
// It does so once for an answer whose time is over before anything of it is written. Without that, TLS would leave out
// a record and send the next one, so that the client reads a bad MAC.
func (c *conn) Write(p []byte) (int, error) {
	now := time.Now()
	until := c.answerUntil.Load()
	var err error
	switch {
	case c.stage.Load() == stageHandshake:
		err = c.Conn.SetDeadline(deadline(now, c.limiter.headerTimeout))
	case until != 0 && until <= now.UnixMilli() && c.answerUntil.CompareAndSwap(until, 0):
		err = c.Conn.SetWriteDeadline(deadline(now, c.limiter.headerTimeout))
	}
	if err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(t time.Time) error {
	until := int64(0)
	if !t.IsZero() {
		until = t.UnixMilli()
	}
	c.answerUntil.Store(until)
	return c.Conn.SetWriteDeadline(t)
}

// startTimeout sets the time limit for the handshake or request that begins with a byte. For a handshake, net/http
// limits the writing too.
func (c *conn) startTimeout(first byte) error {
	const handshakeRecord = 22 // of TLS
	c.began = time.Now()
	if first == handshakeRecord {
		c.stage.Store(stageHandshake)
		return c.Conn.SetDeadline(deadline(c.began, c.limiter.headerTimeout))
	}
	c.stage.Store(stageRequest)
	return c.Conn.SetReadDeadline(deadline(c.began, c.limiter.headerTimeout))
}

// deadline returns the end of a time limit, the zero time if limit is 0.
func deadline(began time.Time, limit time.Duration) time.Time {
	if limit == 0 {
		return time.Time{}
	}
	return began.Add(limit)
}

// SetReadDeadline implements [net.Conn]. Until a request is read, net/http sets deadlines that it counts from the
// beginning of the connection; they are replaced. To interrupt a Read, it sets a deadline in 1970. Any other deadline
// that has passed when it is set means that the server itself was late. Then the client gets the time for a header
// again.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.isInterrupted.Store(!t.IsZero() && t.Year() < 2000)
	switch c.stage.Load() {
	case stageSilent:
		if !t.IsZero() {
			t = deadline(time.Now(), c.limiter.idleTimeout)
		}
	case stageHandshake:
		if t.IsZero() { // the handshake is over
			c.stage.Store(stageSilent)
			c.expectsFirstByte.Store(true)
		}
	case stageRequest:
		t = deadline(c.began, c.limiter.readTimeout)
	}
	if now := time.Now(); !t.IsZero() && t.Before(now) && !c.isInterrupted.Load() {
		t = deadline(now, c.limiter.headerTimeout)
	}
	return c.Conn.SetReadDeadline(t)
}

// requestRead notes that net/http has read a request, or the beginning of HTTP/2, on the connection above c.
func (c *conn) requestRead(above net.Conn) {
	stage := c.stage.Swap(stageServed)
	if _, isTLS := above.(*tls.Conn); !isTLS || stage == stageServed {
		return
	}
	// SetReadDeadline fails if the connection is already closed.
	switch {
	case isHTTP2(above):
		_ = c.Conn.SetReadDeadline(time.Time{}) // HTTP/2 has time limits of its own and leaves ours in place
	case stage == stageSilent: // the request came in one piece with the end of the handshake; its body may be on the way
		_ = c.Conn.SetReadDeadline(deadline(time.Now(), c.limiter.readTimeout))
	}
}
