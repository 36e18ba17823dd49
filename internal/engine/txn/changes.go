package txn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// resultPoll is how often the store is asked for a result that may have come to another node. The
// interval varies by a fifth, so that requests that began together do not stay together.
const resultPoll = 500 * time.Millisecond

// Watch returns a channel that is closed by the next Wake for the id. Forget must be called once.
func (r *Rows) Watch(id string) (changed <-chan struct{}, forget func()) { return r.changes.watch(id) }

// Wake wakes all that watch the id.
func (r *Rows) Wake(id string) { r.changes.notify(id) }

// RepeatUntil calls isDone immediately, and again whenever a transaction may have changed, until that reports true or
// ctx has ended.
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

// errPutBack says that a row is older than the result that was acknowledged for it. A seal cannot show that, since the
// row was valid once.
var errPutBack = errors.New(
	"auth: the row is older than its result: it was put back, or the database has lost a commit")

// Acknowledged remembers the results that this process has acknowledged to directory servers, as long as there
// is room. Its zero value is ready to use, and it is safe for concurrent use. Engines that follow each other in
// one process share one.
type Acknowledged struct {
	mu           sync.Mutex
	newer, older map[string][sha256.Size]byte // digests of RReqs by threeDSServerTransID
}

// maxAcknowledged is how many results are remembered at least, once there were so many. Twice as many take 8 MB.
const maxAcknowledged = 1 << 15

// add remembers a result that is acknowledged.
func (a *Acknowledged) add(id string, rreq []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.newer == nil || len(a.newer) >= maxAcknowledged {
		a.older, a.newer = a.newer, make(map[string][sha256.Size]byte)
	}
	a.newer[id] = sha256.Sum256(rreq)
}

// contradicts reports whether another result than that of the row was acknowledged.
func (a *Acknowledged) contradicts(t *store.Txn, rec *Record) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	digest, ok := a.newer[t.ID]
	if !ok {
		digest, ok = a.older[t.ID]
	}
	return ok && (t.State != Result || digest != sha256.Sum256(rec.RReq))
}

func (r *Rows) acknowledged() *Acknowledged { return cmp.Or(r.Acknowledged, &r.ownAcked) }

// Acknowledge remembers a result that is acknowledged.
func (r *Rows) Acknowledge(id string, rreq []byte) { r.acknowledged().add(id, rreq) }

// CheckPutBack returns an error, and logs and counts it, if the row of a transaction contradicts a result that
// this process has acknowledged. A row that was read just before the result was stored is read again, in place.
func (r *Rows) CheckPutBack(ctx context.Context, t *store.Txn, rec *Record) error {
	if !r.acknowledged().contradicts(t, rec) {
		return nil
	}
	if now, err := r.Store.Get(ctx, t.ID); err == nil {
		again, err := r.Unseal(&now)
		if err == nil && !r.acknowledged().contradicts(&now, again) {
			*t, *rec = now, *again
			return nil
		}
	}
	r.Log.ErrorContext(ctx, "row of a transaction was put back", "threeDSServerTransID", t.ID, "state", t.State)
	if r.PutBack != nil {
		r.PutBack()
	}
	return errPutBack
}
