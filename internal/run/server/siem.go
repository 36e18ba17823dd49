package server

import (
	"crypto/tls"
	"os"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/edge/console"
	"github.com/openthreeds/threeds/internal/operate/siem"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// siemTimeout is how long a receiver of signed requests may take to answer.
const siemTimeout = 10 * time.Second

// siemSender returns what sends to the SIEM of a configuration; nil means that there is none.
func siemSender(c *config.SIEM) siem.Sender {
	switch {
	case c == nil:
		return nil
	case c.Webhook != "":
		return &siem.Webhook{
			URL: c.Webhook, Secret: c.Secret.Key,
			Sender: webhook.NewSender(webhook.Addresses{}.ForOperator(), siemTimeout, c.CA.Pool, time.Now),
		}
	}
	host, _ := os.Hostname() // without a name messages have none
	return &siem.Syslog{
		Address: c.Address(), Host: host, EndIsEnough: c.Confirmation == config.ByEnd,
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: certs.StrongSuites(), RootCAs: c.CA.Pool},
	}
}

// newSIEM returns what sends the audit trail and the seals of the journal.
func (s *Server) newSIEM() *siem.Service {
	to := &siem.Service{
		Store: s.db, Sealer: sealer{&s.ring, new(atomic.Uint64)}, Trail: s.operators, Log: s.cfg.Log, Now: s.timestamp,
		Head:   func() (journal.Head, bool) { return journal.Head{}, false },
		Sender: func() siem.Sender { return s.activeRuntime().cfg.SIEM },
	}
	if s.journal != nil {
		to.Journal, to.Head = s.journal.Store, s.journal.Head
	}
	return to
}

// siemCondition says whether the SIEM gets what it is to get.
func siemCondition(to *siem.Service) console.Condition {
	return console.Condition{Name: "siem", Check: func() (string, bool) { return to.Problem(), true }}
}

// registerSIEMMetrics adds the metrics of what is sent to a SIEM.
func registerSIEMMetrics(m *obs.Metrics, to *siem.Service, now func() time.Time) {
	const waiting, help = "threeds_siem_waiting",
		"Entries of the audit trail and seals of the journal that wait to be sent to the SIEM."
	m.Gauge(waiting, help, "chain", journal.AuditChain, func() float64 { return float64(to.Status().Audit) })
	m.Gauge(waiting, help, "chain", siem.JournalChain, func() float64 { return float64(to.Status().Journal) })
	m.Gauge("threeds_siem_waiting_seconds", "How long the oldest of them waits.", "", "", func() float64 {
		if since := to.Status().Since; !since.IsZero() {
			return max(now().Sub(since).Seconds(), 0)
		}
		return 0
	})
	const sent, sentHelp = "threeds_siem_sent_total",
		"Entries and seals that this node has sent and the SIEM has confirmed."
	m.CounterOf(sent, sentHelp, "chain", journal.AuditChain, func() float64 { n, _, _ := to.Counts(); return float64(n) })
	m.CounterOf(sent, sentHelp, "chain", siem.JournalChain, func() float64 { _, n, _ := to.Counts(); return float64(n) })
	m.Counter("threeds_siem_failures_total", "Attempts of this node to send to the SIEM that have failed.",
		func() float64 { _, _, n := to.Counts(); return float64(n) })
}
