package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/uuid"
	"github.com/openthreeds/threeds/internal/state/record"
	"github.com/openthreeds/threeds/internal/state/store"
)

// Settings say how events are delivered.
type Settings struct {
	Retry        []time.Duration // after each failed attempt; then the event is given up
	Timeout      time.Duration   // of one attempt
	DisableAfter time.Duration   // of failures without a success
	Poll         time.Duration   // how often the store is asked for what is due
	Sender       *Sender
	Addresses    Addresses

	Operator       []*Endpoint // of the operator, made with OperatorEndpoint
	OperatorSender *Sender     // delivers to them
}

// DefaultRetry is when deliveries are repeated: soon at first, then every twelve hours for three days.
func DefaultRetry() []time.Duration {
	return slices.Concat(
		[]time.Duration{
			5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 3 * time.Hour, 8 * time.Hour,
		},
		slices.Repeat([]time.Duration{12 * time.Hour}, 6),
	)
}

// A Service knows the endpoints of merchants, makes events and delivers them. Set its fields before use, and start Run.
type Service struct {
	Store  store.Events
	Sealer store.Sealer
	Log    *slog.Logger
	Now    func() time.Time
	// Attempted is called after each attempt to deliver an event that is about a transaction; nil means that nothing is
	// called. Set it before Run.
	Attempted func(Attempt)
	// StoreFailures limits the lines of the log about failures of the store; nil is no limit.
	StoreFailures record.LogLimit

	settings  atomic.Pointer[Settings]
	known     endpoints
	wake      wakeup
	made      atomic.Bool   // an event was made since Announced
	delivered atomic.Uint64 // attempts that have succeeded
	failed    atomic.Uint64 // attempts that have not
}

// An Attempt is how an attempt to deliver an event has ended.
type Attempt struct {
	About, Merchant, Type string // of the event
	Event, Endpoint       string
	Number                int // 1 is the first
	Began                 time.Time
	Status                int    // of the answer, 0 if none came
	Error                 string // "" if it was delivered
	Body                  []byte // of the event
}

// ErrNoEndpoint and ErrNoEvent say that a merchant has none with such an id.
var (
	ErrNoEndpoint = errors.New("webhook: no such endpoint")
	ErrNoEvent    = errors.New("webhook: no such event")
	ErrNoDelivery = errors.New("webhook: the endpoints that the event goes to were removed")
)

// Configure sets how events are delivered from now on.
func (s *Service) Configure(settings Settings) { s.settings.Store(&settings) }

// Wants reports whether events of a merchant are made: it has an endpoint, even if that is disabled or does not open.
func (s *Service) Wants(merchant string) bool { return s.known.has(merchant) }

// CountUnread returns of how many endpoints the rows do not open: they were changed, or the key
// file lacks their secret.
func (s *Service) CountUnread() int {
	_, unread := s.known.count()
	return unread
}

// Attempts returns how many attempts of this process to deliver an event have succeeded, and how many have not.
func (s *Service) Attempts() (delivered, failed uint64) { return s.delivered.Load(), s.failed.Load() }

// attempted counts an attempt.
func (s *Service) attempted(isDelivered bool) {
	if isDelivered {
		s.delivered.Add(1)
	} else {
		s.failed.Add(1)
	}
}

// newEventID returns the id of an event of a merchant about an authentication, or about none.
func newEventID(about, merchant string) string {
	name := make([]byte, 8)
	rand.Read(name) // it never fails, it ends the process
	return store.NewEventID(store.Letters(name), about, merchant)
}

// NewEvent returns an event for the store: it is delivered to the endpoints of the merchant that want its type, from
// the time at on.
func (s *Service) NewEvent(merchant string, kind api.EventType, about string, at time.Time,
	data json.RawMessage) (*store.Event, error) {
	e := &store.Event{
		ID: newEventID(about, merchant), Merchant: merchant, Type: string(kind), About: about,
		Created: at.UTC().Truncate(time.Millisecond),
	}
	if err := s.sealEvent(e, data); err != nil {
		return nil, err
	}
	for _, endpoint := range s.known.of(merchant) {
		if endpoint.wants(kind) {
			e.Endpoints = append(e.Endpoints, endpoint.ID)
		}
	}
	s.made.Store(true)
	return e, nil
}

// sealEvent puts the body of an event into it, sealed.
func (s *Service) sealEvent(e *store.Event, data json.RawMessage) error {
	body, err := json.Marshal(
		api.Event[json.RawMessage]{ID: e.ID, Type: api.EventType(e.Type), Timestamp: wholeSeconds(e.Created), Data: data})
	if err != nil {
		return fmt.Errorf("webhook: event: %w", err)
	}
	e.Data = s.Sealer.Seal(eventName(e), body)
	return nil
}

// Announced starts the delivery of events that were just stored.
func (s *Service) Announced() {
	if s.made.Swap(false) {
		s.wake.signal()
	}
}

