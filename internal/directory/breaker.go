package directory

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

// When a breaker opens, and how often it lets a request through then. Opening
// for no reason costs payments, waiting in vain costs only time: so the
// directory server must have been silent, to many requests and for seconds on
// end. Where less than a request comes in trialEvery, none is ever refused.
const (
	breakFailures = 10
	breakTime     = 5 * time.Second
	trialEvery    = 2 * time.Second
)

// A breaker is between the requests of one kind and a directory server that
// cannot be reached. It opens after a run of failures without an answer in
// between; then requests get the error of the last one at once. Now and then one
// is let through all the same: the first answer closes it.
type breaker struct {
	off  bool                                        // it never opens
	told func(open bool, last *Error, refused int64) // of each change, one at a time
	show func()                                      // tells a hook how things stand; mu is held

	mu       sync.Mutex
	answered time.Time // the latest answer
	failures int       // of requests that began after that, without an answer
	since    time.Time // when the first of them ended
	last     *Error
	open     bool
	trial    time.Time // when a request was let through, if it is open
	refused  int64     // since it is open
}

// enter returns why a request is not even tried; nil if it is.
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

// leave tells what came of a request that began at start and could have taken so
// long. It reports whether nothing else was answered in all that time either:
// then connections made before are worth nothing.
func (b *breaker) leave(start, now time.Time, patience time.Duration, err error) (dead bool) {
	failed, ok := errors.AsType[*Error](err)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !ok || failed.Kind == Status || failed.Kind == TooLarge || failed.Kind == Encoding:
		b.answer(now)
	case failed.Kind == Connect, failed.Kind == Proxy, failed.Kind == Timeout && now.Sub(start) >= patience/2: // else it was not given its time
		b.failure(start, now, failed)
		return failed.Kind == Timeout && !start.Before(b.answered)
	}
	return false
}

// answer closes: the directory server is there, whatever it says.
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

// spared makes a request if the breaker lets it. After a time in which nobody was
// answered new requests go over new connections: a firewall that has forgotten
// the old ones lets them end without a word.
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

// announce tells the log and a hook of a breaker's changes. What is the name of
// the message.
func (b *breaker) announce(log *slog.Logger, scheme, what string, hook func(scheme, message string, open bool)) {
	log = log.With("scheme", scheme, "message", what)
	b.show = func() {
		if hook != nil {
			hook(scheme, what, b.open)
		}
	}
	b.told = func(open bool, last *Error, refused int64) {
		if open {
			log.Error("directory cannot be reached, requests are refused at once", "failures", b.failures, "error", last)
		} else {
			log.Warn("directory answers again", "refused", refused)
		}
		b.show()
	}
}

// begin tells the hook how things stand: from now on this breaker counts.
func (b *breaker) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.show()
}

// retire has nobody told any more: what still comes of requests under way says
// nothing about the peer that has taken the place of this one, and no answer will
// ever close it.
func (b *breaker) retire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told, b.show = func(bool, *Error, int64) {}, func() {}
}
