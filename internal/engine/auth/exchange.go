package auth

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// exchange sends the one AReq of a claim and returns the answer. It goes on if the requestor hangs up. The time limit
// counts from the start of the /auth.
//
// An /auth spends most of its time here, and thousands may wait at the same time. So exchange takes the text of the
// AReq and not the message, which would need several times the memory.
func (e *Engine) exchange(ctx context.Context, c *Claim, areq message.Sendable) (answer, error) {
	e.inFlight.Add(1)
	defer e.inFlight.Done()
	through := WithSent(context.WithoutCancel(ctx), c.Sent)
	limited, cancel := context.WithTimeout(through, e.timeLeft(c))
	defer cancel()
	sent := e.Now()
	body, err := e.Directories.Send(limited, c.Peer.Scheme, c.Merchant, areq.Bytes(), c.ID, c.Version,
		c.Info.IssuerCountry)
	if e.Recorder != nil {
		e.Recorder.NoteDirectory(ctx, e.Now().Sub(sent))
	}
	c.Rec.Gone = ctx.Err() != nil
	return e.handleAnswer(through, c, body, err)
}

// ExchangeIntoRow is exchange for an AReq that did not come from an /auth. Its outcome is in the row, and is counted
// like that of an /auth.
func (e *Engine) ExchangeIntoRow(ctx context.Context, c *Claim, areq message.Sendable) {
	sent := e.Now()
	ares, err := e.exchange(ctx, c, areq)
	if e.Observer != nil {
		bad, _ := errors.AsType[message.Error](err)
		e.Observer.Observe("auth", c.Scheme(), OutcomeOf(ares.status, err), bad.Component, e.Now().Sub(sent))
	}
}

// timeLeft is what remains of the time limit of an /auth.
func (e *Engine) timeLeft(c *Claim) time.Duration {
	return c.Start.Add(e.Timeouts.Authentication).Sub(e.Now())
}

// handleAnswer turns a directory's answer, or the lack of one, into what the requestor gets,
// and commits the outcome of the transaction. From here on ctx has no end of its own.
func (e *Engine) handleAnswer(ctx context.Context, c *Claim, body []byte, err error) (answer, error) {
	if err != nil {
		return answer{}, e.fail(ctx, c, e.connectionErro(ctx, c, err))
	}
	facts, err := c.Rec.Context()
	if err != nil {
		return answer{}, err
	}
	refuse := func(m *message.Message, code message.Code, detail, kind string) (answer, error) {
		return answer{}, e.refuseARes(ctx, c, facts.AReq, m, code, detail, kind)
	}
	ares, err := message.Parse(body, e.Limits)
	if err != nil {
		return refuse(nil, message.InvalidMessage, "Invalid Formatted Message", "")
	}
	kind, known := ares.Type()
	switch {
	case known && kind == message.Erro:
		return answer{}, e.fail(ctx, c, e.relayedErro(ctx, c, ares))
	case known && kind != message.ARes:
		return refuse(ares, message.InvalidMessage, "Invalid Message for the receiving component", kind.String())
	case !known && ares.Has("messageType"):
		return refuse(ares, message.InvalidMessage, "Invalid Message Type", "")
	}
	if found := ares.Check(c.Peer.Context(facts)); len(found) > 0 {
		code, detail := found.Pick(message.ForPeer)
		return refuse(ares, code, detail, "ARes")
	}
	if c.Rec.Page != nil && c.OnSPC == nil && ares.Text("transStatus") == "S" {
		return refuse(ares, message.Format, "transStatus", "ARes") // the second AReq of SPC has said what became of it
	}
	return e.acceptARes(ctx, c, facts.AReq, ares)
}