// Prepare returns an endpoint of a merchant as [Service.Add] adds it: it has an id and a secret, which are made if e
// has none. The error is a *[FaultError] if something is wrong with e, or if the merchant has MaxEndpoints already.
func (s *Service) Prepare(ctx context.Context, merchant string, e Endpoint) (Endpoint, error) {
	if err := s.Check(&e); err != nil {
		return e, err
	}
	e.ID = cmp.Or(e.ID, "ep_"+uuid.New())
	e.Merchant, e.Created = merchant, s.Now().UTC().Truncate(time.Millisecond)
	if len(e.Secret) == 0 {
		e.Secret = NewSecret()
	}
	return e, s.checkCount(ctx, merchant, e.ID)
}

// Add adds an endpoint of a merchant, after [Service.Prepare]. If the merchant already has an endpoint with its id,
// that one is returned.
func (s *Service) Add(ctx context.Context, merchant string, e Endpoint) (*Endpoint, error) {
	e, err := s.Prepare(ctx, merchant, e)
	if err != nil {
		return nil, err
	}
	e.sealed = e.seal(s.Sealer)
	err = s.Store.AddEndpoint(ctx, store.Endpoint{ID: e.ID, Merchant: merchant, Created: e.Created, Data: e.sealed})
	switch {
	case errors.Is(err, store.ErrExists):
		return s.Endpoint(ctx, merchant, e.ID)
	case err != nil:
		return nil, err
	}
	return &e, s.read(ctx, merchant)
}

// checkCount returns a fault if a merchant has as many endpoints as it may have, and none of them has the id.
func (s *Service) checkCount(ctx context.Context, merchant, id string) error {
	all, err := s.Endpoints(ctx, merchant)
	if err != nil || len(all) < MaxEndpoints || slices.ContainsFunc(all, func(e *Endpoint) bool { return e.ID == id }) {
		return err
	}
	return &FaultError{
		Member: "url", Rule: "range", Most: MaxEndpoints,
		Cure: fmt.Sprintf("A merchant has %d endpoints at most: remove one that is not used, or change its url.",
			MaxEndpoints),
	}
}

// Check returns what is wrong with the settings of an endpoint, a *FaultError; nil means that they are valid.
func (s *Service) Check(e *Endpoint) error { return e.check(&s.settings.Load().Addresses) }

// changeTries is how often a change is tried, each time after somebody else has changed the endpoint.
const changeTries = 10

// Change changes an endpoint of a merchant.
func (s *Service) Change(ctx context.Context, merchant, id string, change func(*Endpoint) error) (*Endpoint, error) {
	for range changeTries {
		was, err := s.Endpoint(ctx, merchant, id)
		if err != nil {
			return nil, err
		}
		e := *was
		if err := change(&e); err != nil {
			return nil, err
		}
		if err := s.Check(&e); err != nil {
			return nil, err
		}
		e.sealed = e.seal(s.Sealer)
		err = s.Store.ChangeEndpoint(ctx, id, was.sealed, e.sealed)
		if errors.Is(err, store.ErrNotFound) {
			continue // somebody else has changed or removed it
		}
		if err != nil {
			return nil, err
		}
		return &e, s.read(ctx, merchant)
	}
	return nil, fmt.Errorf("webhook endpoint %s: others changed it %d times meanwhile", id, changeTries)
}

// overlap is how long the previous secret also signs after a rotation.
const overlap = 24 * time.Hour

// Rotate gives an endpoint a new secret. The previous one also signs for a day. Rotate changes nothing if the endpoint
// already has the secret.
func (s *Service) Rotate(ctx context.Context, merchant, id string, secret Secret) (*Endpoint, error) {
	return s.Change(ctx, merchant, id, func(e *Endpoint) error {
		if bytes.Equal(e.Secret, secret) {
			return nil
		}
		e.Previous, e.Until = e.Secret, s.Now().Add(overlap).UTC().Truncate(time.Second)
		e.Secret = secret
		return nil
	})
}

// Remove removes an endpoint of a merchant, also one that does not open, and what was to be delivered to it.
func (s *Service) Remove(ctx context.Context, merchant, id string) error {
	if _, err := s.findRow(ctx, merchant, id); err != nil {
		return err
	}
	if err := s.Store.RemoveEndpoint(ctx, id); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return s.read(ctx, merchant)
}

// Test delivers an event of type webhook.test to an endpoint immediately, and tries once. The error is a *DeliveryError
// when it could not be delivered.
func (s *Service) Test(ctx context.Context, merchant, id string) (status int, err error) {
	e, err := s.Endpoint(ctx, merchant, id)
	if err != nil {
		return 0, err
	}
	now := s.Now()
	event := newEventID("", merchant)
	body, err := json.Marshal(api.Event[api.Test]{ID: event, Type: api.EventTest, Timestamp: wholeSeconds(now)})
	if err != nil {
		return 0, err
	}
	status, err = s.settings.Load().Sender.Send(ctx,
		Delivery{URL: e.URL, EventID: event, Body: body, Secrets: e.secrets(now)})
	if err != nil {
		return status, &DeliveryError{err}
	}
	return status, nil
}

// A DeliveryError says that a delivery has failed.
type DeliveryError struct{ Reason error }

func (e *DeliveryError) Error() string { return e.Reason.Error() }

func (e *DeliveryError) Unwrap() error { return e.Reason }

