package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/run/config"
)

// listEnds are when revocation lists go out of date.
func listEnds(terms map[string]config.Term) map[string]time.Time {
	ends := make(map[string]time.Time, len(terms))
	for key, term := range terms {
		ends[key] = term.To
	}
	return ends
}

// certificateNotices are how long before its end a certificate is logged. A certificate that
// is already within the first of them at a start or a reload is in the warnings of the
// configuration.
var certificateNotices = []time.Duration{config.Soon, 14 * 24 * time.Hour, 7 * 24 * time.Hour, 24 * time.Hour, 0}

// listNotices are how long before its end a revocation list is logged. Some lists are valid
// for hours and some for months; the next list is out long before a quarter of that is left.
func listNotices(t config.Term) []time.Duration { return []time.Duration{t.To.Sub(t.From) / 4, 0} }

// An expiry logs when a certificate, or a revocation list, comes near its end while the
// server runs.
type expiryLog struct {
	log     *slog.Logger
	noticed map[expiringFile]int // how many of the notices were due at the last look
}

type expiringFile struct {
	key string
	end time.Time
}

// check logs the notices that have become due since the previous check. It skips what was not configured at that time.
func (e *expiryLog) check(ends map[string]time.Time, terms map[string]config.Term, now time.Time) {
	past := make(map[expiringFile]int, len(ends)+len(terms))
	for key, end := range ends {
		e.logDue(expiringFile{key, end}, certificateNotices, now, past, "certificate expires", "certificate has expired")
	}
	for key, t := range terms {
		e.logDue(expiringFile{key, t.To}, listNotices(t), now, past, "revocation list is soon out of date",
			"revocation list is out of date")
	}
	e.noticed = past
}

// logDue looks at one certificate or list, and logs near or over.
func (e *expiryLog) logDue(what expiringFile, due []time.Duration, now time.Time, past map[expiringFile]int,
	near, over string) {
	n := countDue(due, what.end, now)
	past[what] = n
	switch before, known := e.noticed[what]; {
	case !known || n <= before: // less when the clock was set back
	case n == len(due):
		e.log.Error(over, "key", what.key, "at", what.end)
	default:
		e.log.Warn(near, "key", what.key, "at", what.end, "within", due[n-1])
	}
}

// watchExpiry looks every hour until ctx ends.
func (s *Server) watchExpiry(ctx context.Context) {
	e := expiryLog{log: s.cfg.Log}
	for isRunning := true; isRunning; isRunning = tasks.Sleep(ctx, time.Hour) {
		cfg := &s.activeRuntime().cfg
		e.check(cfg.CertificateEnds, cfg.ListTerms, s.cfg.Now())
	}
}
