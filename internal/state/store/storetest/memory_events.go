package storetest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// copyEvent returns a copy of e as the contract wants it to be read.
func copyEvent(e store.Event) store.Event {
	e.Data, e.Endpoints = bytes.Clone(e.Data), nil
	e.Created = e.Created.UTC().Truncate(time.Millisecond)
	return e
}

// addEvent adds an event and its deliveries. s.mu is held.
func (s *Memory) addEvent(e *store.Event) {
	s.events[e.ID] = copyEvent(*e)
	for _, endpoint := range e.Endpoints {
		s.deliveries[[2]string{e.ID, endpoint}] = store.Delivery{Event: e.ID, Endpoint: endpoint, Due: s.events[e.ID].Created}
	}
}

// removeEvents removes events and their deliveries, and says how many. s.mu is held.
func (s *Memory) removeEvents(which func(store.Event) bool) int {
	n := 0
	for id, e := range s.events {
		if !which(e) {
			continue
		}
		delete(s.events, id)
		n++
		for key := range s.deliveries {
			if key[0] == id {
				delete(s.deliveries, key)
			}
		}
	}
	return n
}

// replaceAhead adds the event of a transaction in place of one that lies ahead. s.mu is held.
func (s *Memory) replaceAhead(e *store.Event) {
	now := s.now()
	s.removeEvents(func(old store.Event) bool { return old.About == e.About && old.Created.After(now) })
	s.addEvent(e)
}

// markEndpoints notes that an endpoint of a merchant has changed. s.mu is held.
func (s *Memory) markEndpoints(merchant string) {
	s.hooked++
	s.marks[merchant] = s.hooked
}

// AddEndpoint implements [store.Events].
func (s *Memory) AddEndpoint(ctx context.Context, e store.Endpoint) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if _, taken := s.endpoints[e.ID]; taken {
		return store.ErrExists
	}
	e.Created, e.Data = e.Created.UTC().Truncate(time.Millisecond), bytes.Clone(e.Data)
	s.endpoints[e.ID] = e
	s.markEndpoints(e.Merchant)
	return nil
}

// ChangeEndpoint implements [store.Events].
func (s *Memory) ChangeEndpoint(ctx context.Context, id string, was, data []byte) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	e, ok := s.endpoints[id]
	if !ok || !bytes.Equal(e.Data, was) {
		return store.ErrNotFound
	}
	e.Data = bytes.Clone(data)
	s.endpoints[id] = e
	s.markEndpoints(e.Merchant)
	return nil
}

// Endpoints implements [store.Events].
func (s *Memory) Endpoints(ctx context.Context) ([]store.Endpoint, error) {
	return s.endpointsThat(ctx, func(store.Endpoint) bool { return true })
}

// EndpointsOf implements [store.Events].
func (s *Memory) EndpointsOf(ctx context.Context, merchants ...string) ([]store.Endpoint, error) {
	return s.endpointsThat(ctx, func(e store.Endpoint) bool { return slices.Contains(merchants, e.Merchant) })
}

// EndpointMarksUnless implements [store.Events].
func (s *Memory) EndpointMarksUnless(ctx context.Context, mark string) (ofMerchants map[string]string, now string, err error) {
	if err := s.lock(ctx); err != nil {
		return nil, "", err
	}
	defer s.mu.Unlock()
	if now = strconv.FormatInt(s.hooked, 10); now == mark {
		return nil, now, nil
	}
	ofMerchants = make(map[string]string)
	for _, e := range s.endpoints {
		ofMerchants[e.Merchant] = strconv.FormatInt(s.marks[e.Merchant], 10)
	}
	return ofMerchants, now, nil
}

// endpointsThat returns copies of the endpoints that are wanted, oldest first.
func (s *Memory) endpointsThat(ctx context.Context, are func(store.Endpoint) bool) ([]store.Endpoint, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var all []store.Endpoint
	for _, e := range s.endpoints {
		if are(e) {
			e.Data = bytes.Clone(e.Data)
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b store.Endpoint) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}

// RemoveEndpoint implements [store.Events].
func (s *Memory) RemoveEndpoint(ctx context.Context, id string) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	e, ok := s.endpoints[id]
	if !ok {
		return store.ErrNotFound
	}
	delete(s.endpoints, id)
	s.markEndpoints(e.Merchant)
	for key := range s.deliveries {
		if key[1] == id {
			delete(s.deliveries, key)
		}
	}
	return nil
}

