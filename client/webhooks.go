package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/openthreeds/threeds/api"
)

var webhookEndpoints = operation{"/webhook-endpoints", shortTimeout}

// AddWebhookEndpoint adds an endpoint with a URL and a description, which may be empty. It gets events of all types.
// The error is a [Problem] for a URL that the server does not deliver to.
func (c *Client) AddWebhookEndpoint(ctx context.Context, url, description string) (*api.Endpoint, error) {
	body, err := json.Marshal(api.EndpointChange{URL: &url, Description: &description})
	if err != nil {
		return nil, err
	}
	answer, err := c.send(ctx, http.MethodPost, webhookEndpoints, c.jsonHeader(), body)
	if err != nil {
		return nil, err
	}
	endpoint := new(api.Endpoint)
	return orNil(endpoint, answer.read(endpoint))
}

// WebhookEndpoints lists the endpoints of the merchant, the oldest first.
func (c *Client) WebhookEndpoints(ctx context.Context) ([]api.Endpoint, error) {
	answer, err := c.send(ctx, http.MethodGet, webhookEndpoints, c.jsonHeader(), nil)
	if err != nil {
		return nil, err
	}
	var list api.List[api.Endpoint]
	err = answer.read(&list)
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
