package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

const (
	unknownID     = "Unknown threeDSServerTransID"
	expiredID     = "Expired"
	noResultYet   = "No response from directory server yet"
	refusedResult = "A result was received and refused; no valid one has been received yet"
)

// A PendingError says that a transaction has no result yet and may still get one. It wraps the Erro for the
// requestor. Use [Engine.WaitForResult] to wait.
type PendingError struct{ Erro message.Error }

func (e *PendingError) Error() string { return e.Erro.Error() }

func (e *PendingError) Unwrap() error { return e.Erro }

// Result hands out the RReq of a challenge, byte for byte, any number of times
// while it is kept. For any merchant but the one that made the /auth the id is
// unknown. The error is a *PendingError while the result may still come.
func (e *Engine) Result(ctx context.Context, acc *account.Account, body []byte) ([]byte, error) {
	var rreq handedOut
	id, err := e.readResultRequest(body)
	if err == nil {
		e.note(ctx, "threeDSServerTransID", id)
		rreq, err = e.result(ctx, acc, id)
	}
	e.noteEnd(ctx, "postauth", rreq.scheme, outcomeOf(rreq.status, err))
	return rreq.text, err
}

// A handedOut is the RReq that a merchant gets, byte for byte.
type handedOut struct {
	text   []byte
	status string // its transStatus
	scheme string
}

// readResultRequest returns the id that the body of a /postauth names.
func (e *Engine) readResultRequest(body []byte) (id string, err error) {
	req, err := message.ReadRequest(body, e.Limits)
	if err != nil {
		return "", badJSON(err)
	}
	found := req.Duplicates()
	if !req.Has("threeDSServerTransID") {
		found = append(found, message.Problem{Code: message.Missing, Path: "threeDSServerTransID"})
	}
	if len(found) > 0 {
		return "", e.refuseBody(req, found)
	}
	id = strings.ToLower(req.Text("threeDSServerTransID"))
	if !message.IsUUID(id) {
		return "", unknown(message.V220, unknownID, "")
	}
	return id, nil
}

// result looks up the result of an id. The id itself tells its owner.
func (e *Engine) result(ctx context.Context, acc *account.Account, id string) (handedOut, error) {
	t, rec, err := e.readOwned(ctx, acc, id)
	switch {
	case errors.Is(err, ErrNoAuthentication):
		return handedOut{}, unknown(message.V220, unknownID, id)
	case errors.Is(err, ErrStoreUnreachable):
		return handedOut{}, unreachable(message.V220, id)
	case err != nil:
		return handedOut{}, err
	}
	switch isOver := e.isOver(rec); {
	case isOver && hasNoResult(t, rec):
		return handedOut{}, unknown(rec.version(), expiredID, id)
	case isOver:
		return handedOut{}, unknown(message.V220, unknownID, id)
	}
	if err := e.checkPutBack(ctx, t, rec); err != nil {
		return handedOut{}, err
	}
	e.noteRecord(ctx, t, rec)
	rreq, err := e.rreqOf(t, rec)
	if err != nil {
		return handedOut{}, err
	}
	m, err := message.Parse(rreq, message.Limits{})
	if err != nil {
		return handedOut{}, err
	}
	e.noteResult(ctx, m)
	e.addMoment(t, rec, journal.Collected, journal.Step{Step: "postauth"})
	return handedOut{rreq, m.Text("transStatus"), t.Scheme}, nil
}

// noteRecord records what is kept of the transaction that a request is about.
func (e *Engine) noteRecord(ctx context.Context, t *store.Txn, rec *txnRecord) {
	if e.Recorder == nil {
		return
	}
	e.note(ctx, "scheme", t.Scheme)
	e.note(ctx, "messageVersion", rec.Version)
	e.note(ctx, "bin", rec.BIN)
	e.note(ctx, "last4", rec.Last4)
	e.note(ctx, "reference", rec.Reference)
	c, err := rec.context()
	if err != nil {
		return
	}
	for _, name := range []string{"deviceChannel", "messageCategory"} {
		e.note(ctx, name, c.AReq.Text(name))
	}
	if c.ARes != nil {
		e.note(ctx, "acsTransID", c.ARes.Text("acsTransID"))
		e.note(ctx, "dsTransID", c.ARes.Text("dsTransID"))
	}
}

