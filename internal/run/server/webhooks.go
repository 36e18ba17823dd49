package server

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/obs"
	edgeapi "github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/edge/console"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/record"
	"github.com/openthreeds/threeds/internal/state/store"
)

// WebhookSettings say how events are sent to merchants. Zero values mean the defaults.
type WebhookSettings struct {
	Allow        []netip.Prefix // networks that are not public and that events may go to
	HTTP         bool           // events may go to http URLs in there
	Roots        *x509.CertPool // nil means those of the machine
	Retry        []time.Duration
	Timeout      time.Duration
	DisableAfter time.Duration
	Operator     []*webhook.Endpoint // where events of the operator go
	Receivers    []webhook.Receiver  // all that events of merchants may go to; nil means that there may be others
	ReceiverHint string              // how a further receiver is allowed, for errors
}

// pollDeliveries is how often the store is asked for deliveries that are due. Those of this node do not wait for it.
const pollDeliveries = 250 * time.Millisecond

// forDeliveries returns the settings with their defaults.
func (w WebhookSettings) forDeliveries(now func() time.Time) webhook.Settings {
	addresses := webhook.Addresses{Allowed: w.Allow, HTTP: w.HTTP, Receivers: w.Receivers, ReceiverHint: w.ReceiverHint}
	settings := webhook.Settings{
		Retry: w.Retry, Timeout: cmp.Or(w.Timeout, 10*time.Second), DisableAfter: cmp.Or(w.DisableAfter, 120*time.Hour),
		Poll: pollDeliveries, Addresses: addresses,
	}
	if len(settings.Retry) == 0 {
		settings.Retry = webhook.DefaultRetry()
	}
	settings.Sender = webhook.NewSender(addresses, settings.Timeout, w.Roots, now)
	settings.Operator = w.Operator
	settings.OperatorSender = webhook.NewSender(addresses.ForOperator(), settings.Timeout, w.Roots, now)
	return settings
}

// newHooks returns the webhooks of a server, which tell the journal of each delivery.
func (s *Server) newHooks() *webhook.Service {
	hooks := &webhook.Service{
		Store: s.db, Sealer: sealer{&s.ring, new(atomic.Uint64)}, Log: s.cfg.Log, Now: s.timestamp,
		StoreFailures: &s.hookFailures,
	}
	hooks.Configure(s.cfg.Webhooks.forDeliveries(s.timestamp))
	if s.journal != nil {
		hooks.Attempted = s.journalDelivery
	}
	return hooks
}

// registerWebhookMetrics adds the metrics of webhooks.
func registerWebhookMetrics(m *obs.Metrics, hooks *webhook.Service) {
	const name, help = "threeds_webhook_attempts_total", "Attempts of this node to deliver an event, delivered or failed."
	m.CounterOf(name, help, "outcome", "delivered", func() float64 { n, _ := hooks.Attempts(); return float64(n) })
	m.CounterOf(name, help, "outcome", "failed", func() float64 { _, n := hooks.Attempts(); return float64(n) })
}

// webhooksCondition says whether all webhook endpoints can be read.
func webhooksCondition(hooks *webhook.Service) console.Condition {
	return console.Condition{Name: "webhooks", Check: func() (string, bool) {
		if n := hooks.CountUnread(); n > 0 {
			return fmt.Sprintf(
				"%d endpoints cannot be read, and nothing is delivered to them: their rows were changed, or the key file (keys) lacks their secret",
				n), true
		}
		return "", true
	}}
}

// An announcer makes the events of authentications.
type announcer struct{ hooks *webhook.Service }

func (a announcer) Wants(merchant string) bool { return a.hooks.Wants(merchant) }

func (a announcer) Announced() { a.hooks.Announced() }

// eventTypes are the types of events by the status that they tell.
var eventTypes = map[api.Status]api.EventType{
	api.StatusCompleted: api.EventCompleted, api.StatusFailed: api.EventFailed, api.StatusExpired: api.EventExpired,
	api.StatusCancelled: api.EventCancelled,
}

func (a announcer) NewEvent(merchant string, of *auth.Authentication, at time.Time) (*store.Event, error) {
	data, err := edgeapi.EventData(of)
	if err != nil {
		return nil, err
	}
	return a.hooks.NewEvent(merchant, eventTypes[of.Status], of.ID, at, data)
}

// readEndpoints reads the webhook endpoints before the first request, so that no result is stored without its event. A
// store that cannot be reached is asked again once it can be.
func (s *Server) readEndpoints(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := s.hooks.Refresh(ctx); err != nil {
		record.LogFailure(ctx, s.cfg.Log, &s.hookFailures, s.timestamp(), "webhook endpoints not read", err)
	}
}

// NewWebhooks returns the webhooks of a store for a command, which changes endpoints and sends tests. It delivers no
// events.
func NewWebhooks(
	ctx context.Context, c *config.Config, st store.Store, ring *keyring.Ring, log *slog.Logger,
) *webhook.Service {
	now := time.Now
	if shared, ok := st.(store.ClockSource); ok {
		now = store.NewClock(ctx, time.Now, shared, log).Now
	}
	s := &webhook.Service{Store: st, Sealer: ring, Log: log, Now: now}
	s.Configure(webhookSettings(c).forDeliveries(now))
	return s
}
