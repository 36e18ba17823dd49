package main

import (
	"context"
	"crypto/x509"
	"log/slog"
	"time"

	"github.com/openthreeds/threeds/internal/revocation"
)

// ends are when certificates expire, by the key of the configuration that names their
// file; of several in one file the earliest.
type ends map[string]time.Time

func (e ends) add(key string, cert *x509.Certificate) {
	if at, ok := e[key]; !ok || cert.NotAfter.Before(at) {
		e[key] = cert.NotAfter
	}
}

// terms are from when to when revocation lists are valid, by the key of the
// configuration that names their file; of several in one file the one that ends first.
type terms map[string]term

type term struct{ from, to time.Time }

func (t terms) add(key string, list *revocation.List) {
	if other, ok := t[key]; !ok || list.Next.Before(other.to) {
		t[key] = term{list.This, list.Next}
	}
}

func (t terms) ends() map[string]time.Time {
	all := make(map[string]time.Time, len(t))
	for key, term := range t {
		all[key] = term.to
	}
	return all
}

// notices are how long before a certificate expires the log has something to say of it.
// Of one that is within the first of them already, at a start or a reload, load warns.
var notices = []time.Duration{soon, 14 * 24 * time.Hour, 7 * 24 * time.Hour, 24 * time.Hour, 0}

// notices are the same for a revocation list. Some are valid for hours, some for months;
// its successor is out long before a quarter of that is left.
func (t term) notices() []time.Duration { return []time.Duration{t.to.Sub(t.from) / 4, 0} }

// An expiry logs when a certificate, or a revocation list, comes near its end while the
// server runs.
type expiry struct {
	log  *slog.Logger
	past map[ending]int // how many of the notices were due at the last look
}

type ending struct {
	key string
	end time.Time
}

// look logs the notices that have become due since the look before. Of what was not
// configured then it says nothing.
func (e *expiry) look(all ends, due terms, now time.Time) {
	past := make(map[ending]int, len(all)+len(due))
	for key, end := range all {
		e.one(ending{key, end}, notices, now, past, "certificate expires", "certificate has expired")
	}
	for key, t := range due {
		e.one(ending{key, t.to}, t.notices(), now, past, "revocation list is soon out of date", "revocation list is out of date")
	}
	e.past = past
}

// one looks at one certificate or list, and logs near or over.
func (e *expiry) one(what ending, due []time.Duration, now time.Time, past map[ending]int, near, over string) {
	n := 0
	for _, left := range due {
		if !now.Before(what.end.Add(-left)) {
			n++
		}
	}
	past[what] = n
	switch before, known := e.past[what]; {
	case !known || n <= before: // less when the clock was set back
	case n == len(due):
		e.log.Error(over, "key", what.key, "at", what.end)
	default:
		e.log.Warn(near, "key", what.key, "at", what.end, "within", due[n-1])
	}
}

// watchEnds looks every hour until ctx ends.
func (n *node) watchEnds(ctx context.Context) {
	e := expiry{log: n.cfg.Log}
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		cfg := &n.current().cfg
		e.look(cfg.Ends, cfg.Due, n.cfg.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