// An Event is one event with what became of it.
type Event struct {
	ID         string
	Created    time.Time
	Body       json.RawMessage // as it is delivered
	Deliveries []store.Delivery
}

// Find returns the events of a merchant that a query asks for, the newest first, without their deliveries.
func (s *Service) Find(ctx context.Context, q store.EventQuery) ([]Event, error) {
	q.Now = s.Now()
	rows, err := s.Store.FindEvents(ctx, q)
	if err != nil {
		return nil, err
	}
	var all []Event
	for i := range rows {
		e, err := s.openEvent(&rows[i])
		if err != nil { // the key file may have forgotten the secret of an old one
			s.Log.Error("event not read", "event", rows[i].ID, "err", err)
			continue
		}
		all = append(all, e)
	}
	return all, nil
}

// Event returns an event of a merchant with its deliveries, or ErrNoEvent.
func (s *Service) Event(ctx context.Context, merchant, id string) (Event, error) {
	row, err := s.Store.Event(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && (row.Merchant != merchant || row.Created.After(s.Now())):
		return Event{}, ErrNoEvent
	case err != nil:
		return Event{}, err
	}
	e, err := s.openEvent(&row)
	if err != nil {
		return Event{}, err
	}
	e.Deliveries, err = s.Store.Deliveries(ctx, id)
	return e, err
}

// EventToResend does as Event, and returns ErrNoDelivery when no endpoint is left that the event goes to.
func (s *Service) EventToResend(ctx context.Context, merchant, id string) (Event, error) {
	e, err := s.Event(ctx, merchant, id)
	if err == nil && len(e.Deliveries) == 0 {
		err = ErrNoDelivery
	}
	return e, err
}

// Resend delivers an event of a merchant again, under the same id, to the endpoints that it went to.
func (s *Service) Resend(ctx context.Context, merchant, id string) error {
	e, err := s.EventToResend(ctx, merchant, id)
	if err != nil {
		return err
	}
	defer s.wake.signal()
	for _, d := range e.Deliveries {
		if err := s.Store.Redeliver(ctx, d, s.Now()); err != nil {
			return err
		}
	}
	return nil
}

// A Resending says which events of a merchant are delivered again.
type Resending struct {
	Find      store.EventQuery // the events; Limit is how many are looked at
	Endpoint  string           // the only endpoint that they go to again; "" means each that they went to
	HasFailed bool             // only deliveries whose last attempt has failed
}

// ResendAll delivers events of a merchant again, under their ids, and returns how many. A delivery that is on its way
// for the first time, or again, is left as it is: so nothing is sent twice when ResendAll is called once more. last is
// the last event that was looked at if there may be more, else it has no ID.
func (s *Service) ResendAll(ctx context.Context, r Resending) (resent int, last store.Event, err error) {
	r.Find.Now = s.Now()
	rows, err := s.Store.FindEvents(ctx, r.Find)
	if err != nil {
		return 0, last, err
	}
	defer s.wake.signal()
	for i := range rows {
		deliveries, err := s.Store.Deliveries(ctx, rows[i].ID)
		if err != nil {
			return resent, last, err
		}
		isResent := false
		for _, d := range deliveries {
			isOnItsWay := d.Attempt == 0 && !d.Due.IsZero()
			if isOnItsWay || r.HasFailed && d.Error == "" || r.Endpoint != "" && d.Endpoint != r.Endpoint {
				continue
			}
			if err := s.Store.Redeliver(ctx, d, r.Find.Now); err != nil {
				return resent, last, err
			}
			isResent = true
		}
		if isResent {
			resent++
		}
	}
	if len(rows) > 0 && len(rows) == r.Find.Limit {
		last = rows[len(rows)-1]
	}
	return resent, last, nil
}

// Says returns the type of the event, and the authentication that it is about; "" means that it is about none.
func (e *Event) Says() (kind api.EventType, about api.Text, err error) {
	var body api.Event[struct{ ID api.Text }]
	err = json.Unmarshal(e.Body, &body)
	return body.Type, body.Data.ID, err
}

func (s *Service) openEvent(row *store.Event) (Event, error) {
	body, err := s.Sealer.Open(eventName(row), row.Data)
	if err != nil {
		return Event{}, fmt.Errorf("webhook event %s: %w", row.ID, err)
	}
	return Event{ID: row.ID, Created: row.Created, Body: body}, nil
}

// A wakeup wakes the one goroutine that waits for it. Its zero value is ready to use.
type wakeup struct {
	once sync.Once
	c    chan struct{}
}

func (w *wakeup) channel() chan struct{} {
	w.once.Do(func() { w.c = make(chan struct{}, 1) })
	return w.c
}

func (w *wakeup) signal() {
	select {
	case w.channel() <- struct{}{}:
	default:
	}
}

// MerchantOfEvent returns the merchant of an event, or ErrNoEvent. Events of the operator belong to no merchant.
func (s *Service) MerchantOfEvent(ctx context.Context, id string) (string, error) {
	row, err := s.Store.Event(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Merchant == operatorMerchant {
		return "", ErrNoEvent
	}
	return row.Merchant, err
}