// rreqOf returns the RReq of a transaction, or an error for the requestor that says why
// there is none.
func (e *Engine) rreqOf(t *store.Txn, rec *txnRecord) ([]byte, error) {
	v := rec.version()
	switch {
	case t.State == Result:
		return rec.RReq, nil
	case t.State == Challenge, t.State == Sent && !e.isClaimOver(rec.Sent):
		detail := noResultYet
		if rec.BadResult != nil {
			detail = refusedResult
		}
		bad := erro(v, message.BadTransactionData, detail, t.ID)
		bad.Description = "No RReq has been received"
		return nil, &PendingError{bad}
	case t.State == Final:
		return nil, unknown(v, "No challenge took place, the result is in the ARes", t.ID)
	case t.State == Failed && rec.Erro != nil:
		m, err := message.Parse(rec.Erro, message.Limits{})
		if err != nil {
			return nil, err
		}
		return nil, message.ReadError(m)
	}
	return nil, unknown(v, unknownID, t.ID)
}

// unknown is the 203 of /postauth: there is no result under the id, and never will be.
func unknown(v message.Version, detail, id string) message.Error {
	e := erro(v, message.Format, detail, id)
	e.Description = unknownID
	return e
}

// resultPoll is how often the store is asked for a result that may have come to another node. The
// interval varies by a fifth, so that requests that began together do not stay together.
const resultPoll = 500 * time.Millisecond

// WaitForResult waits for the result of a transaction that [Engine.Result] returned pending for. It
// returns as soon as Result would return anything but a *PendingError, and that error once ctx has
// ended. A result that comes to this node is noticed at once, one that comes to another within resultPoll.
func (e *Engine) WaitForResult(ctx context.Context, acc *account.Account, pending *PendingError) ([]byte, error) {
	id := pending.Erro.ServerTransID
	var rreq handedOut
	var err error
	e.repeatUntil(ctx, id, func() bool {
		rreq, err = e.result(context.WithoutCancel(ctx), acc, id)
		_, isPending := errors.AsType[*PendingError](err)
		return !isPending
	})
	e.noteEnd(ctx, "postauth", rreq.scheme, outcomeOf(rreq.status, err))
	return rreq.text, err
}

// repeatUntil calls isDone at once and whenever a transaction may have changed, until that reports true or ctx has ended.
func (e *Engine) repeatUntil(ctx context.Context, id string, isDone func() bool) {
	for goesOn := true; goesOn; {
		changed, forget := e.changes.watch(id)
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
func (a *Acknowledged) contradicts(t *store.Txn, r *txnRecord) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	digest, ok := a.newer[t.ID]
	if !ok {
		digest, ok = a.older[t.ID]
	}
	return ok && (t.State != Result || digest != sha256.Sum256(r.RReq))
}

// checkPutBack returns an error, and logs and counts it, if the row of a transaction contradicts a result that
// this process has acknowledged. A row that was read just before the result was stored is read again, in place.
func (e *Engine) checkPutBack(ctx context.Context, t *store.Txn, r *txnRecord) error {
	if !e.acknowledged().contradicts(t, r) {
		return nil
	}
	if now, err := e.Store.Get(ctx, t.ID); err == nil {
		rec, err := e.unseal(&now)
		if err == nil && !e.acknowledged().contradicts(&now, rec) {
			*t, *r = now, *rec
			return nil
		}
	}
	e.Log.ErrorContext(ctx, "row of a transaction was put back", "threeDSServerTransID", t.ID, "state", t.State)
	if e.PutBack != nil {
		e.PutBack()
	}
	return errPutBack
}
