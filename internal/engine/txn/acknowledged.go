package txn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/openthreeds/threeds/internal/state/store"
)

func (r *Rows) acknowledged() *Acknowledged { return cmp.Or(r.Acknowledged, &r.ownAcked) }

// errPutBack says that a row is older than the result that was acknowledged for it. A seal cannot tell, since
// the row was good once.
var errPutBack = errors.New("auth: the row is older than its result: somebody has put it back, or the database has lost a commit")

// Acknowledged remembers the results that this process has acknowledged to directory servers, as long as there
// is room. Its zero value is ready to use, and it is safe for concurrent use. Engines that follow each other in
// one process share one.
type Acknowledged struct {
	mu           sync.Mutex
	newer, older map[string][sha256.Size]byte // digests of RReqs by threeDSServerTransID
}

// Acknowledge remembers a result that is acknowledged.
func (r *Rows) Acknowledge(id string, rreq []byte) { r.acknowledged().add(id, rreq) }

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
