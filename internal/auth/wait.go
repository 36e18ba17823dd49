package auth

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/account"
)

// resultPoll is how often the store is asked for a result that may have come to another node. The
// interval varies by a fifth, so that requests that began together do not stay together.
const resultPoll = 500 * time.Millisecond

// WaitForResult waits for the result of a transaction that [Engine.Result] returned pending for. It
// returns as soon as Result would return anything but a *PendingError, and that error once ctx has
// ended. A result that comes to this node is noticed at once, one that comes to another within resultPoll.
func (e *Engine) WaitForResult(ctx context.Context, acc *account.Account, pending *PendingError) ([]byte, error) {
	id := pending.Erro.ServerTransID
	for {
		changed, forget := e.changes.watch(id)
		rreq, err := e.result(context.WithoutCancel(ctx), acc, id)
		if _, ok := errors.AsType[*PendingError](err); !ok || !awaitChange(ctx, changed) {
			forget()
			e.noteEnd(ctx, "postauth", rreq.scheme, outcomeOf(rreq.status, err))
			return rreq.text, err
		}
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
