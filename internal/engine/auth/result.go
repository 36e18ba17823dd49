package auth

import (
	"context"
	"errors"
	"strings"

	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

const (
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
		e.Note(ctx, "threeDSServerTransID", id)
		rreq, err = e.result(ctx, acc, id)
	}
	e.NoteEnd(ctx, "postauth", rreq.scheme, OutcomeOf(rreq.status, err))
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
		return "", check.BadJSON(err)
	}
	found := req.Duplicates()
	if !req.Has("threeDSServerTransID") {
		found = append(found, message.Problem{Code: message.Missing, Path: "threeDSServerTransID"})
	}
	if len(found) > 0 {
		return "", e.RefuseBody(req, found)
	}
	id = strings.ToLower(req.Text("threeDSServerTransID"))
	if !message.IsUUID(id) {
		return "", unknown(message.V220, check.UnknownID, "")
	}
	return id, nil
}

// result looks up the result of an id. The id itself tells its owner.
func (e *Engine) result(ctx context.Context, acc *account.Account, id string) (handedOut, error) {
	t, rec, err := e.ReadOwned(ctx, acc, id)
	switch {
	case errors.Is(err, ErrNoAuthentication):
		return handedOut{}, unknown(message.V220, check.UnknownID, id)
	case errors.Is(err, txn.ErrStoreUnreachable):
		return handedOut{}, unreachable(message.V220, id)
	case err != nil:
		return handedOut{}, err
	}
	switch isOver := e.IsOver(rec); {
	case isOver && txn.HasNoResult(t, rec):
		return handedOut{}, unknown(rec.MessageVersion(), expiredID, id)
	case isOver:
		return handedOut{}, unknown(message.V220, check.UnknownID, id)
	}
	if err := e.CheckPutBack(ctx, t, rec); err != nil {
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
	e.AddMoment(t, rec, journal.Collected, journal.Step{Step: "postauth"})
	return handedOut{rreq, m.Text("transStatus"), t.Scheme}, nil
}

// noteRecord records what is kept of the transaction that a request is about.
func (e *Engine) noteRecord(ctx context.Context, t *store.Txn, rec *txn.Record) {
	if e.Recorder == nil {
		return
	}
	e.Note(ctx, "scheme", t.Scheme)
	e.Note(ctx, "messageVersion", rec.Version)
	e.Note(ctx, "bin", rec.BIN)
	e.Note(ctx, "last4", rec.Last4)
	e.Note(ctx, "reference", rec.Reference)
	c, err := rec.Context()
	if err != nil {
		return
	}
	for _, name := range []string{"deviceChannel", "messageCategory"} {
		e.Note(ctx, name, c.AReq.Text(name))
	}
	if c.ARes != nil {
		e.Note(ctx, "acsTransID", c.ARes.Text("acsTransID"))
		e.Note(ctx, "dsTransID", c.ARes.Text("dsTransID"))
	}
}

// rreqOf returns the RReq of a transaction, or an error for the requestor that says why
// there is none.
func (e *Engine) rreqOf(t *store.Txn, rec *txn.Record) ([]byte, error) {
	v := rec.MessageVersion()
	switch {
	case t.State == txn.Result:
		return rec.RReq, nil
	case t.State == txn.Challenge, t.State == txn.Sent && !e.IsClaimOver(rec.Sent):
		detail := noResultYet
		if rec.BadResult != nil {
			detail = refusedResult
		}
		bad := check.NewErro(v, message.BadTransactionData, detail, t.ID)
		bad.Description = "No RReq has been received"
		return nil, &PendingError{bad}
	case t.State == txn.Final:
		return nil, unknown(v, "No challenge took place, the result is in the ARes", t.ID)
	case t.State == txn.Failed && rec.Erro != nil:
		m, err := message.Parse(rec.Erro, message.Limits{})
		if err != nil {
			return nil, err
		}
		return nil, message.ReadError(m)
	}
	return nil, unknown(v, check.UnknownID, t.ID)
}

// unknown is the 203 of /postauth: there is no result under the id, and never will be.
func unknown(v message.Version, detail, id string) message.Error {
	e := check.NewErro(v, message.Format, detail, id)
	e.Description = check.UnknownID
	return e
}

// WaitForResult waits for the result of a transaction that [Engine.Result] returned pending for. It
// returns as soon as Result would return anything but a *PendingError, and that error once ctx has
// ended. A result that comes to this node is noticed immediately, one that comes to another node within resultPoll.
func (e *Engine) WaitForResult(ctx context.Context, acc *account.Account, pending *PendingError) ([]byte, error) {
	id := pending.Erro.ServerTransID
	var rreq handedOut
	var err error
	e.RepeatUntil(ctx, id, func() bool {
		rreq, err = e.result(context.WithoutCancel(ctx), acc, id)
		_, isPending := errors.AsType[*PendingError](err)
		return !isPending
	})
	e.NoteEnd(ctx, "postauth", rreq.scheme, OutcomeOf(rreq.status, err))
	return rreq.text, err
}
