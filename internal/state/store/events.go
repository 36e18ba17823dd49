package store

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"
)

// An Event is one message to a merchant.
type Event struct {
	ID       string // never changes; [NewEventID] has made it
	Merchant string
	Type     string
	About    string    // id of the transaction, "" if it is about none
	Created  time.Time // UTC, whole milliseconds; it may lie ahead, and the event is not delivered before
	Data     []byte    // opaque, sealed by the caller

	// Endpoints are those that it is delivered to; each has a [Delivery]. Event and FindEvents do not fill it in.
	Endpoints []string
}

// The rows of an event and of its deliveries have one key, the id of the transaction that the event is about. So a
// distributed database keeps them where the transaction is. The key of an event that is about no transaction is made
// from its merchant. An id of an event carries the key, so that the event is found by its id alone.
const (
	eventPrefix = "evt_"
	ofMerchant  = "merchant-" // begins the keys of events about no transaction; no id of a transaction begins so
)

// NewEventID returns the id of an event about a transaction or, if about is "", of another event of a merchant. The
// name distinguishes it from the other events with the same key: a text without "_", such as one of [Letters].
func NewEventID(name, about, merchant string) string {
	if about == "" {
		sum := sha256.Sum256([]byte(merchant))
		about = ofMerchant + Letters(sum[:8])
	}
	return eventPrefix + name + "_" + about
}

// Letters returns two letters for each byte: digits could look like the number of a card, which is kept nowhere.
func Letters(data []byte) string {
	var text strings.Builder
	for _, b := range data {
		text.WriteByte('a' + b>>4)
		text.WriteByte('a' + b&15)
	}
	return text.String()
}

// EventKey returns the key in the id of an event, "" if there is none.
func EventKey(id string) string {
	_, key, _ := strings.Cut(strings.TrimPrefix(id, eventPrefix), "_")
	return key
}

// AboutOf returns the transaction that an event with a key is about, "" if it is about none.
func AboutOf(key string) string {
	if strings.HasPrefix(key, ofMerchant) {
		return ""
	}
	return key
}

// An Endpoint is an address that gets events of a merchant.
type Endpoint struct {
	ID       string
	Merchant string
	Created  time.Time // UTC, whole milliseconds
	Data     []byte    // opaque, sealed by the caller
}

// A Delivery is how far an event has come on its way to one endpoint.
type Delivery struct {
	Event, Endpoint string
	Attempt         int       // how many there were
	Due             time.Time // of the next attempt; zero: there is none
	Last            time.Time // of the last attempt; zero: there was none
	Status          int       // of HTTP, of the last attempt; 0 if there was no answer
	Error           string    // of the last attempt; "" if it has succeeded
}

// An EventQuery says which events are wanted. The zero value of a field but Merchant, Now and Limit means any.
type EventQuery struct {
	Merchant string
	Type     string
	About    string
	From, To time.Time // Created is at or after From, and before To
	Now      time.Time // events that lie ahead of it are left out
	Limit    int

	// For a page after the first: Created and ID of the last event before it.
	AfterCreated time.Time
	AfterID      string
}

// Events keeps the events for merchants, and to which endpoints they were delivered. A transaction brings its event
// along: see Event of a [Txn].
type Events interface {
	// AddEndpoint adds an endpoint. It returns ErrExists, and changes nothing, if the ID is taken.
	AddEndpoint(ctx context.Context, e Endpoint) error

	// ChangeEndpoint replaces the Data of the endpoint that has this ID, if the Data is still was. It returns
	// ErrNotFound, and changes nothing, if there is no such endpoint, or if its Data is not was.
	ChangeEndpoint(ctx context.Context, id string, was, data []byte) error

	// Endpoints returns all endpoints, oldest first.
	Endpoints(ctx context.Context) ([]Endpoint, error)

	// EndpointsOf returns the endpoints of merchants, oldest first.
	EndpointsOf(ctx context.Context, merchants ...string) ([]Endpoint, error)

	// EndpointMarksUnless returns a mark for each merchant that has endpoints, and one for all endpoints. If the latter
	// is still mark, it returns that alone, which costs next to nothing. Any change of an endpoint changes the mark of
	// its merchant and the mark for all to values that were never there before. No other change in the store does so.
	// An empty mark says that the store cannot tell.
	EndpointMarksUnless(ctx context.Context, mark string) (ofMerchants map[string]string, now string, err error)

	// RemoveEndpoint removes an endpoint, and then what was to be delivered to it. It returns
	// ErrNotFound if there is none.
	RemoveEndpoint(ctx context.Context, id string) error

	// PutEvent adds an event that comes with no transaction. It returns ErrExists, and changes nothing, if the ID is
	// taken.
	PutEvent(ctx context.Context, e Event) error

	// Event returns the event with an ID, or ErrNotFound.
	Event(ctx context.Context, id string) (Event, error)

	// FindEvents returns the events of a merchant, the newest first.
	FindEvents(ctx context.Context, q EventQuery) ([]Event, error)

	// Deliveries returns those of an event, by endpoint.
	Deliveries(ctx context.Context, event string) ([]Delivery, error)

	// ClaimDeliveries returns deliveries that are due at now, those that are due longest first, but none to a busy
	// endpoint. They are due again at until: no other caller gets them before, and if the caller dies, another one gets
	// them then.
	ClaimDeliveries(ctx context.Context, now, until time.Time, busy []string, most int) ([]Delivery, error)

	// EndDelivery notes how an attempt has ended. It does nothing if the delivery is no longer there.
	EndDelivery(ctx context.Context, d Delivery) error

	// Redeliver makes a delivery due at a time, with no attempt made. It does nothing if an attempt was made since the
	// delivery was read, or if the delivery is no longer there.
	Redeliver(ctx context.Context, d Delivery, at time.Time) error

	// SweepEvents removes events that were created before a time, with their deliveries, and says how many. It stops
	// early when the context ends.
	SweepEvents(ctx context.Context, before time.Time) (int, error)

	// EraseEvents removes the events of a merchant, and those about transactions, with their deliveries, even those
	// that lie ahead, and says how many. For merchant "" it removes those about transactions alone.
	EraseEvents(ctx context.Context, merchant string, about []string) (int, error)
}

// Span returns the times that Created of the wanted events is at or after, and before.
func (q *EventQuery) Span() (from, to time.Time) {
	from, to = q.From, q.Now.Add(time.Millisecond)
	if from.IsZero() {
		from = time.UnixMilli(0)
	}
	if !q.To.IsZero() && q.To.Before(to) {
		to = q.To
	}
	return from, to
}
