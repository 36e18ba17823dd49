package directory

import (
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
	trialEvery    = 2 * time.Second // how often an open breaker lets a request through
)

// A breaker keeps requests of one kind from a directory server that cannot be reached.
// It opens after a run of failures without an answer in between; from then on requests
// get the last error at once. Now and then one is let through all the same: the first
// answer closes the breaker.
type breaker struct {
	off  bool                                        // it never opens
	told func(open bool, last *Error, refused int64) // called when it opens or closes; mu is held
	show func()                                      // tells a hook whether it is open; mu is held

	mu       sync.Mutex
	answered time.Time // the latest answer
	failures int       // how many requests that began after that have failed
	since    time.Time // when the first of them ended
	last     *Error    // of them
	open     bool
	trial    time.Time // when it opened, or let a request through since
	refused  int64     // how many requests were refused since it opened
}

// enter returns nil if a request may be sent, else the *Error to answer it with.
func (b *breaker) enter(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return nil
	}
	if now.Sub(b.trial) >= trialEvery {
		b.trial = now
		return nil
	}
	b.refused++
	return &Error{b.last.Scheme, Open, b.last.Text, 0, b.last}
}

// leave takes the outcome of a request that began at start and was given patience to
// end. Dead reports that the request timed out and no other was answered meanwhile
// either: then all present connections may be dead.
func (b *breaker) leave(start, now time.Time, patience time.Duration, err error) (dead bool) {
	failed, ok := errors.AsType[*Error](err)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !ok || failed.Kind == Status || failed.Kind == TooLarge || failed.Kind == Encoding:
		b.answer(now)
	case failed.Kind == Connect, failed.Kind == Proxy, failed.Kind == Timeout && now.Sub(start) >= patience/2: // a sooner timeout is the caller's
		b.failure(start, now, failed)
		return failed.Kind == Timeout && !start.Before(b.answered)
	}
	return false
}

// answer ends a run of failures and closes the breaker: the directory server is there,
// whatever it says.
func (b *breaker) answer(now time.Time) {
	b.answered, b.failures = now, 0
	if b.open {
		b.open = false
		b.told(false, b.last, b.refused)
	}
}

// failure adds to the run, unless there was an answer since the request began.
func (b *breaker) failure(start, now time.Time, failed *Error) {
	if start.Before(b.answered) {
		return
	}
	if b.failures == 0 {
		b.since = now
	}
	b.failures++
	b.last = failed
	if !b.off && !b.open && b.failures >= breakFailures && now.Sub(b.since) >= breakTime {
		b.open, b.trial, b.refused = true, now, 0
		b.told(true, failed, 0)
	}
}

// spared makes a request if the breaker lets it. When a request has timed out and no
// other was answered meanwhile, idle connections are closed: a firewall that has
// forgotten them would drop whatever is sent on them.
func (p *peer) spared(request func() ([]byte, error)) ([]byte, error) {
	start := time.Now()
	if err := p.breaker.enter(start); err != nil {
		return nil, err
	}
	answer, err := request()
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
			log.Warn("directory answers again", "refused", refused)
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
