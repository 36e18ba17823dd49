package shop

import (
	"crypto/rand"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/openthreeds/threeds/api"
)

// A checkoutStore keeps the checkouts that are going on, in memory, bounded in number
// and in age.
type checkoutStore struct {
	max int
	age time.Duration
	now func() time.Time

	mu    sync.Mutex
	byID  map[string]*checkout
	alias map[string]*checkout // by what other parties know: session data, transaction id
}

func newCheckoutStore(max int, age time.Duration, now func() time.Time) *checkoutStore {
	return &checkoutStore{
		max: max, age: age, now: now, byID: make(map[string]*checkout), alias: make(map[string]*checkout),
	}
}

var errFull = errors.New("too many checkouts at a time")

// open begins a checkout under a fresh id, which cannot be guessed: the id
// is the right to use the checkout. Other parties get to know the session instead.
func (t *checkoutStore) open() (*checkout, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID) >= t.max {
		t.sweep()
	}
	if len(t.byID) >= t.max {
		t.forgetEnded()
	}
	if len(t.byID) >= t.max {
		return nil, errFull
	}
	c := &checkout{id: rand.Text(), session: rand.Text(), began: t.now(), state: starting}
	t.byID[c.id], t.alias[c.session] = c, c
	return c, nil
}

// forgetEnded makes room: it forgets the oldest checkouts that have ended and whose pages know everything. The caller
// holds the lock.
func (t *checkoutStore) forgetEnded() {
	var oldest *checkout
	for _, c := range t.byID {
		if c.over.Load() && (oldest == nil || c.began.Before(oldest.began)) {
			oldest = c
		}
	}
	if oldest == nil {
		return
	}
	delete(t.byID, oldest.id)
	maps.DeleteFunc(t.alias, func(_ string, c *checkout) bool { return c == oldest })
}

// sweep forgets what is too old. The caller holds the lock.
func (t *checkoutStore) sweep() {
	isOld := func(_ string, c *checkout) bool { return t.isOld(c) }
	maps.DeleteFunc(t.byID, isOld)
	maps.DeleteFunc(t.alias, isOld)
}

func (t *checkoutStore) isOld(c *checkout) bool { return t.now().Sub(c.began) >= t.age }

// addAlias makes a checkout known to notices under the id of its transaction.
func (t *checkoutStore) addAlias(c *checkout, transID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.alias[transID] = c
}

// find returns the checkout with an id, nil when there is none (any more).
func (t *checkoutStore) find(id string) *checkout { return t.get(t.byID, id) }

// findByNotice returns the checkout that a notice is for, by session data or
// transaction id, nil when there is none.
func (t *checkoutStore) findByNotice(alias string) *checkout { return t.get(t.alias, alias) }

func (t *checkoutStore) get(from map[string]*checkout, id string) *checkout {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := from[id]; c != nil && !t.isOld(c) {
		return c
	}
	return nil
}

// A payment is one payment of the short way.
type payment struct {
	reference string // by which the server knows the payment before the shop knows id
	opened    time.Time
	begun     chan struct{} // closed when id is set
	ended     chan struct{} // closed when end is set

	id  string // of the authentication; empty if the server has refused
	end *api.AuthenticationSummary

	isPushed bool   // an event has brought end
	event    string // id of the event, which may come after the shop has asked
	eventAt  time.Time
}

// A paymentStore keeps the payments of the short way in memory, bounded in number and in age.
type paymentStore struct {
	max int
	age time.Duration
	now func() time.Time

	mu          sync.Mutex
	byReference map[string]*payment
	byID        map[string]*payment
}

func newPaymentStore(max int, age time.Duration, now func() time.Time) *paymentStore {
	return &paymentStore{
		max: max, age: age, now: now, byReference: make(map[string]*payment), byID: make(map[string]*payment),
	}
}

// open opens a payment under a fresh reference. The error is errFull if there are too many that have not ended.
func (t *paymentStore) open() (*payment, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var oldest *payment
	for _, p := range t.byReference {
		switch {
		case t.now().Sub(p.opened) >= t.age:
			t.remove(p)
		case p.end != nil && (oldest == nil || p.opened.Before(oldest.opened)):
			oldest = p
		}
	}
	if len(t.byReference) >= t.max {
		if oldest == nil {
			return nil, errFull
		}
		t.remove(oldest)
	}
	p := &payment{reference: rand.Text(), opened: t.now(), begun: make(chan struct{}), ended: make(chan struct{})}
	t.byReference[p.reference] = p
	return p, nil
}

// remove forgets a payment. The caller holds the lock.
func (t *paymentStore) remove(p *payment) {
	delete(t.byReference, p.reference)
	delete(t.byID, p.id)
}

// setID notes the authentication of a payment. An empty id means that there is none, and the payment is forgotten.
func (t *paymentStore) setID(p *payment, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id == "" {
		t.remove(p)
	} else {
		p.id, t.byID[id] = id, p
	}
	close(p.begun)
}

// recordAnswer ends a payment by the server's answer to a question. The first end stays.
func (t *paymentStore) recordAnswer(p *payment, end *api.AuthenticationSummary) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.end == nil {
		p.end = end
		close(p.ended)
	}
}

// recordEvent ends a payment with what an event says. The first event and the first end stay.
func (t *paymentStore) recordEvent(p *payment, event *api.Event[api.AuthenticationSummary]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.event != "" { // most likely this event, which may be delivered more than once
		return
	}
	p.event, p.eventAt = event.ID, t.now()
	if p.end == nil {
		p.end, p.isPushed = &event.Data, true
		close(p.ended)
	}
}

// findByReference returns the payment with a reference, nil if there is none.
func (t *paymentStore) findByReference(reference string) *payment {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byReference[reference]
}

// findByID returns the payment of an authentication, nil if there is none.
func (t *paymentStore) findByID(id string) *payment {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// snapshot returns a copy of a payment as it is now.
func (t *paymentStore) snapshot(p *payment) payment {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *p
}
