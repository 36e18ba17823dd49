package server

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/peers/directory"
)

// operatorInterval is how often the server looks for events for the operator.
const operatorInterval = time.Minute

// watchForOperator tells the operator of old card ranges and of certificates that end, until ctx ends.
func (s *Server) watchForOperator(ctx context.Context) {
	w := &operatorWatch{server: s, told: make(map[string]bool)}
	for isRunning := true; isRunning; isRunning = tasks.Sleep(ctx, operatorInterval) {
		if cfg := &s.activeRuntime().cfg; len(cfg.Webhooks.Operator) > 0 {
			w.checkRanges(ctx, cfg)
			w.checkCertificates(ctx, cfg)
			w.tellHead(ctx)
		}
	}
}

// An operatorWatch tells the operator of each occurrence once. Other nodes do the same, and the store takes the first.
type operatorWatch struct {
	server *Server
	told   map[string]bool // by type and occurrence, so that the store is not asked again
}

// storeEvent stores an event for the operator, unless this node has already stored one for the occurrence. After a
// failure it is tried again.
func (w *operatorWatch) storeEvent(ctx context.Context, kind api.EventType, occurrence string, data any) {
	key := string(kind) + " " + occurrence
	if w.told[key] {
		return
	}
	if err := w.server.hooks.TellOperator(ctx, kind, occurrence, data); err != nil {
		if ctx.Err() == nil {
			w.server.cfg.Log.Warn("event for the operator not stored", "type", kind, "err", err)
		}
		return
	}
	w.told[key] = true
}

// checkRanges stores events about old card ranges, at the ages that the log and the alerts use. What it reads is shared
// by all nodes.
func (w *operatorWatch) checkRanges(ctx context.Context, cfg *Config) {
	for _, d := range cfg.Directories {
		status, err := directory.ReadRefreshStatus(ctx, w.server.db, d.Scheme)
		if err != nil || status.Loaded.IsZero() {
			continue // without a store there are no events, and without ranges none are old
		}
		severity := directory.Severity(w.server.timestamp().Sub(status.Loaded))
		if severity == "" {
			continue
		}
		stale := api.RangesStale{
			Scheme: d.Scheme, Loaded: wholeSeconds(status.Loaded), Severity: severity, Fault: status.Fault,
		}
		w.storeEvent(ctx, api.EventRangesStale, d.Scheme+" "+stale.Loaded.Format(time.RFC3339)+" "+severity, stale)
	}
}

// checkCertificates stores events about certificates that end, at the times of certificateNotices.
func (w *operatorWatch) checkCertificates(ctx context.Context, cfg *Config) {
	now := w.server.timestamp()
	for key, end := range cfg.CertificateEnds {
		due := countDue(certificateNotices, end, now)
		if due == 0 {
			continue
		}
		data := api.CertificateExpiring{
			Key: key, Scheme: api.Text(cfg.schemeOf(key)), Expires: wholeSeconds(end), Expired: !now.Before(end),
		}
		left := certificateNotices[due-1]
		w.storeEvent(ctx, api.EventCertificateExpiring, key+" "+data.Expires.Format(time.RFC3339)+" "+left.String(), data)
	}
}

// countDue returns how many of the notices before an end are due.
func countDue(notices []time.Duration, end, now time.Time) (n int) {
	for _, left := range notices {
		if !now.Before(end.Add(-left)) {
			n++
		}
	}
	return n
}

func wholeSeconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// tellHead tells the operator how far the journal has come: once a day, and once more under another key. Nodes tell it
// together once.
func (w *operatorWatch) tellHead(ctx context.Context) {
	j := w.server.journal
	if j == nil {
		return
	}
	h, ok := j.Head()
	if !ok || h.N == 0 {
		return
	}
	key := j.Keys.KeyID()
	w.storeEvent(ctx, api.EventJournalHead, w.server.timestamp().UTC().Format(time.DateOnly)+" "+key,
		api.JournalHead{Number: h.N, Hash: hex.EncodeToString(h.Hash), At: h.At.UTC().Truncate(time.Second), KeyID: key})
}
