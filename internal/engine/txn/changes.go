package txn

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// resultPoll is how often the store is asked for a result that may have come to another node. The
// interval varies by a fifth, so that requests that began together do not stay together.
const resultPoll = 500 * time.Millisecond

// RepeatUntil calls isDone at once and whenever a transaction may have changed, until that reports true or ctx has ended.
func (r *Rows) RepeatUntil(ctx context.Context, id string, isDone func() bool) {
	for goesOn := true; goesOn; {
		changed, forget := r.changes.watch(id)
		goesOn = !isDone() && awaitChange(ctx, changed)
		forget()
	}
}

// awaitChange waits until changed is closed or resultPoll is over. It reports false if ctx has ended.
func awaitChange(ctx context.Context, changed <-chan struct{}) bool {
	timer := time.NewTimer(resultPoll*4/5 + rand.N(resultPoll*2/5))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-timer.C:
	}
	return true
}

// Watch returns a channel that is closed by the next Wake for the id. Forget must be called once.
func (r *Rows) Watch(id string) (changed <-chan struct{}, forget func()) { return r.changes.watch(id) }

// Wake wakes all that watch the id.
func (r *Rows) Wake(id string) { r.changes.notify(id) }

// A changeNotifier tells waiting requests of this node that a transaction has changed. Its zero value is
// ready to use.
type changeNotifier struct {
	mu      sync.Mutex
	watched map[string]*watchedTxn // by threeDSServerTransID
}

type watchedTxn struct {
	changed  chan struct{} // closed by notify
	watchers int
}

// watch returns a channel that is closed by the next notify for the id. Forget must be called once.
func (n *changeNotifier) watch(id string) (changed <-chan struct{}, forget func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.watched[id]
	if w == nil {
		w = &watchedTxn{changed: make(chan struct{})}
		if n.watched == nil {
			n.watched = make(map[string]*watchedTxn)
		}
		n.watched[id] = w
	}
	w.watchers++
	return w.changed, func() { n.forget(id, w) }
}

// forget ends one watch. The last one of a transaction frees its memory.
func (n *changeNotifier) forget(id string, w *watchedTxn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w.watchers--; w.watchers == 0 && n.watched[id] == w {
		delete(n.watched, id)
	}
}

// notify wakes all that watch the id.
func (n *changeNotifier) notify(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w := n.watched[id]; w != nil {
		close(w.changed)
		delete(n.watched, id)
	}
}