// acceptARes commits a good ARes. One that asks for a challenge reaches the requestor only
// if it is committed, for an RReq will refer to it. A final one needs nothing that comes
// later, so the requestor gets it even if the commit fails.
func (e *Engine) acceptARes(ctx context.Context, c *Claim, areq, ares *message.Message) (answer, error) {
	status := ares.Text("transStatus")
	next, keep := txn.Final, e.KeepFinal()
	switch status {
	case "C", "S":
		next, keep = txn.Challenge, e.Timeouts.Challenge
	case "D":
		next, keep = txn.Challenge, DecoupledWait(areq)
	}
	c.Rec.SetARes(ares)
	c.Rec.Decoupled = status == "D"
	if err := e.storeFirstOfSPC(ctx, c, status, ares); err != nil {
		e.LogStoreFailure(ctx, "first leg not stored", err, "threeDSServerTransID", c.ID)
		return answer{}, unreachable(c.Version, c.ID)
	}
	commit := e.commitFinal
	if next == txn.Challenge {
		commit = e.commitPending
	}
	err := commit(ctx, c, next, keep)
	e.noteResult(ctx, ares)
	e.explainReason(ctx, c.ID, c.Peer.Scheme, ares)
	e.logOtherBridging(ctx, c, ares)
	if err != nil {
		e.LogStoreFailure(ctx, "outcome not stored", err, "threeDSServerTransID", c.ID, "state", next)
		if next == txn.Challenge {
			return answer{}, unreachable(c.Version, c.ID)
		}
	}
	return answer{ares.Bytes(), status}, nil
}

// logOtherBridging logs that an ARes has the Bridging extension in another version than its AReq. The
// version has to be the same in both, so the issuer may have read the AReq by the rules of another version.
func (e *Engine) logOtherBridging(ctx context.Context, c *Claim, ares *message.Message) {
	got := extension.VersionOf(ares, extension.BridgingID)
	if c.Bridging != "" && got != "" && got != c.Bridging {
		e.Log.WarnContext(ctx, "Bridging extension of another version in the answer", "threeDSServerTransID", c.ID,
			"scheme", c.Peer.Scheme,
			"sent", c.Bridging)
	}
}

// DecoupledWait is how long the RReq of a decoupled authentication may take.
func DecoupledWait(areq *message.Message) time.Duration {
	minutes, err := strconv.Atoi(areq.Text("threeDSRequestorDecMaxTime"))
	if err != nil {
		minutes = 10080 // the longest there is: 7 days
	}
	return time.Duration(minutes)*time.Minute + decoupledGrace
}

// connectionErro logs that a directory gave no answer, and returns the Erro for the
// requestor.
func (e *Engine) connectionErro(ctx context.Context, c *Claim, err error) message.Error {
	detail := "Connection failed"
	var detailed interface{ Detail() string }
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		detail = "Connection timeout"
	case errors.As(err, &detailed):
		detail = detailed.Detail()
	}
	e.Log.WarnContext(ctx, "directory gave no answer", "threeDSServerTransID", c.ID, "scheme", c.Peer.Scheme, "err", err)
	bad := check.NewErro(c.Version, message.ConnectionFailure, detail, c.ID)
	bad.MessageType = "AReq"
	return bad
}

// relayedErro logs the Erro of a directory, and returns the Erro for the requestor, with the
// same code and component. A directory's Erro answers the AReq, so it is about this
// transaction, whatever id and version it names.
func (e *Engine) relayedErro(ctx context.Context, c *Claim, m *message.Message) message.Error {
	bad := erroOf(m)
	bad.Version, bad.ServerTransID = c.Version, c.ID
	e.Log.WarnContext(ctx, "directory answered with an Erro", "threeDSServerTransID", c.ID, "scheme", c.Peer.Scheme,
		"errorCode", bad.Code, "errorComponent", bad.Component, "errorDetail", logDetail(bad))
	return bad
}

// refuseARes answers an ARes that is not valid: it sends an Erro to the directory server, in a separate request, and
// returns one for the requestor. M is nil if the ARes could not be read.
func (e *Engine) refuseARes(ctx context.Context, c *Claim, areq, m *message.Message, code message.Code,
	detail, kind string) error {
	bad := check.NewErro(c.Version, code, detail, c.ID)
	bad.Description = code.Description()
	bad.MessageType = kind
	bad.SDKTransID = areq.Text("sdkTransID")
	if m != nil {
		bad.DSTransID, bad.ACSTransID = idOf(m, "dsTransID"), idOf(m, "acsTransID")
		e.AddMoment(&store.Txn{ID: c.RowID(), Owner: c.Merchant}, c.Rec, journal.RefusedAnswer, journal.Step{
			Step: "ares", Message: e.journalMessage(m),
			Findings: []string{"refused: " + code.String() + " " + journalDetail(ownDetail(code, detail))},
		})
	}
	e.Directories.Report(ctx, c.Peer.Scheme, c.Info.IssuerCountry, bad.JSON())
	bad.Detail = ownDetail(code, detail)
	e.Log.WarnContext(ctx, "answer of the directory refused", "threeDSServerTransID", c.ID, "scheme", c.Peer.Scheme,
		"errorCode", code, "errorDetail", bad.Detail)
	// The requestor knows no other id of the transaction (docs/api.md, G9).
	bad.DSTransID, bad.ACSTransID, bad.SDKTransID = "", "", ""
	bad.Description = "Invalid response from Directory Server"
	return e.fail(ctx, c, bad)
}

