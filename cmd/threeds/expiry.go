package main

import (
	"context"
	"crypto/x509"
	"log/slog"
	"time"
)

// ends are when certificates end, by the key of the configuration that names their
// file: of several in one file the first that does.
type ends map[string]time.Time

func (e ends) add(key string, cert *x509.Certificate) {
	if at, ok := e[key]; !ok || cert.NotAfter.Before(at) {
		e[key] = cert.NotAfter
	}
}

// notices are how long before its end the log has something to say of a certificate.
// What is within the first of them at a start or a reload is said then.
var notices = [...]time.Duration{soon, 14 * 24 * time.Hour, 7 * 24 * time.Hour, 24 * time.Hour, 0}

// An expiry tells of certificates that come to their end while the server runs.
type expiry struct {
	log  *slog.Logger
	past map[certificate]int // how many of the notices are over
}

type certificate struct {
	key string
	end time.Time
}

// look says what has changed since the look before; of a certificate that was not
// there then it says nothing.
func (e *expiry) look(all ends, now time.Time) {
	past := make(map[certificate]int, len(all))
	for key, end := range all {
		c, over := certificate{key, end}, 0
		for _, left := range notices {
			if !now.Before(end.Add(-left)) {
				over++
			}
		}
		past[c] = over
		switch before, known := e.past[c]; {
		case !known || over == before:
		case over == len(notices):
			e.log.Error("certificate has expired", "key", key, "at", end)
		default:
			e.log.Warn("certificate expires", "key", key, "at", end, "within", notices[over-1])
		}
	}
	e.past = past
}

// watchEnds looks every hour until ctx ends.
func (n *node) watchEnds(ctx context.Context) error {
	e := expiry{log: n.cfg.Log}
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		e.look(n.current().cfg.Ends, n.cfg.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
