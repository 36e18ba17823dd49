package directory

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// A breaker that opens without need costs payments; one that opens late costs only time. So it opens after many
// failures, over some seconds, without an answer in between. With less than one request per trialInterval none is ever
// refused.
const (
	breakFailures = 10              // in a row, at least
	breakTime     = 5 * time.Second // from the first of them to the last, at least
	trialInterval = 2 * time.Second // least time between two requests that an open breaker lets through
	trialReserve  = 2 * time.Second // how much longer a trial is reserved for another merchant
)

// A breaker keeps requests of one kind from a directory server that is gone. It opens after a run of failures to reach
// it (see [Error.gone]) without an answer in between. A request that was delivered and gets no answer in time does not
// count: one card whose issuer is silent would close the scheme for all.
//
// While it is open, requests get the last error immediately, except for a trial every trialInterval. The merchants take
// turns: a trial is reserved for a merchant that was refused since the last trial and has had no trial, or an earlier
// one. The breaker closes when a connection is made, its TLS handshake included, or when an answer comes.
type breaker struct {
	disabled bool                                        // the breaker never opens
	onChange func(open bool, last *Error, refused int64) // called with mu held when the breaker opens or closes
	publish  func()                                      // called with mu held; tells a hook whether the breaker is open

	mu        sync.Mutex
	answered  time.Time // the latest answer
	reached   time.Time // when a connection was last made without an answer yet
	failures  int       // requests in a row that began after both times and failed to reach it
	since     time.Time // when the first of these failures ended
	last      *Error    // the latest of these failures
	isOpen    bool
	lastTrial time.Time // when it opened, or let a request through since
	refused   int64     // how many requests were refused since it opened
	// the latest trial of each merchant since the breaker opened
	trials            map[string]time.Time
	refusedSinceTrial bool      // a request was refused since the latest trial
	oldestTrial       time.Time // the earliest trial among the merchants that were refused since the latest trial
}

// A BreakerState is what keeps AReqs from a directory server on this node.
type BreakerState struct {
	Disabled bool      // nothing ever does
	Open     bool      // most AReqs are refused immediately
	Since    time.Time // when the first of the failures ended; zero without any
	Fault    string    // the latest failure; "" without any
	Refused  int64     // how many AReqs were refused since the breaker opened
}

// Breaker returns the state of the breaker of a scheme's directory server. It is the zero value for an unknown scheme.
func (c *Client) Breaker(scheme string) BreakerState {
	p := c.peers[scheme]
	if p == nil {
		return BreakerState{}
	}
	b := &p.breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	state := BreakerState{Disabled: b.disabled, Open: b.isOpen}
	if b.failures > 0 {
		state.Since, state.Fault = b.since, b.last.Text
	}
	if b.isOpen {
		state.Refused = b.refused
	}
	return state
}

// admit returns nil if a request of a merchant may be sent, else the *Error that answers it.
func (b *breaker) admit(now time.Time, merchant string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isOpen || b.takeTrial(now, merchant) {
		return nil
	}
	if mine := b.trials[merchant]; !b.refusedSinceTrial || mine.Before(b.oldestTrial) {
		b.refusedSinceTrial, b.oldestTrial = true, mine
	}
	b.refused++
	return &Error{Scheme: b.last.Scheme, Kind: Open, Text: b.last.Text, Err: b.last}
}

// takeTrial reports whether a request of a merchant is the next trial.
func (b *breaker) takeTrial(now time.Time, merchant string) bool {
	waited := now.Sub(b.lastTrial)
	othersTurn := b.refusedSinceTrial && b.oldestTrial.Before(b.trials[merchant])
	if waited < trialInterval || othersTurn && waited < trialInterval+trialReserve {
		return false
	}
	b.lastTrial, b.refusedSinceTrial = now, false
	b.trials[merchant] = now
	return true
}

