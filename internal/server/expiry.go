package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/openthreeds/threeds/internal/config"
)

// listEnds are when revocation lists go out of date.
func listEnds(terms map[string]config.Term) map[string]time.Time {
	ends := make(map[string]time.Time, len(terms))
	for key, term := range terms {
		ends[key] = term.To
	}
	return ends
}

// notices are how long before a certificate expires the log has something to say of it.
// Of one that is within the first of them already, at a start or a reload, load warns.
var notices = []time.Duration{config.Soon, 14 * 24 * time.Hour, 7 * 24 * time.Hour, 24 * time.Hour, 0}

// listNotices are the same for a revocation list. Some are valid for hours, some for months;
// its successor is out long before a quarter of that is left.
func listNotices(t config.Term) []time.Duration { return []time.Duration{t.To.Sub(t.From) / 4, 0} }

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
func (e *expiry) look(ends map[string]time.Time, terms map[string]config.Term, now time.Time) {
	past := make(map[ending]int, len(ends)+len(terms))
	for key, end := range ends {
		e.one(ending{key, end}, notices, now, past, "certificate expires", "certificate has expired")
	}
	for key, t := range terms {
		e.one(ending{key, t.To}, listNotices(t), now, past, "revocation list is soon out of date", "revocation list is out of date")
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
func (n *Server) watchEnds(ctx context.Context) {
	e := expiry{log: n.cfg.Log}
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		cfg := &n.current().cfg
		e.look(cfg.Ends, cfg.ListTerms, n.cfg.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
