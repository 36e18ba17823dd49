package main

import (
	"context"
	"crypto/x509"
	"log/slog"
	"time"

	"github.com/openthreeds/threeds/internal/revocation"
)

// ends are when certificates end, by the key of the configuration that names their
// file: of several in one file the first that does.
type ends map[string]time.Time

func (e ends) add(key string, cert *x509.Certificate) {
	if at, ok := e[key]; !ok || cert.NotAfter.Before(at) {
		e[key] = cert.NotAfter
	}
}

// terms are how long revocation lists hold, by the key of the configuration that names
// their file: of several in one file that which ends first.
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

// notices are how long before its end the log has something to say of a certificate.
// What is within the first of them at a start or a reload is said then.
var notices = []time.Duration{soon, 14 * 24 * time.Hour, 7 * 24 * time.Hour, 24 * time.Hour, 0}

// notices are the same of a list, which may hold for hours or for months: the next one
// is there long before when a quarter of its time is left.
func (t term) notices() []time.Duration { return []time.Duration{t.to.Sub(t.from) / 4, 0} }

// An expiry tells of certificates, and of revocation lists, that come to their end while
// the server runs.
type expiry struct {
	log  *slog.Logger
	past map[ending]int // how many of the notices are over
}

type ending struct {
	key string
	end time.Time
}

// look says what has changed since the look before; of what was not there then it says
// nothing.
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

func (e *expiry) one(what ending, notices []time.Duration, now time.Time, past map[ending]int, soon, over string) {
	n := 0
	for _, left := range notices {
		if !now.Before(what.end.Add(-left)) {
			n++
		}
	}
	past[what] = n
	switch before, known := e.past[what]; {
	case !known || n == before:
	case n == len(notices):
		e.log.Error(over, "key", what.key, "at", what.end)
	default:
		e.log.Warn(soon, "key", what.key, "at", what.end, "within", notices[n-1])
	}
}

// watchEnds looks every hour until ctx ends.
func (n *node) watchEnds(ctx context.Context) error {
	e := expiry{log: n.cfg.Log}
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		cfg := &n.current().cfg
		e.look(cfg.Ends, cfg.Due, n.cfg.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
