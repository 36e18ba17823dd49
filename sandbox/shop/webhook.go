package shop

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/openthreeds/threeds/api"
)

// HookPath is where the shop takes events from the server.
const HookPath = "/hooks"

// hookDescription marks the endpoint of the shop at the server, so that the next start of the shop finds it.
const hookDescription = "Demo shop"

// maxEvent is how many bytes a delivery may have.
const maxEvent = 256 << 10

// receiveEvent takes the delivery of an event, and answers with 2xx once the event is recorded.
func (s *Shop) receiveEvent(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEvent))
	if err != nil || s.verifier.Load().Verify(body, r.Header) != nil {
		http.Error(w, "The signature does not fit, or is too old.", http.StatusUnauthorized)
		return
	}
	var event api.Event[api.AuthenticationSummary]
	if err := json.Unmarshal(body, &event); err != nil {
		http.Error(w, "The event could not be read.", http.StatusBadRequest)
		return
	}
	if err := s.recordEvent(r.Context(), &event); err != nil {
		http.Error(w, "The event could not be recorded.", http.StatusServiceUnavailable) // the server tries again
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// recordEvent ends the payment that an event is about. An event about another's payment changes nothing, for other
// programs may have the same API key. An event that overtakes the answer with the id waits for that answer.
func (s *Shop) recordEvent(ctx context.Context, event *api.Event[api.AuthenticationSummary]) error {
	p := s.payments.findByReference(string(event.Data.Reference))
	if p == nil {
		return nil
	}
	select {
	case <-p.begun:
	case <-ctx.Done():
		return ctx.Err()
	}
	if event.Data.ID != p.id || !event.Data.IsFinal() {
		s.Log.Warn("shop: an event has the reference of a payment, and does not tell its end", "event", event.ID)
		return nil
	}
	s.payments.recordEvent(p, event)
	return nil
}

// noKey returns a verifier that refuses every signature, for the time before the shop has an endpoint.
func noKey() *standardwebhooks.Webhook {
	verifier, err := standardwebhooks.NewWebhookRaw([]byte(rand.Text()))
	if err != nil {
		panic(err) // the library takes any bytes
	}
	return verifier
}

// registerHook makes sure that the shop has an endpoint at the server. Without one the shop asks for results.
func (s *Shop) registerHook(ctx context.Context) {
	if s.HookURL == "" || s.isTold.Load() {
		return
	}
	select {
	case s.registering <- struct{}{}:
		defer func() { <-s.registering }()
	case <-ctx.Done():
		return
	}
	if s.isTold.Load() {
		return
	}
	if err := s.addEndpoint(ctx); err != nil {
		s.Log.Warn("shop: no webhook endpoint", "err", err)
		return
	}
	s.isTold.Store(true)
}

// addEndpoint adds the endpoint of the shop. It removes the endpoint of an earlier start, whose secret is lost.
func (s *Shop) addEndpoint(ctx context.Context) error {
	all, err := s.api.WebhookEndpoints(ctx)
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.Description == hookDescription {
			if err := s.api.RemoveWebhookEndpoint(ctx, e.ID); err != nil {
				return err
			}
		}
	}
	added, err := s.api.AddWebhookEndpoint(ctx, s.HookURL, hookDescription)
	if err != nil {
		return err
	}
	verifier, err := standardwebhooks.NewWebhook(added.Secret)
	if err != nil {
		return err
	}
	s.verifier.Store(verifier)
	return nil
}