// PutEvent implements [store.Events].
func (s *Memory) PutEvent(ctx context.Context, e store.Event) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if _, taken := s.events[e.ID]; taken {
		return store.ErrExists
	}
	s.addEvent(&e)
	return nil
}

// Event implements [store.Events].
func (s *Memory) Event(ctx context.Context, id string) (store.Event, error) {
	if err := s.lock(ctx); err != nil {
		return store.Event{}, err
	}
	defer s.mu.Unlock()
	e, ok := s.events[id]
	if !ok {
		return store.Event{}, store.ErrNotFound
	}
	return copyEvent(e), nil
}

// FindEvents implements [store.Events].
func (s *Memory) FindEvents(ctx context.Context, q store.EventQuery) ([]store.Event, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	from, to := q.Span()
	newestFirst := func(a, b store.Event) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID)) }
	var all []store.Event
	for _, e := range s.events {
		isAfter := q.AfterID == "" || newestFirst(store.Event{ID: q.AfterID, Created: q.AfterCreated}, e) < 0
		if e.Merchant == q.Merchant && (q.Type == "" || e.Type == q.Type) && (q.About == "" || e.About == q.About) &&
			!e.Created.Before(from) && e.Created.Before(to) && isAfter {
			all = append(all, copyEvent(e))
		}
	}
	slices.SortFunc(all, newestFirst)
	return all[:min(len(all), q.Limit)], nil
}

// Deliveries implements [store.Events].
func (s *Memory) Deliveries(ctx context.Context, event string) ([]store.Delivery, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var all []store.Delivery
	for key, d := range s.deliveries {
		if key[0] == event {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b store.Delivery) int { return cmp.Compare(a.Endpoint, b.Endpoint) })
	return all, nil
}

// ClaimDeliveries implements [store.Events].
func (s *Memory) ClaimDeliveries(ctx context.Context, now, until time.Time, busy []string, most int) ([]store.Delivery, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var due []store.Delivery
	for _, d := range s.deliveries {
		if !d.Due.IsZero() && !d.Due.After(now) && !slices.Contains(busy, d.Endpoint) {
			due = append(due, d)
		}
	}
	slices.SortFunc(due, func(a, b store.Delivery) int { return a.Due.Compare(b.Due) })
	due = due[:min(len(due), most)]
	for i := range due {
		due[i].Due = until.UTC().Truncate(time.Millisecond)
		s.deliveries[[2]string{due[i].Event, due[i].Endpoint}] = due[i]
	}
	return due, nil
}

// EndDelivery implements [store.Events].
func (s *Memory) EndDelivery(ctx context.Context, d store.Delivery) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	key := [2]string{d.Event, d.Endpoint}
	if _, ok := s.deliveries[key]; ok {
		d.Due, d.Last = d.Due.UTC().Truncate(time.Millisecond), d.Last.UTC().Truncate(time.Millisecond)
		s.deliveries[key] = d
	}
	return nil
}

// Redeliver implements [store.Events].
func (s *Memory) Redeliver(ctx context.Context, d store.Delivery, at time.Time) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	key := [2]string{d.Event, d.Endpoint}
	if now, ok := s.deliveries[key]; ok && now.Attempt == d.Attempt && now.Last.Equal(d.Last.Truncate(time.Millisecond)) {
		now.Attempt, now.Due = 0, at.UTC().Truncate(time.Millisecond)
		s.deliveries[key] = now
	}
	return nil
}

// SweepEvents implements [store.Events].
func (s *Memory) SweepEvents(ctx context.Context, before time.Time) (int, error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	return s.removeEvents(func(e store.Event) bool { return e.Created.Before(before) }), nil
}

// EraseEvents implements [store.Events].
func (s *Memory) EraseEvents(ctx context.Context, merchant string, about []string) (int, error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	return s.removeEvents(func(e store.Event) bool {
		return merchant != "" && e.Merchant == merchant || slices.Contains(about, e.About)
	}), nil
}
