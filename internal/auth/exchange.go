package auth

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/message"
)

// commitTime is what an /auth may take beyond its time limit to commit its outcome. It
// is short enough for the answer to leave within a quarter of a second of the limit.
const commitTime = 200 * time.Millisecond

// exchange sends the one AReq of a claimed transaction. It goes on if the requestor
// hangs up; the time limit counts from the start of the /auth.
func (a *authentication) exchange(ctx context.Context) ([]byte, error) {
	a.inFlight.Add(1)
	defer a.inFlight.Done()
	// Most of an /auth's time is spent waiting here, by thousands at once. To save
	// memory nothing of the request is kept but its text and the facts in a.rec.
	areq := a.areq.Bytes()
	a.req, a.areq, a.hits = nil, nil, nil
	through := context.WithoutCancel(ctx)
	apart, cancel := context.WithTimeout(through, a.left())
	defer cancel()
	sent := a.Now()
	body, err := a.Directories.Send(apart, a.peer.Scheme, a.acc.Merchant.Name, areq, a.id, a.version, a.info.IssuerCountry)
	if a.Recorder != nil {
		a.Recorder.NoteDirectory(ctx, a.Now().Sub(sent))
	}
	a.rec.Gone = ctx.Err() != nil
	return a.judge(through, body, err)
}

// left is what remains of the time limit.
func (a *authentication) left() time.Duration {
	return a.start.Add(a.Timeouts.Authentication).Sub(a.Now())
}

// judge turns a directory's answer, or the lack of one, into what the requestor gets,
// and commits the outcome of the transaction. From here on ctx has no end of its own.
func (a *authentication) judge(ctx context.Context, body []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, a.failed(ctx, a.contact(ctx, err))
	}
	c, err := a.rec.context()
	if err != nil {
		return nil, err
	}
	a.areq = c.AReq
	ares, err := message.Parse(body, a.Limits)
	if err != nil {
		return nil, a.refuse(ctx, nil, message.InvalidMessage, "Invalid Formatted Message", "")
	}
	kind, known := ares.Type()
	switch {
	case known && kind == message.Erro:
		return nil, a.failed(ctx, a.relay(ctx, ares))
	case known && kind != message.ARes:
		return nil, a.refuse(ctx, ares, message.InvalidMessage, "Invalid Message for the receiving component", kind.String())
	case !known && ares.Has("messageType"):
		return nil, a.refuse(ctx, ares, message.InvalidMessage, "Invalid Message Type", "")
	}
	if found := ares.Check(a.peer.context(c)); len(found) > 0 {
		code, detail := found.Pick(message.ForPeer)
		return nil, a.refuse(ctx, ares, code, detail, "ARes")
	}
	return a.accept(ctx, ares)
}

// accept commits a good ARes. One that asks for a challenge reaches the requestor only
// if it is committed, for an RReq will refer to it. A final one needs nothing that comes
// later, so the requestor gets it even if the commit fails.
func (a *authentication) accept(ctx context.Context, ares *message.Message) ([]byte, error) {
	status := ares.Text("transStatus")
	next, keep := Final, a.kept()
	switch status {
	case "C", "S":
		next, keep = Challenge, a.Timeouts.Challenge
	case "D":
		next, keep = Challenge, a.decoupledWait()
	}
	a.rec.ARes = ares.Facts()
	a.rec.Decoupled = status == "D"
	if err := a.rememberSPC(ctx, status, ares); err != nil {
		a.Log.ErrorContext(ctx, "first leg not stored", "threeDSServerTransID", a.id, "err", err)
		return nil, unreachable(a.version, a.id)
	}
	commit := a.commit
	if next == Challenge {
		commit = a.await
	}
	err := commit(ctx, next, keep)
	a.status = status
	a.noteResult(ctx, ares)
	a.explain(ctx, a.id, a.peer.Scheme, ares)
	if err != nil {
		a.Log.ErrorContext(ctx, "outcome not stored", "threeDSServerTransID", a.id, "state", next, "err", err)
		if next == Challenge {
			return nil, unreachable(a.version, a.id)
		}
	}
	return ares.Bytes(), nil
}

// decoupledWait is how long the RReq of a decoupled authentication may take.
func (a *authentication) decoupledWait() time.Duration {
	minutes, err := strconv.Atoi(a.areq.Text("threeDSRequestorDecMaxTime"))
	if err != nil {
		minutes = 10080 // the longest there is: 7 days
	}
	return time.Duration(minutes)*time.Minute + decoupledGrace
}

