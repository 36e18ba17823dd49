package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/state/store"
)

// operatorPrefix begins the ids of the operator's endpoints, which are in the configuration and not in the store.
const operatorPrefix = "op_"

// operatorMerchant is the merchant of the operator's events. No merchant can have this name.
const operatorMerchant = ""

// maxUnknown limits the age of an event for an endpoint of the operator that this node does not know. Until then a node
// with a newer configuration may deliver it.
const maxUnknown = time.Hour

// OperatorEndpoint returns the endpoint of the operator at a URL. Its id is the same on all nodes. No types means all.
func OperatorEndpoint(url string, secret Secret, types []api.EventType) *Endpoint {
	digest := sha256.Sum256([]byte(url))
	return &Endpoint{ID: operatorPrefix + store.Letters(digest[:16]), URL: url, Secret: secret, Types: types}
}

func isOperator(endpoint string) bool { return strings.HasPrefix(endpoint, operatorPrefix) }

// endpoint returns the endpoint with an id, of a merchant or of the operator. nil means that there is none.
func (s *Service) endpoint(id string) *Endpoint {
	if !isOperator(id) {
		return s.known.find(id)
	}
	all := s.settings.Load().Operator
	if i := slices.IndexFunc(all, func(e *Endpoint) bool { return e.ID == id }); i >= 0 {
		return all[i]
	}
	return nil
}

// senderFor returns what delivers to an endpoint.
func (s *Settings) senderFor(e *Endpoint) *Sender {
	if isOperator(e.ID) {
		return s.OperatorSender
	}
	return s.Sender
}

// TellOperator stores an event for the endpoints of the operator. The event's id is made from its type and the
// occurrence. If several nodes report the same occurrence, the first one stores the event, and the operator gets it
// once.
func (s *Service) TellOperator(ctx context.Context, kind api.EventType, occurrence string, data any) error {
	var endpoints []string
	for _, e := range s.settings.Load().Operator {
		if e.wants(kind) {
			endpoints = append(endpoints, e.ID)
		}
	}
	if len(endpoints) == 0 {
		return nil
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(string(kind) + "\x00" + occurrence))
	e := &store.Event{
		ID: store.NewEventID(store.Letters(digest[:16]), "", operatorMerchant), Merchant: operatorMerchant,
		Type: string(kind), Created: s.Now().UTC().Truncate(time.Millisecond), Endpoints: endpoints,
	}
	if err := s.sealEvent(e, encoded); err != nil {
		return err
	}
	if err := s.Store.PutEvent(ctx, *e); !errors.Is(err, store.ErrExists) {
		s.wake.signal()
		return err
	}
	return nil
}

// AnnounceToOperator is TellOperator for something that has been done already: if the event cannot be stored, the log
// says so.
func (s *Service) AnnounceToOperator(ctx context.Context, kind api.EventType, occurrence string, data any) {
	err := s.TellOperator(ctx, kind, occurrence, data)
	s.logStoreFailure(ctx, "event for the operator not stored", err, "type", kind)
}

// tellDisabled tells the operator that an endpoint of a merchant was disabled.
func (s *Service) tellDisabled(ctx context.Context, e *Endpoint, reason error, now time.Time) {
	since := e.Failing
	if since.IsZero() {
		since = now
	}
	s.AnnounceToOperator(ctx, api.EventEndpointDisabled, e.ID+" "+wholeSeconds(since).Format(time.RFC3339),
		api.EndpointDisabled{
			Merchant: e.Merchant, Endpoint: e.ID, Since: wholeSeconds(since), Reason: reason.Error(),
		})
}
