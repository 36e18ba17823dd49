package webhook

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/openthreeds/threeds/internal/state/store"
)

// maxUnreadMerchants limits how many merchants with endpoints that do not open a refresh reads again. Their secret may
// be back in the key file, and the store does not know that.
const maxUnreadMerchants = 100

// endpoints are those that a node knows: all of the store, as they were at the last refresh, and what this node has
// changed since. Their zero value is ready to use.
type endpoints struct {
	mu        sync.RWMutex
	mark      string // of all endpoints, at the last refresh
	reads     uint64 // of endpoints from the store, that have begun
	merchants map[string]*merchantEndpoints
	byID      map[string]*Endpoint
	unread    map[string]string // endpoints whose rows do not open: merchants by id
}

// merchantEndpoints are the endpoints of one merchant. They stay when the merchant has no more, for
// the number of the read.
type merchantEndpoints struct {
	mark   string      // at the last refresh
	read   uint64      // number of the read that they come from
	opened []*Endpoint // oldest first
	unread []string    // ids of those that do not open
}

// find returns the endpoint with an id, or nil.
func (k *endpoints) find(id string) *Endpoint {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.byID[id]
}

// of returns the endpoints of a merchant, oldest first.
func (k *endpoints) of(merchant string) []*Endpoint {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if m := k.merchants[merchant]; m != nil {
		return m.opened
	}
	return nil
}

// all returns the endpoints of all merchants, oldest first.
func (k *endpoints) all() []*Endpoint {
	k.mu.RLock()
	all := slices.Collect(maps.Values(k.byID))
	k.mu.RUnlock()
	slices.SortFunc(all, func(a, b *Endpoint) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return all
}

// count returns how many endpoints there are that open, and how many that do not.
func (k *endpoints) count() (opened, unread int) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.byID), len(k.unread)
}

// isUnread reports whether there is an endpoint with the id that does not open.
func (k *endpoints) isUnread(id string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	_, isUnread := k.unread[id]
	return isUnread
}

// ownerOf returns the merchant of an endpoint, or ErrNoEndpoint.
func (k *endpoints) ownerOf(id string) (string, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if e := k.byID[id]; e != nil {
		return e.Merchant, nil
	}
	if merchant, isUnread := k.unread[id]; isUnread {
		return merchant, nil
	}
	return "", ErrNoEndpoint
}

// has reports whether a merchant has endpoints, also if they do not open.
func (k *endpoints) has(merchant string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	m := k.merchants[merchant]
	return m != nil && len(m.opened)+len(m.unread) > 0
}

// lastMark returns the mark of all endpoints at the last refresh.
func (k *endpoints) lastMark() string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.mark
}

// findStale returns the merchants whose endpoints have to be read again, by the marks that the store has now. No marks
// mean that none has changed.
func (k *endpoints) findStale(marks map[string]string) (stale []string) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for merchant, mark := range marks {
		if m := k.merchants[merchant]; m == nil || m.mark != mark || mark == "" {
			stale = append(stale, merchant)
		}
	}
	if marks != nil {
		for merchant, m := range k.merchants {
			if _, isThere := marks[merchant]; !isThere && len(m.opened)+len(m.unread) > 0 {
				stale = append(stale, merchant)
			}
		}
	}
	again := make(map[string]bool)
	for _, merchant := range k.unread {
		if len(again) == maxUnreadMerchants {
			break
		}
		if !again[merchant] {
			again[merchant] = true
			stale = append(stale, merchant)
		}
	}
	return stale
}

// beginRead returns the number of a read that is about to begin.
func (k *endpoints) beginRead() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	return k.reads
}

// put puts what a read has found in place of the endpoints of a merchant, unless they come from a
// read that began later.
func (k *endpoints) put(merchant string, found *merchantEndpoints) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.merchants == nil {
		k.merchants, k.byID, k.unread = make(map[string]*merchantEndpoints), make(map[string]*Endpoint),
			make(map[string]string)
	}
	was := k.merchants[merchant]
	if was == nil {
		was = &merchantEndpoints{}
	}
	if was.read > found.read {
		return
	}
	for _, e := range was.opened {
		delete(k.byID, e.ID)
	}
	for _, id := range was.unread {
		delete(k.unread, id)
	}
	for _, e := range found.opened {
		k.byID[e.ID] = e
	}
	for _, id := range found.unread {
		k.unread[id] = merchant
	}
	found.mark = was.mark
	k.merchants[merchant] = found
}

// setMarks notes the marks that belong to what is known. No marks mean that those of the merchants have not changed.
func (k *endpoints) setMarks(marks map[string]string, all string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mark = all
	if marks == nil {
		return
	}
	for merchant, m := range k.merchants {
		m.mark = marks[merchant]
	}
}

