package directory

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/openthreeds/threeds/internal/socket"
)

var errNotConfigured = errors.New("not a configured address")

// dialer makes connections to the addresses of one peer, and to no others: those
// that are configured, and those that the directory server itself gave in a
// PRes. For both its certificate has to chain to the same authorities.
type dialer struct {
	tls     map[string]*tls.Config                   // by host:port, of what is configured
	listed  func(addr string) (host string, ok bool) // of what the directory server gave
	secured *tls.Config                              // for those, but for the name
	slots   chan struct{}                            // bounds the handshakes under way
	patient time.Duration                            // how long to wait for a slot
	limit   time.Duration                            // for name, connection and handshake together
	net     net.Dialer
}

// keepAlive finds out in half a minute that the other side of a connection is
// gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// dial connects and shakes hands. The transport keeps dialing after the request
// that asked for the connection is gone, so all waiting is bounded here.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	config, ok := d.tls[addr]
	if !ok {
		host, ok := d.listed(addr)
		if !ok {
			return nil, errNotConfigured
		}
		config = d.secured.Clone()
		config.ServerName = host
	}
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer func() { <-d.slots }()
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	raw, err := d.net.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(raw, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return &conn{Conn: secured, below: socket.Under(raw)}, nil
}

// enter waits for its turn to dial.
func (d *dialer) enter(ctx context.Context) error {
	select {
	case d.slots <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, d.patient)
	defer cancel()
	select {
	case d.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// conn is a connection that knows whether anything was sent on it, and can be
// shut for further sending. That is how we know, and not only believe, that a
// failed request never left: net/http does not say.
type conn struct {
	net.Conn
	below syscall.RawConn // of the socket; nil: there is none

	mu     sync.Mutex
	writes int
	sealed bool
	ended  bool // as the last Read found
	wary   bool // before the next byte is sent, see whether the peer is still there
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.mu.Lock()
		c.ended = true
		c.mu.Unlock()
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.wary {
		c.wary = false
		c.sealed = c.sealed || c.ended || c.stirs()
	}
	if c.sealed {
		c.mu.Unlock()
		return 0, net.ErrClosed
	}
	c.writes++
	c.mu.Unlock()
	return c.Conn.Write(b)
}

// begin returns a point in what was sent, for sealSince. On a connection that
// is used again, what follows is not sent when the peer has ended it meanwhile:
// one who wrote first would not know whether anybody read it.
func (c *conn) begin(again bool) (mark int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wary = again
	return c.writes
}

// sealSince ends all sending and reports whether anything may have been sent
// since the mark. After it returns false nothing ever will be.
func (c *conn) sealSince(mark int) (sent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
	return c.writes != mark
}

// stirs reports whether something has come though nothing is due: the peer's end,
// or what it says before it hangs up.
func (c *conn) stirs() bool {
	if c.below == nil {
		return false
	}
	quiet, _ := socket.Peek(c.below)
	return !quiet
}
