package webhook

import (
	"encoding/json"
	"time"

	"github.com/openthreeds/threeds/api"
)

// Apply puts a change into an endpoint, without its secret. One that is enabled counts as never having failed.
func (e *Endpoint) Apply(c *api.EndpointChange) {
	if c.URL != nil {
		e.URL = *c.URL
	}
	if c.Types != nil {
		e.Types = *c.Types
	}
	if c.Description != nil {
		e.Description = *c.Description
	}
	if c.Disabled != nil {
		if e.Disabled = *c.Disabled; !e.Disabled {
			e.Failing = time.Time{}
		}
	}
}

// View returns the endpoint as its merchant sees it, without its secret.
func (e *Endpoint) View() api.Endpoint {
	v := api.Endpoint{
		ID: e.ID, URL: e.URL, Types: e.Types, Description: e.Description, Disabled: e.Disabled,
		Created: wholeSeconds(e.Created),
	}
	if len(v.Types) == 0 { // which asks for all
		v.Types = api.EventTypesFor(api.ForMerchant)
	}
	return v
}

// ViewWithSecret is View with the secret, which is shown only when the endpoint is made.
func (e *Endpoint) ViewWithSecret() api.Endpoint {
	v := e.View()
	v.Secret = e.Secret.Text()
	return v
}

// RotationView returns the secret of an endpoint after [Service.Rotate].
func (e *Endpoint) RotationView() api.Secret {
	return api.Secret{Secret: e.Secret.Text(), PreviousUntil: wholeSeconds(e.Until)}
}

// ViewAttempt returns what [Service.Test] has returned, when err is nil or a *DeliveryError.
func ViewAttempt(status int, err error) api.DeliveryTest {
	v := api.DeliveryTest{Delivered: err == nil}
	if status != 0 {
		v.Status = &status
	}
	if err != nil {
		v.Error = api.Text(err.Error())
	}
	return v
}

// DeliveryViews returns what became of the deliveries of the event.
func (e *Event) DeliveryViews() []api.Delivery {
	deliveries := []api.Delivery{}
	for _, d := range e.Deliveries {
		v := api.Delivery{
			Endpoint: d.Endpoint, Attempt: d.Attempt, At: timeOrNull(d.Last), Error: api.Text(d.Error), Next: timeOrNull(d.Due),
		}
		if d.Status != 0 {
			v.Status = &d.Status
		}
		deliveries = append(deliveries, v)
	}
	return deliveries
}

// View returns the event as it is delivered, with what became of its deliveries.
func (e *Event) View() (v api.EventWithDeliveries[json.RawMessage], err error) {
	v.Deliveries = e.DeliveryViews()
	return v, json.Unmarshal(e.Body, &v.Event)
}

func wholeSeconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(wholeSeconds(t))
}