// record takes the outcome of a request that began at start and had the given timeout. Dead reports that the request
// timed out and that no other was answered meanwhile: then all present connections may be dead.
func (b *breaker) record(start, now time.Time, timeout time.Duration, err error) (dead bool) {
	failed, ok := errors.AsType[*Error](err)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !ok || failed.Kind == Status || failed.Kind == TooLarge || failed.Kind == Encoding {
		b.answered = now
		b.close()
		return false
	}
	timedOut := failed.Kind == Timeout && now.Sub(start) >= timeout/2 // a sooner timeout is the caller's
	switch {
	case failed.gone && (timedOut || failed.Kind != Timeout):
		b.recordFailure(start, now, failed)
	case timedOut && b.lastWasHangUp(): // now it does not
		b.reached = now
		b.close()
	}
	return timedOut && !start.Before(b.answered)
}

// connected notes that a connection has been made, TLS handshake included. That does not close the breaker if such
// connections were ended without an answer so far: in TLS 1.3 a directory server that refuses our certificate does so.
func (b *breaker) connected(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.lastWasHangUp() {
		b.reached = now
		b.close()
	}
}

// lastWasHangUp reports whether the latest failure was a new connection that ended before any byte of an answer.
func (b *breaker) lastWasHangUp() bool { return b.failures > 0 && b.last.Kind == Broken }

// close ends a run of failures and closes the breaker.
func (b *breaker) close() {
	b.failures = 0
	if b.isOpen {
		b.isOpen = false
		b.onChange(false, b.last, b.refused)
	}
}

// recordFailure counts a failure, unless the directory server has answered or was reached since the request began. If
// the connection of the request ended without an answer, having been reached does not count.
func (b *breaker) recordFailure(start, now time.Time, failed *Error) {
	if start.Before(b.answered) || start.Before(b.reached) && failed.Kind != Broken {
		return
	}
	if b.failures == 0 {
		b.since = now
	}
	b.failures++
	b.last = failed
	if !b.disabled && !b.isOpen && b.failures >= breakFailures && now.Sub(b.since) >= breakTime {
		b.trip(now)
		b.onChange(true, failed, 0)
	}
}

// trip opens the breaker.
func (b *breaker) trip(now time.Time) {
	b.isOpen, b.lastTrial, b.refused = true, now, 0
	b.trials, b.refusedSinceTrial = make(map[string]time.Time), false
}

// sendThroughBreaker makes a request of a merchant if the breaker admits it. When the request has timed out
// and no other was answered meanwhile, it closes the idle connections: a firewall that has forgotten them
// drops what is sent on them.
func (p *peer) sendThroughBreaker(ctx context.Context, merchant string,
	request func(context.Context) ([]byte, error)) ([]byte, error) {
	start := time.Now()
	if err := p.breaker.admit(start, merchant); err != nil {
		return nil, err
	}
	connected := func() { p.breaker.connected(time.Now()) }
	answer, err := request(context.WithValue(ctx, connectedKey{}, connected))
	if p.breaker.record(start, time.Now(), p.Timeout, err) {
		p.client.CloseIdle()
	}
	return answer, err
}

// setNotifications makes the breaker report its changes to the log and the hook, which may be nil. What is the name of
// the message.
func (b *breaker) setNotifications(log *slog.Logger, scheme, what string,
	hook func(scheme, message string, open bool)) {
	log = log.With("scheme", scheme, "message", what)
	b.publish = func() {
		if hook != nil {
			hook(scheme, what, b.isOpen)
		}
	}
	b.onChange = func(open bool, last *Error, refused int64) {
		if open {
			log.Error("directory cannot be reached, requests are refused immediately", "failures", b.failures, "err", last)
		} else {
			log.Warn("directory can be reached again", "refused", refused)
		}
		b.publish()
	}
}

// publishState tells the hook whether the breaker is open. It is called when the peer is taken into use.
func (b *breaker) publishState() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.publish()
}

// stopNotifying ends all reports. It is called when the peer has been replaced or removed: the outcome of its last
// requests says nothing about its successor.
func (b *breaker) stopNotifying() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onChange, b.publish = func(bool, *Error, int64) {}, func() {}
}
