package webhook

import (
	"encoding/json"
	"time"
)

// A Change is what a request says of an endpoint. What is absent stays as it is.
type Change struct {
	URL         *string   `json:"url"`
	Types       *[]string `json:"types"`
	Description *string   `json:"description"`
	Disabled    *bool     `json:"disabled"`
}

// Apply puts the change into an endpoint. One that is enabled counts as never having failed.
func (c *Change) Apply(e *Endpoint) {
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

// An EndpointView is an endpoint as its merchant sees it.
type EndpointView struct {
	ID          string   `json:"id"`
	URL         string   `json:"url"`
	Types       []string `json:"types"`
	Description string   `json:"description"`
	Disabled    bool     `json:"disabled"`
	Created     string   `json:"created"`
	Secret      string   `json:"secret,omitempty"` // in the answer that makes the endpoint, and in no other
}

// View returns the endpoint as its merchant sees it, without its secret.
func (e *Endpoint) View() EndpointView {
	v := EndpointView{e.ID, e.URL, e.Types, e.Description, e.Disabled, formatTime(e.Created), ""}
	if len(v.Types) == 0 { // which asks for all
		v.Types = Types()
	}
	return v
}

// ViewWithSecret is View with the secret, which is shown only when the endpoint is made.
func (e *Endpoint) ViewWithSecret() EndpointView {
	v := e.View()
	v.Secret = e.Secret.Text()
	return v
}

// A SecretView is the new secret of an endpoint, and until when the former one signs as well.
type SecretView struct {
	Secret        string `json:"secret"`
	PreviousUntil string `json:"previousUntil"`
}

// RotationView returns the secret of an endpoint after [Service.Rotate].
func (e *Endpoint) RotationView() SecretView { return SecretView{e.Secret.Text(), formatTime(e.Until)} }

// An AttemptView says how the delivery of a test event has ended.
type AttemptView struct {
	Delivered bool    `json:"delivered"`
	Status    *int    `json:"status"`
	Error     *string `json:"error"`
}

// ViewAttempt returns what [Service.Test] has returned, when err is nil or a *DeliveryError.
func ViewAttempt(status int, err error) AttemptView {
	v := AttemptView{Delivered: err == nil}
	if status != 0 {
		v.Status = &status
	}
	if err != nil {
		v.Error = new(err.Error())
	}
	return v
}

// A DeliveryView is one delivery of an event as its merchant sees it.
type DeliveryView struct {
	Endpoint string  `json:"endpoint"`
	Attempt  int     `json:"attempt"`
	At       *string `json:"at"` // of the last attempt
	Status   *int    `json:"status"`
	Error    *string `json:"error"`
	Next     *string `json:"next"` // of the next attempt
}

// DeliveryViews returns what became of the deliveries of the event.
func (e *Event) DeliveryViews() []DeliveryView {
	deliveries := []DeliveryView{}
	for _, d := range e.Deliveries {
		v := DeliveryView{Endpoint: d.Endpoint, Attempt: d.Attempt, At: timeOrNull(d.Last), Next: timeOrNull(d.Due)}
		if d.Status != 0 {
			v.Status = &d.Status
		}
		if d.Error != "" {
			v.Error = &d.Error
		}
		deliveries = append(deliveries, v)
	}
	return deliveries
}

// View returns the event as it is delivered, with what became of its deliveries.
func (e *Event) View() (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(e.Body, &all); err != nil {
		return nil, err
	}
	var err error
	all["deliveries"], err = json.Marshal(e.DeliveryViews())
	return all, err
}

func formatTime(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }

func timeOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(formatTime(t))
}