// fail commits that the transaction has failed, and returns bad. A failed commit is
// harmless: a claim without an outcome expires as failed.
func (e *Engine) fail(ctx context.Context, c *Claim, bad message.Error) error {
	c.Rec.Failure = FailureOf(bad)
	if err := e.commitFinal(ctx, c, txn.Failed, e.KeepFinal()); err != nil {
		e.LogStoreFailure(ctx, "outcome not stored", err, "threeDSServerTransID", c.ID, "state", txn.Failed)
	}
	return bad
}

// FailureOf returns an Erro as a record keeps it.
func FailureOf(bad message.Error) *api.OutcomeError {
	return &api.OutcomeError{
		Component: bad.Component, Code: bad.Code.String(),
		Description: journalDetail(bad.Description), Detail: journalDetail(bad.Detail),
	}
}

// commitFinal moves the transaction to its last state. The write is lazy: a crash of the
// machine may lose it. The claim that is left then has the same effect once its time is over: its id stays used, and no
// result is expected.
func (e *Engine) commitFinal(ctx context.Context, c *Claim, next store.State, keep time.Duration) error {
	ctx, cancel := e.commitContext(ctx, c)
	defer cancel()
	defer e.Notify(c.RowID()) // a /postauth may wait for the end of the /auth
	return e.Store.Update(ctx, c.written(), func(t *store.Txn) error {
		t.Lazy = true
		return e.advanceClaim(t, c, next, keep)
	})
}

// commitContext is for the writes after the exchange: it lasts as long as the /auth may
// still take, and never less than CommitTime.
func (e *Engine) commitContext(ctx context.Context, c *Claim) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(e.timeLeft(c), 0)+txn.CommitTime)
}

// advanceClaim is the change that commitFinal and commitPending make.
func (e *Engine) advanceClaim(t *store.Txn, c *Claim, next store.State, keep time.Duration) error {
	if t.State == txn.Cancelled {
		return e.keepLateARes(t, c)
	}
	if err := e.CheckLeg(t, c.Rec); err != nil {
		return err
	}
	c.Rec.Answered = e.Now().UnixMilli()
	return e.AdvanceRow(t, c.Rec, next, keep)
}

// AdvanceRow moves a row to its next state, with the event of its end.
func (e *Engine) AdvanceRow(t *store.Txn, rec *txn.Record, next store.State, keep time.Duration) error {
	if err := txn.Advance(t, next); err != nil {
		return err
	}
	e.SetExpiry(t, rec, keep)
	if err := e.AddEvent(t, rec); err != nil {
		return err
	}
	return e.Seal(t, rec)
}

// keepLateARes keeps the ARes of an authentication that was cancelled while its AReq was on its way. Nothing else
// changes; a result that comes later is checked against it.
func (e *Engine) keepLateARes(t *store.Txn, c *Claim) error {
	rec, err := e.Unseal(t)
	if err != nil {
		return err
	}
	rec.ARes = c.Rec.ARes
	return e.Seal(t, rec)
}

// commitPending moves the transaction to a state that expects a result. The write is not
// lazy, and when the store does not say whether it has happened, commitPending finds out. If it cannot find out in
// time, it returns an error. Then the requestor gets no ARes, and the directory server hears so when it posts the
// result.
func (e *Engine) commitPending(ctx context.Context, c *Claim, next store.State, keep time.Duration) error {
	ctx, cancel := e.commitContext(ctx, c)
	defer cancel()
	var w *txn.Write
	w = e.NewWrite(c.written(), func(t *store.Txn) error {
		if w.HasTried() && t.State != txn.Sent {
			return nil // an earlier try was made, and the result has come since
		}
		return e.advanceClaim(t, c, next, keep)
	})
	sure, err := w.Run(ctx)
	if !sure {
		w.ResolveLater(func(rec *txn.Record) { rec.Undelivered = true })
	}
	return err
}