// contact logs that a directory gave no answer, and makes the requestor's Erro of that.
func (a *authentication) contact(ctx context.Context, err error) message.Error {
	detail := "Connection failed"
	var told interface{ Detail() string }
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		detail = "Connection timeout"
	case errors.As(err, &told):
		detail = told.Detail()
	}
	a.Log.WarnContext(ctx, "directory gave no answer", "threeDSServerTransID", a.id, "scheme", a.peer.Scheme, "err", err)
	bad := erro(a.version, message.ConnectionFailure, detail, a.id)
	bad.MessageType = "AReq"
	return bad
}

// relay passes a directory's Erro on, code and component unchanged. It answers the
// AReq, so it is about this transaction, whatever id and version it has: the requestor
// gets his own.
func (a *authentication) relay(ctx context.Context, m *message.Message) message.Error {
	bad := erroOf(m)
	bad.Version, bad.ServerTransID = a.version, a.id
	a.Log.WarnContext(ctx, "directory answered with an Erro", "threeDSServerTransID", a.id, "scheme", a.peer.Scheme,
		"errorCode", bad.Code, "errorComponent", bad.Component)
	return bad
}

// refuse answers an ARes that is not good: an Erro to the directory server, in
// a request of its own, and one to the requestor.
func (a *authentication) refuse(ctx context.Context, m *message.Message, code message.Code, detail, kind string) error {
	bad := erro(a.version, code, detail, a.id)
	bad.Description = code.Description()
	bad.MessageType = kind
	bad.SDKTransID = a.areq.Text("sdkTransID")
	if m != nil {
		bad.DSTransID, bad.ACSTransID = idOf(m, "dsTransID"), idOf(m, "acsTransID")
	}
	a.Directories.Report(ctx, a.peer.Scheme, a.info.IssuerCountry, bad.JSON())
	a.Log.WarnContext(ctx, "answer of the directory refused", "threeDSServerTransID", a.id, "scheme", a.peer.Scheme,
		"errorCode", code, "errorDetail", detail)
	// The requestor knows no other id of the transaction (API contract, G9).
	bad.DSTransID, bad.ACSTransID, bad.SDKTransID = "", "", ""
	bad.Description = "Invalid response from Directory Server"
	return a.failed(ctx, bad)
}

// failed commits that the transaction has failed, and returns bad. If the commit fails
// too, nothing is wrong: a claim with no outcome counts as failed once its time is over.
func (a *authentication) failed(ctx context.Context, bad message.Error) error {
	if err := a.commit(ctx, Failed, a.kept()); err != nil {
		a.Log.ErrorContext(ctx, "outcome not stored", "threeDSServerTransID", a.id, "state", Failed, "err", err)
	}
	return bad
}

// commit moves the transaction to its last state, lazily: a crash of the machine may
// lose that. The claim that is left then says as much once its time is over, for its id
// stays used and no result is expected.
func (a *authentication) commit(ctx context.Context, next store.State, keep time.Duration) error {
	ctx, cancel := a.commitContext(ctx)
	defer cancel()
	return a.Store.Update(ctx, store.Txn{ID: a.id}, func(t *store.Txn) error {
		t.Lazy = true
		return a.step(t, next, keep)
	})
}

// commitContext is for the writes after the exchange: it lasts as long as the /auth may
// still take, and never less than commitTime.
func (a *authentication) commitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(a.left(), 0)+commitTime)
}

// step is the change that commit and await make.
func (a *authentication) step(t *store.Txn, next store.State, keep time.Duration) error {
	if err := advance(t, next); err != nil {
		return err
	}
	a.lasts(t, a.rec, keep)
	return a.seal(t, a.rec)
}

// await is commit for a transaction whose result is still to come. It is not lazy, and
// when the store does not say whether the write has happened it finds out. If it cannot
// in time, it returns an error, so the requestor gets no ARes, and the directory server
// is told so when it posts the result.
func (a *authentication) await(ctx context.Context, next store.State, keep time.Duration) error {
	ctx, cancel := a.commitContext(ctx)
	defer cancel()
	again := false
	c := a.change(store.Txn{ID: a.id}, func(t *store.Txn) error {
		if again && t.State != Sent {
			return nil // an earlier try was made, and the result has come since
		}
		again = true
		return a.step(t, next, keep)
	})
	sure, err := c.run(ctx)
	if !sure {
		c.settle(func(rec *record) { rec.Undelivered = true })
	}
	return err
}
