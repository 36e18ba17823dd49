package main

import "time"

// A directory is the directory server of a scheme. Its answers take a random time, and it
// does a limited number of handshakes a second.
type directory struct {
	*fleet
	median time.Duration
	sigma  float64
	silent bool     // it accepts no connection and answers no request
	hands  *station // does the handshakes
}

// A peer is a directory as one node has it: internal/peers/directory.
type peer struct {
	*directory
	node     *node
	inFlight gauge
	conns    gauge
	idle     int
	dialing  int
	dials    fifo[*exchange]
	waiting  fifo[*exchange]
	breaker  breaker
}

// An exchange is an AReq on its way.
type exchange struct {
	began     time.Duration
	waiting   bool // for a connection
	delivered bool // it was sent on one
	tries     int
	done      func(outcome)
}

func (e *exchange) deadline(p *params) time.Duration { return e.began + seconds(p.Timeout) }

// send makes an exchange, unless bulkhead or breaker refuse it.
func (p *peer) send(done func(outcome)) {
	if p.p.Breaker > 0 && !p.breaker.enter(p.now) {
		done(refusedOpen)
		return
	}
	if p.p.PerDirectory > 0 && p.inFlight.n >= int(p.p.PerDirectory) {
		done(refusedBusy)
		return
	}
	p.inFlight.add(1)
	life := p.node.life
	e := &exchange{began: p.now}
	e.done = func(o outcome) {
		if p.node.life != life {
			return
		}
		p.inFlight.add(-1)
		switch {
		case o == answered:
			p.breaker.reached(p.now)
		case !e.delivered:
			p.breaker.failed(e.began, p.now)
		}
		done(o)
	}
	if p.idle > 0 {
		p.idle--
		p.use(e)
		return
	}
	e.waiting = true
	p.waiting.push(e)
	p.dial(e)
	p.after(seconds(p.p.Timeout), func() {
		if e.waiting {
			e.waiting = false
			e.done(failedTimeout)
		}
	})
}

// use sends a request on a connection. If no answer comes in time, the connection is closed.
func (p *peer) use(e *exchange) {
	e.delivered = true
	takes := p.lognormal(p.median, p.sigma)
	late := func() {
		p.conns.add(-1)
		e.done(failedTimeout)
	}
	if p.silent || p.now+takes > e.deadline(p.p) {
		p.after(e.deadline(p.p)-p.now, late)
		return
	}
	p.after(takes, func() {
		if p.silent {
			p.after(e.deadline(p.p)-p.now, late)
			return
		}
		p.free()
		e.done(answered)
	})
}

// free gives a connection to the request that has waited longest.
func (p *peer) free() {
	for p.waiting.len() > 0 {
		if e := p.waiting.pop(); e.waiting {
			e.waiting = false
			p.use(e)
			return
		}
	}
	p.idle++
}

// dial makes a connection because a request waits. As with net/http, the request may get
// another one meanwhile; the new one goes to whichever request waits then.
func (p *peer) dial(e *exchange) {
	if p.dialing >= int(p.p.MaxDials) {
		p.dials.push(e)
		return
	}
	p.dialing++
	if p.silent {
		p.after(seconds(p.p.DialTimeout), func() { p.dialed(e, false) })
		return
	}
	const trips = 2 // TCP, TLS 1.3
	p.after(trips*ms(p.p.DSTrip), func() {
		p.node.cpu.serve(us(p.p.Handshake), func() {
			p.hands.serve(seconds(p.p.Cells/p.p.DSHands), func() { p.dialed(e, true) })
		})
	})
}

func (p *peer) dialed(e *exchange, ok bool) {
	p.dialing--
	for p.dials.len() > 0 && p.dialing < int(p.p.MaxDials) {
		if next := p.dials.pop(); p.now < next.deadline(p.p) { // even if the request has a connection by now
			p.dial(next)
		}
	}
	if ok {
		p.breaker.reached(p.now)
		p.conns.add(1)
		p.free()
		return
	}
	if !e.waiting {
		return
	}
	if e.tries++; e.tries < 2 && p.now < e.deadline(p.p) {
		p.dial(e)
		return
	}
	e.waiting = false
	e.done(failedTimeout)
}

// A breaker opens after breakFailures failures to connect in a row that took breakTime at least. Then
// it lets one request through every trialEvery, until a connection is made or an answer comes.
type breaker struct {
	there, since, trial time.Duration // there is when a connection was made or an answer came
	failures            int
	open                bool
}

const (
	breakFailures = 10
	breakTime     = 5 * time.Second
	trialEvery    = 2 * time.Second
)

func (b *breaker) enter(now time.Duration) bool {
	if !b.open {
		return true
	}
	if now-b.trial < trialEvery {
		return false
	}
	b.trial = now
	return true
}

// reached notes that a connection was made, or that an answer came.
func (b *breaker) reached(now time.Duration) {
	b.there, b.failures, b.open = now, 0, false
}

// failed notes that a request found no connection.
func (b *breaker) failed(began, now time.Duration) {
	if began < b.there {
		return
	}
	if b.failures++; b.failures == 1 {
		b.since = now
	}
	if !b.open && b.failures >= breakFailures && now-b.since >= breakTime {
		b.open, b.trial = true, now
	}
}
