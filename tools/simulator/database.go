package main

import "time"

// A database is a primary whose commits wait for its log. Nodes reach it over
// pools of connections.
type database struct {
	*fleet
	cpu       *station
	wire      *station // what the database sends
	log       *log
	down      bool
	lost      time.Duration // when it went down
	life      int           // grows with each failover; what began in an earlier life never ends
	connected gauge
	busy      gauge   // connections in use
	turned    int     // connections that were refused because there were too many
	sent      []int64 // bytes of card ranges and keys, by second
	under     []*call // statements under way
}

func newDatabase(f *fleet) *database {
	d := &database{fleet: f, connected: newGauge(f.sim), busy: newGauge(f.sim)}
	d.up()
	return d
}

// up begins a life.
func (d *database) up() {
	d.life++
	d.down = false
	d.cpu, d.wire = newStation(d.sim, int(d.p.DBCores)), newStation(d.sim, 1)
	d.log = &log{s: d.sim, takes: func() time.Duration {
		half := ms(d.p.DBSync) / 2
		return half + d.exponential(half)
	}}
	for _, n := range d.nodes {
		n.pool.startWaiting()
	}
}

// fail ends a life: statements under way get no answer, and all connections are lost.
func (d *database) fail() {
	d.down, d.lost = true, d.now
	d.life++
	life := d.life
	d.after(seconds(d.p.DBPatience), func() {
		for _, n := range d.nodes {
			if d.life == life {
				n.pool.giveUp()
			}
		}
	})
	lost := d.under
	d.under = nil
	d.busy.add(-d.busy.n)
	d.connected.add(-d.connected.n)
	for _, n := range d.nodes {
		n.pool.open, n.pool.idle = 0, 0
	}
	for _, c := range lost {
		if c.writes { // it may have happened, so it is not tried again
			c.done(false)
		} else {
			c.pool.ask(c)
		}
	}
}

// A call is one statement.
type call struct {
	pool    *pool
	writes  bool
	cpu     time.Duration
	bytes   float64 // of the answer; 0: so few that they do not count
	done    func(ok bool)
	at      int  // index in database.under
	waiting bool // for a connection
}

// A pool is the connections of a node.
type pool struct {
	*database
	size       int
	open, idle int
	queue      fifo[*call]
}

// giveUp fails all calls that wait: the database has been down for too long.
func (p *pool) giveUp() {
	waiting := p.queue
	p.queue = fifo[*call]{}
	for waiting.len() > 0 {
		if c := waiting.pop(); c.waiting {
			c.waiting = false
			c.done(false)
		}
	}
}

// ask makes a call when a connection is free, or fails when none has been for DBPatience. If
// the database has been down for as long already, it fails at once.
func (p *pool) ask(c *call) {
	c.pool = p
	if p.down && p.now-p.lost >= seconds(p.p.DBPatience) {
		p.after(ms(p.p.DBTrip), func() { c.done(false) })
		return
	}
	c.waiting = true
	p.queue.push(c)
	p.startWaiting()
	if c.waiting {
		p.after(seconds(p.p.DBPatience), func() {
			if c.waiting {
				c.waiting = false
				c.done(false)
			}
		})
	}
}

// startWaiting gives connections to calls that wait, and makes new ones.
func (p *pool) startWaiting() {
	for !p.down && p.queue.len() > 0 {
		switch {
		case !p.queue.items[p.queue.head].waiting:
			p.queue.pop()
		case p.idle > 0:
			p.idle--
			p.begin(p.queue.pop())
		case p.open < p.size:
			p.connect(p.queue.pop())
		default:
			return
		}
	}
}

// connect makes a connection for a call, or is refused one.
func (p *pool) connect(c *call) {
	c.waiting = false
	p.open++
	life := p.life
	const trips = 4 // TCP, TLS, start of the session, its settings
	p.after(trips*ms(p.p.DBTrip), func() {
		switch {
		case p.life != life:
			p.ask(c) // nothing was sent yet
			return
		case p.connected.n >= int(p.p.DBMost):
			p.open--
			p.turned++
			c.done(false)
			return
		}
		p.connected.add(1)
		p.cpu.serve(ms(p.p.DBConnect), func() {
			if p.life != life {
				p.ask(c)
				return
			}
			p.begin(c)
		})
	})
}

// begin makes a call on a connection that is free.
func (p *pool) begin(c *call) {
	c.waiting = false
	c.at = len(p.under)
	p.under = append(p.under, c)
	p.busy.add(1)
	life := p.life
	still := func(next func()) func() {
		return func() {
			if p.life == life {
				next()
			}
		}
	}
	end := still(func() { p.end(c) })
	p.after(ms(p.p.DBTrip), still(func() {
		p.cpu.serve(p.exponential(c.cpu), still(func() {
			switch {
			case c.writes:
				p.log.commit(end)
			case c.bytes > 0:
				p.wire.serve(seconds(c.bytes*8/1e9/p.p.DBWire), func() {
					p.sent = grown(p.sent, p.now)
					p.sent[p.now/time.Second] += int64(c.bytes)
					end()
				})
			default:
				end()
			}
		}))
	}))
}

func (p *pool) end(c *call) {
	last := p.under[len(p.under)-1]
	p.under[c.at], last.at = last, c.at
	p.under = p.under[:len(p.under)-1]
	p.busy.add(-1)
	p.idle++
	p.startWaiting()
	c.done(true)
}
