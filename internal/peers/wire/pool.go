package wire

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/base/socket"
)

// reapInterval is the longest time between two checks of the idle connections.
const reapInterval = 5 * time.Second

// A pool holds the idle connections to one address. The client's mu guards idle.
type pool struct {
	keepAlive
	idle []idle        // the connection that has been idle longest comes first
	wake chan struct{} // wakes a goroutine that waits to dial, because a connection may be idle
}

type idle struct {
	*conn
	since time.Time
}

// connection returns an idle connection to an address, or a new one. While it waits until it may dial, it also takes a
// connection that becomes idle.
func (c *Client) connection(ctx context.Context, addr string) (*conn, error) {
	p := c.pool(addr)
	for {
		if k := c.takeIdle(p); k != nil {
			return k, nil
		}
		select {
		case c.dials <- struct{}{}:
			return c.dial(ctx, addr, p)
		case <-p.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *Client) pool(addr string) *pool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pools[addr]
	if p == nil {
		p = &pool{wake: make(chan struct{}, 1)}
		c.pools[addr] = p
	}
	return p
}

// dial makes a connection. The caller has put an element into c.dials, which dial takes out. The
// handshake runs in another goroutine: it needs a deep stack, which the goroutine of the request would
// keep while it waits for the answer.
func (c *Client) dial(ctx context.Context, addr string, p *pool) (*conn, error) {
	var made net.Conn
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		made, err = c.Dial(ctx, "tcp", addr)
		<-c.dials
	}()
	<-done
	if err != nil {
		return nil, err
	}
	return &conn{Conn: made, client: c, pool: p, socket: socket.Under(made)}, nil
}

// takeIdle returns the connection that became idle last and can still be used, or nil if there is none. It closes those
// that cannot be used.
func (c *Client) takeIdle(p *pool) *conn {
	for {
		c.mu.Lock()
		last := len(p.idle) - 1
		if last < 0 {
			c.mu.Unlock()
			return nil
		}
		k := p.idle[last]
		p.idle[last] = idle{}
		p.idle = p.idle[:last]
		c.mu.Unlock()
		switch {
		case time.Since(k.since) > c.idleLimit(p):
			_ = k.Close()
		case !k.isQuiet():
			k.closeSocket()
		default:
			if last > 0 {
				p.wakeDialer()
			}
			return k.conn
		}
	}
}

// putIdle makes a connection idle, or closes it if there are too many idle ones.
func (c *Client) putIdle(k *conn) {
	p := k.pool
	c.mu.Lock()
	if k.distrusted {
		c.mu.Unlock()
		k.closeSocket()
		return
	}
	if c.closed || len(p.idle) >= c.MaxIdle {
		c.mu.Unlock()
		_ = k.Close()
		return
	}
	p.idle = append(p.idle, idle{k, time.Now()})
	if c.reaper == nil {
		c.reaper = time.AfterFunc(min(reapInterval, c.idleLimit(p)), c.reap)
	}
	c.mu.Unlock()
	p.wakeDialer()
}

// distrust does the work of Distrust for a connection, which may be idle or in use again.
func (c *Client) distrust(k *conn) {
	c.mu.Lock()
	k.distrusted = true
	rests := slices.IndexFunc(k.pool.idle, func(i idle) bool { return i.conn == k })
	if rests >= 0 {
		k.pool.idle = slices.Delete(k.pool.idle, rests, rests+1)
	}
	c.mu.Unlock()
	if rests >= 0 {
		k.closeSocket()
	}
}

// wakeDialer wakes one goroutine that waits to dial. It takes an idle connection, and wakes the next if there are more.
func (p *pool) wakeDialer() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// idleLimit returns how long a connection may be idle.
func (c *Client) idleLimit(p *pool) time.Duration {
	if said := time.Duration(p.Load()); said > 0 {
		return min(said, c.IdleTime)
	}
	return c.IdleTime
}

// reap closes the connections that have been idle for too long, and those that the peer has closed. It runs again while
// any connection is idle.
func (c *Client) reap() {
	c.mu.Lock()
	var all []idle
	for _, p := range c.pools {
		all = append(all, p.idle...)
	}
	c.mu.Unlock()
	// The lock is not held here, so some connections may be taken into use. Only those are closed that are still in the
	// pool afterwards, idle since the same time.
	now, next := time.Now(), reapInterval
	over := make(map[idle]bool)
	for _, k := range all {
		if left := c.idleLimit(k.pool) - now.Sub(k.since); left > 0 && k.isQuiet() {
			next = min(next, left)
		} else {
			over[k] = true
		}
	}
	all = all[:0]
	c.mu.Lock()
	for _, p := range c.pools {
		p.idle = slices.DeleteFunc(p.idle, func(k idle) bool {
			if over[k] {
				all = append(all, k)
			}
			return over[k]
		})
	}
	c.scheduleReap(next)
	c.mu.Unlock()
	for _, k := range all {
		_ = k.Close()
	}
}

// scheduleReap makes the reaper run after next if any connection is idle.
func (c *Client) scheduleReap(next time.Duration) {
	for _, p := range c.pools {
		if len(p.idle) > 0 && c.reaper != nil {
			c.reaper.Reset(next)
			return
		}
	}
	c.stopReaper()
}

func (c *Client) stopReaper() {
	if c.reaper != nil {
		c.reaper.Stop()
		c.reaper = nil
	}
}

// CloseIdle closes the idle connections.
func (c *Client) CloseIdle() {
	c.mu.Lock()
	var all []idle
	for _, p := range c.pools {
		all = append(all, p.idle...)
		p.idle = nil
	}
	c.stopReaper()
	c.mu.Unlock()
	for _, k := range all {
		_ = k.Close()
	}
}

// Close closes the idle connections, and those in use when their requests end. Post may still be called; each call then
// uses a connection of its own.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.CloseIdle()
}
