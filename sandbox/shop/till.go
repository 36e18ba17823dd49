package shop

import (
	"crypto/rand"
	"errors"
	"maps"
	"sync"
	"time"
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
	return &checkoutStore{max: max, age: age, now: now, byID: make(map[string]*checkout), alias: make(map[string]*checkout)}
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

// forgetEnded makes room: of the checkouts that have ended, whose pages have been
// told all there is, it forgets the oldest. The caller holds the lock.
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
	for id, c := range t.byID {
		if t.old(c) {
			delete(t.byID, id)
		}
	}
	for id, c := range t.alias {
		if t.old(c) {
			delete(t.alias, id)
		}
	}
}

func (t *checkoutStore) old(c *checkout) bool { return t.now().Sub(c.began) >= t.age }

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
	c := from[id]
	if c == nil || t.old(c) {
		return nil
	}
	return c
}
