package directory

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// A breaker that opens for no reason costs payments; one that opens late costs only
// time. So it takes many failures, over some seconds, and no answer in between. With
// less than one request in trialEvery none is ever refused.
const (
	breakFailures = 10              // in a row, at least
	breakTime     = 5 * time.Second // from the first of them to the last, at least
	trialEvery    = 2 * time.Second // how often an open breaker lets a request through, at most
	trialHeld     = 2 * time.Second // how much longer a trial is held for another merchant than the one that asks for it
)

// A breaker keeps requests of one kind from a directory server that is gone. It opens after a run of failures to reach
// it (see [Error.gone]) without an answer in between. A request that was delivered and gets no answer in time does not
// count: one card whose issuer is silent would close the scheme for all.
//
// While it is open, requests get the last error at once. Now and then one is let through all the same, as a trial. The
// merchants take turns: the trial is held for one that asked since the last trial and has had none, or had its own
// longer ago. The breaker closes when a connection is made, its TLS handshake included, or an answer comes.
type breaker struct {
	off  bool                                        // it never opens
	told func(open bool, last *Error, refused int64) // called when it opens or closes; mu is held
	show func()                                      // tells a hook whether it is open; mu is held

	mu       sync.Mutex
	answered time.Time // the latest answer
	reached  time.Time // when the directory server was last seen to be there without one
	failures int       // how many requests that began after both have failed to reach it
	since    time.Time // when the first of them ended
	last     *Error    // of them
	open     bool
	trial    time.Time            // when it opened, or let a request through since
	refused  int64                // how many requests were refused since it opened
	tried    map[string]time.Time // the latest trial of each merchant since it opened; none: it had none
	asked    bool                 // a request was refused since the latest trial
	eldest   time.Time            // the least of tried, of the merchants that were refused since the latest trial
}

// enter returns nil if a request of a merchant may be sent, else the *Error to answer it with.
func (b *breaker) enter(now time.Time, merchant string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open || b.takeTrial(now, merchant) {
		return nil
	}
	if mine := b.tried[merchant]; !b.asked || mine.Before(b.eldest) {
		b.asked, b.eldest = true, mine
	}
	b.refused++
	return &Error{Scheme: b.last.Scheme, Kind: Open, Text: b.last.Text, Err: b.last}
}

// takeTrial reports whether a request of a merchant is the next trial.
func (b *breaker) takeTrial(now time.Time, merchant string) bool {
	waited := now.Sub(b.trial)
	othersTurn := b.asked && b.eldest.Before(b.tried[merchant])
	if waited < trialEvery || othersTurn && waited < trialEvery+trialHeld {
		return false
	}
	b.trial, b.asked = now, false
	b.tried[merchant] = now
	return true
}

// leave takes the outcome of a request that began at start and was given patience to
// end. Dead reports that the request timed out and no other was answered meanwhile
// either: then all present connections may be dead.
func (b *breaker) leave(start, now time.Time, patience time.Duration, err error) (dead bool) {
	failed, ok := errors.AsType[*Error](err)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !ok || failed.Kind == Status || failed.Kind == TooLarge || failed.Kind == Encoding {
		b.answered = now
		b.close()
		return false
	}
	timedOut := failed.Kind == Timeout && now.Sub(start) >= patience/2 // a sooner timeout is the caller's
	switch {
	case failed.gone && (timedOut || failed.Kind != Timeout):
		b.failure(start, now, failed)
	case timedOut && b.hungUp(): // now it does not
		b.reached = now
		b.close()
	}
	return timedOut && !start.Before(b.answered)
}

// connected notes that a connection has been made, its TLS handshake included. It says nothing of a directory server
// that has ended such connections so far, as one that does not take our certificate does in TLS 1.3.
func (b *breaker) connected(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.hungUp() {
		b.reached = now
		b.close()
	}
}

// hungUp reports whether the latest failure was a new connection that ended before any byte of an answer.
func (b *breaker) hungUp() bool { return b.failures > 0 && b.last.Kind == Broken }

// close ends a run of failures and closes the breaker.
func (b *breaker) close() {
	b.failures = 0
	if b.open {
		b.open = false
		b.told(false, b.last, b.refused)
	}
}

// failure adds to the run, unless the directory server was seen to be there since the request began. That the
// connection of a request was made is nothing to be said for it if it ended without an answer.
func (b *breaker) failure(start, now time.Time, failed *Error) {
	if start.Before(b.answered) || start.Before(b.reached) && failed.Kind != Broken {
		return
	}
	if b.failures == 0 {
		b.since = now
	}
	b.failures++
	b.last = failed
	if !b.off && !b.open && b.failures >= breakFailures && now.Sub(b.since) >= breakTime {
		b.trip(now)
		b.told(true, failed, 0)
	}
}

// trip opens the breaker.
func (b *breaker) trip(now time.Time) {
	b.open, b.trial, b.refused = true, now, 0
	b.tried, b.asked = make(map[string]time.Time), false
}

// spared makes a request of a merchant if the breaker lets it. When a request has timed out and no
// other was answered meanwhile, idle connections are closed: a firewall that has
// forgotten them would drop whatever is sent on them.
func (p *peer) spared(ctx context.Context, merchant string, request func(context.Context) ([]byte, error)) ([]byte, error) {
	start := time.Now()
	if err := p.breaker.enter(start, merchant); err != nil {
		return nil, err
	}
	connected := func() { p.breaker.connected(time.Now()) }
	answer, err := request(context.WithValue(ctx, connectedKey{}, connected))
	if p.breaker.leave(start, time.Now(), p.Timeout, err) {
		p.client.CloseIdle()
	}
	return answer, err
}

// announce has the log and the hook, which may be nil, told of a breaker's changes.
// What is the name of the message.
func (b *breaker) announce(log *slog.Logger, scheme, what string, hook func(scheme, message string, open bool)) {
	log = log.With("scheme", scheme, "message", what)
	b.show = func() {
		if hook != nil {
			hook(scheme, what, b.open)
		}
	}
	b.told = func(open bool, last *Error, refused int64) {
		if open {
			log.Error("directory cannot be reached, requests are refused at once", "failures", b.failures, "err", last)
		} else {
			log.Warn("directory can be reached again", "refused", refused)
		}
		b.show()
	}
}

// begin tells the hook whether the breaker is open, when its peer is taken into use.
func (b *breaker) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.show()
}

// retire has nothing told from now on: the peer has been replaced or removed, and what
// becomes of its last requests says nothing about its successor.
func (b *breaker) retire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told, b.show = func(bool, *Error, int64) {}, func() {}
}
