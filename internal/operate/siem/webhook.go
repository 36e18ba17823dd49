package siem

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/operate/webhook"
)

// A Webhook sends messages as requests that are signed like events, one after the other.
type Webhook struct {
	URL    string
	Secret webhook.Secret
	Sender *webhook.Sender
}

// A request is the body of a request.
type request struct {
	api.Event[json.RawMessage]
	Fault string `json:"fault,omitempty"`
}

// Send implements [Sender].
func (w *Webhook) Send(ctx context.Context, all []Message) (int, error) {
	for i := range all {
		m := &all[i]
		// The link tells apart entries of one number in two stores.
		id := fmt.Sprintf("%s_%d_%s", m.Chain, m.Number, hex.EncodeToString(m.Link[:min(8, len(m.Link))]))
		body, err := json.Marshal(request{api.Event[json.RawMessage]{
			ID: id, Type: api.EventType(m.Event), Timestamp: m.At.UTC().Truncate(time.Second), Data: m.Line,
		}, m.Fault})
		if err == nil {
			_, err = w.Sender.Send(ctx,
				webhook.Delivery{URL: w.URL, EventID: id, Body: body, Secrets: []webhook.Secret{w.Secret}})
		}
		if err != nil {
			return i, fmt.Errorf("webhook: entry %d of the chain %s: %w", m.Number, m.Chain, err)
		}
	}
	return len(all), nil
}
