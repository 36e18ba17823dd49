package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// A WebhookEndpoint is an address at which the server tells a merchant how authentications ended.
type WebhookEndpoint struct {
	ID          string    `json:"id"`
	URL         string    `json:"url"`
	Types       []string  `json:"types"` // of the events that are delivered
	Description string    `json:"description"`
	Disabled    bool      `json:"disabled"`
	Created     time.Time `json:"created"`
	Secret      string    `json:"secret"` // verifies deliveries; told once, by AddWebhookEndpoint
}

// An Event is the body of a delivery to a [WebhookEndpoint]. Read it after its signature was verified by a library of
// Standard Webhooks, such as github.com/standard-webhooks/standard-webhooks/libraries/go.
type Event struct {
	ID        string         `json:"id"`   // the same each time that the event is delivered
	Type      string         `json:"type"` // authentication.completed, .failed, .expired or .cancelled, or webhook.test
	Timestamp time.Time      `json:"timestamp"`
	Data      Authentication `json:"data"` // without the messages and the authentication value
}

var webhookEndpoints = operation{"/webhook-endpoints", shortTimeout}

// AddWebhookEndpoint adds an endpoint with a URL and a description, which may be empty. It gets events of all types. The
// error is a [Problem] for a URL that the server does not deliver to.
func (c *Client) AddWebhookEndpoint(ctx context.Context, url, description string) (*WebhookEndpoint, error) {
	body, err := json.Marshal(map[string]string{"url": url, "description": description})
	if err != nil {
		return nil, err
	}
	answer, err := c.send(ctx, http.MethodPost, webhookEndpoints, c.jsonHeader(), body)
	if err != nil {
		return nil, err
	}
	endpoint := new(WebhookEndpoint)
	return orNil(endpoint, answer.read(endpoint))
}

// WebhookEndpoints lists the endpoints of the merchant, the oldest first.
func (c *Client) WebhookEndpoints(ctx context.Context) ([]WebhookEndpoint, error) {
	var list struct {
		Answer `json:"-"`
		Data   []WebhookEndpoint `json:"data"`
	}
	err := c.ask(ctx, http.MethodGet, webhookEndpoints, c.jsonHeader(), nil, &list)
	return list.Data, err
}

// RemoveWebhookEndpoint removes an endpoint, and what was to be delivered to it. The error is a [Problem] with status
// 404 for an id that is unknown, or another merchant's.
func (c *Client) RemoveWebhookEndpoint(ctx context.Context, id string) error {
	o := operation{webhookEndpoints.path + "/" + url.PathEscape(id), shortTimeout}
	answer, err := c.send(ctx, http.MethodDelete, o, c.jsonHeader(), nil)
	if err != nil || answer.Status == http.StatusNoContent {
		return err
	}
	return answer.read(new(json.RawMessage))
}