// Refresh reads the endpoints of those merchants that the store reports as changed since the last time.
func (s *Service) Refresh(ctx context.Context) error {
	last := s.known.lastMark()
	marks, now, err := s.Store.EndpointMarksUnless(ctx, last)
	if err != nil {
		return err
	}
	if now == last && now != "" {
		marks = nil // none has changed
	}
	// The marks are older than the endpoints: what changes between the two is read again the next time.
	if err := s.read(ctx, s.known.findStale(marks)...); err != nil {
		return err
	}
	s.known.setMarks(marks, now)
	return nil
}

// read reads the endpoints of merchants into those that the node knows.
func (s *Service) read(ctx context.Context, merchants ...string) error {
	if len(merchants) == 0 {
		return nil
	}
	number := s.known.beginRead()
	rows, err := s.Store.EndpointsOf(ctx, merchants...)
	if err != nil {
		return err
	}
	found := make(map[string]*merchantEndpoints, len(merchants))
	for _, merchant := range merchants {
		found[merchant] = &merchantEndpoints{read: number}
	}
	for _, row := range rows {
		m := found[row.Merchant]
		e, err := openEndpoint(s.Sealer, row)
		if err == nil {
			m.opened = append(m.opened, e)
			continue
		}
		m.unread = append(m.unread, row.ID)
		if !s.known.isUnread(row.ID) {
			s.Log.Error("webhook endpoint not read: nothing is delivered to it", "endpoint", row.ID,
				"merchant", row.Merchant, "err", err)
		}
	}
	for merchant, m := range found {
		s.known.put(merchant, m)
	}
	return nil
}

// Endpoints returns those of a merchant, oldest first, without those that do not open.
func (s *Service) Endpoints(ctx context.Context, merchant string) (all []*Endpoint, err error) {
	rows, err := s.Store.EndpointsOf(ctx, merchant)
	for _, row := range rows {
		if e, err := openEndpoint(s.Sealer, row); err == nil {
			all = append(all, e)
		}
	}
	return all, err
}

// findRow returns the row of an endpoint of a merchant, or ErrNoEndpoint.
func (s *Service) findRow(ctx context.Context, merchant, id string) (store.Endpoint, error) {
	rows, err := s.Store.EndpointsOf(ctx, merchant)
	if err != nil {
		return store.Endpoint{}, err
	}
	i := slices.IndexFunc(rows, func(row store.Endpoint) bool { return row.ID == id })
	if i < 0 {
		return store.Endpoint{}, ErrNoEndpoint
	}
	return rows[i], nil
}

// Endpoint returns an endpoint of a merchant, or ErrNoEndpoint, also if it does not open.
func (s *Service) Endpoint(ctx context.Context, merchant, id string) (*Endpoint, error) {
	row, err := s.findRow(ctx, merchant, id)
	if err != nil {
		return nil, err
	}
	e, err := openEndpoint(s.Sealer, row)
	if err != nil {
		return nil, ErrNoEndpoint
	}
	return e, nil
}

// AllEndpoints returns the endpoints of all merchants, oldest first. The operator's own are not among them.
func (s *Service) AllEndpoints(ctx context.Context) ([]*Endpoint, error) {
	if err := s.Refresh(ctx); err != nil {
		return nil, err
	}
	return s.known.all(), nil
}

// EndpointOfAny returns the endpoint of whichever merchant that has an id, or ErrNoEndpoint.
func (s *Service) EndpointOfAny(ctx context.Context, id string) (*Endpoint, error) {
	if err := s.Refresh(ctx); err != nil {
		return nil, err
	}
	e := s.known.find(id)
	if e == nil {
		return nil, ErrNoEndpoint
	}
	return e, nil
}

// FindOwner returns the merchant that an endpoint belongs to, even if it does not open, or ErrNoEndpoint. With a
// merchant it looks among the endpoints of that one.
func (s *Service) FindOwner(ctx context.Context, merchant, id string) (string, error) {
	if merchant != "" {
		_, err := s.findRow(ctx, merchant, id)
		return merchant, err
	}
	if err := s.Refresh(ctx); err != nil {
		return "", err
	}
	return s.known.ownerOf(id)
}

// TroubledEndpoints returns the endpoints, of all merchants, that get no deliveries, or to which none succeeds.
func (s *Service) TroubledEndpoints(ctx context.Context) ([]*Endpoint, error) {
	all, err := s.AllEndpoints(ctx)
	all = slices.DeleteFunc(all, func(e *Endpoint) bool { return !e.Disabled && e.Failing.IsZero() })
	slices.SortFunc(all, func(a, b *Endpoint) int { return strings.Compare(a.ID, b.ID) })
	return all, err
}
