package wire

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/socket"
)

// lookEvery is how often idle connections are looked at.
const reapInterval = 5 * time.Second

// A pool is the idle connections to one address. The client's mu guards idle.
type pool struct {
	keepAlive
	idle []idle        // the one that has been idle longest first
	wake chan struct{} // wakes one of those who wait to dial: a connection may be idle
}

type idle struct {
	*conn
	since time.Time
}

// connection returns an idle connection to an address, or a new one. While it waits
// for a place to dial it also takes one that becomes idle.
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

// dial makes a connection, in a place among the dials that the caller has taken. It does
// so in another goroutine: a handshake takes a deep stack, which this one would keep while
// the request waits for its answer.
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

// takeIdle returns the connection that became idle last and can still be used; nil: there
// is none. It closes those that cannot.
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

// putIdle makes a connection idle, or closes it if there are too many.
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

// distrust is Distrust for a connection, which may be idle or in use again.
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

// wakeDialer wakes one of those who wait to dial. That one takes an idle connection, and wakes
// the next if there are more.
func (p *pool) wakeDialer() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// idleLimit is how long a connection may be idle.
func (c *Client) idleLimit(p *pool) time.Duration {
	if said := time.Duration(p.Load()); said > 0 {
		return min(said, c.IdleTime)
	}
	return c.IdleTime
}

// reap closes connections that have been idle for too long, and those that the peer has
// closed. It runs again as long as any is idle.
func (c *Client) reap() {
	c.mu.Lock()
	var all []idle
	for _, p := range c.pools {
		all = append(all, p.idle...)
	}
	c.mu.Unlock()
	// Without the lock, some may be taken into use meanwhile. Only those that are still
	// in the pool afterwards, idle since the same moment, are closed.
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

// scheduleReap has the reaper run after next, if any connection is idle.
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

// Close closes the idle connections, and those in use when their requests end. Requests
// may still be made; each then has a connection of its own.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.CloseIdle()
}
