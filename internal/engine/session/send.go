package session

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// sendPoll is how often the store is asked whether the 3DS Method has ended on another node.
const sendPoll = 200 * time.Millisecond

// isMethodOver reports whether the AReq need not wait for the 3DS Method any more.
func (e *Engine) isMethodOver(p *txn.PageRecord) bool {
	return p.IsMethodDone || e.Now().UnixMilli() >= p.MethodEnds
}

// startSending sends the AReq of an authentication that a browser has begun, once its 3DS Method is over. However often
// it is called, on all nodes, the AReq is sent once: the row says which call may.
func (e *Engine) startSending(p *page) {
	e.startSPCTimer(p)
	if p.row.State != txn.Waiting || len(p.rec.Page.Binding) == 0 {
		return
	}
	if _, isUnderWay := e.sending.LoadOrStore(p.id, true); isUnderWay {
		return // however often a browser asks, one task of this node looks after it
	}
	e.TaskGroup().Start(func(ctx context.Context) {
		defer e.sending.Delete(p.id)
		for {
			changed, forget := e.Watch(p.id)
			now, err := e.readPage(ctx, p.id)
			switch {
			case errors.Is(err, auth.ErrNoAuthentication), err == nil && now.row.State != txn.Waiting:
				forget()
				return
			case err == nil && e.isMethodOver(now.rec.Page):
				forget()
				now.secret = p.secret
				if e.sendFromPage(ctx, now) {
					return
				}
				changed = nil
			}
			select {
			case <-ctx.Done():
			case <-changed:
			case <-time.After(sendPoll):
			}
			forget()
			if ctx.Err() != nil {
				return
			}
		}
	})
}

// sendFromPage sends the AReq of an authentication. It returns false if that is to be tried again:
// nothing has left then.
func (e *Engine) sendFromPage(ctx context.Context, p *page) (isDone bool) {
	text, err := cardKey(p.id, p.secret).Open(nil, nil, p.rec.Page.Card, nil)
	if err != nil {
		e.Log.ErrorContext(ctx, "card of an authentication does not open", "threeDSServerTransID", p.id)
		return true
	}
	start, version := e.Now(), p.rec.MessageVersion()
	to, areq, err := e.buildFromPage(p, text)
	if untold, ok := errors.AsType[*untoldError](err); ok {
		return e.endUntold(ctx, p.row, untold)
	}
	var sendable message.Sendable
	if err == nil {
		sendable, err = areq.Sendable()
	}
	if err != nil {
		e.Log.ErrorContext(ctx, "AReq of an authentication not built", "threeDSServerTransID", p.id, "err", err)
		return e.failPage(ctx, p, message.PermanentFailure)
	}
	leave, ok := e.Directories.Enter(to.Peer.Scheme, p.row.Owner)
	if !ok {
		if e.Now().Sub(time.UnixMilli(p.rec.Page.MethodEnds)) < e.Timeouts.Authentication {
			return false
		}
		return e.failPage(ctx, p, message.TooManyMessages)
	}
	defer leave()
	c := &auth.Claim{Target: to, ID: p.id, Merchant: p.row.Owner, Version: version, Start: start}
	if areq.Has(check.SPCSupport) {
		c.OnSPC = e.secondOf(p, sendable.Bytes(), areq.Text("acctNumber"))
	}
	c.Sent = e.JournaledAReq(areq)
	mayLeave := false
	sure, err := e.NewWrite(p.row, func(t *store.Txn) error {
		rec, err := e.claimWaiting(t, version, areq)
		if err != nil {
			return err
		}
		rec.Page.Card = nil
		c.Rec, mayLeave = rec, true
		return e.AdvanceRow(t, rec, txn.Sent, e.KeepFinal())
	}).Run(auth.WithSent(ctx, c.Sent))
	if err != nil || !mayLeave {
		if !errors.Is(err, txn.ErrArrow) && !errors.Is(err, store.ErrNotFound) {
			e.LogStoreFailure(ctx, "claim not stored", err, "threeDSServerTransID", p.id)
		}
		return sure && (errors.Is(err, txn.ErrArrow) || errors.Is(err, store.ErrNotFound))
	}
	e.Notify(p.id)
	e.ExchangeIntoRow(ctx, c, sendable)
	e.Notify(p.id)
	if now, err := e.readPage(ctx, p.id); err == nil {
		now.secret = p.secret
		e.startSPCTimer(now)
	}
	return true
}

// failPage ends an authentication whose AReq cannot be sent: it has failed.
func (e *Engine) failPage(ctx context.Context, p *page, code message.Code) (isDone bool) {
	_, err := e.NewWrite(p.row, e.OnRecord(func(t *store.Txn, rec *txn.Record) error {
		rec.Failure, rec.Page.Card = auth.FailureOf(check.NewErro(rec.MessageVersion(), code, code.Description(), p.id)), nil
		return e.AdvanceRow(t, rec, txn.Failed, e.KeepFinal())
	})).Run(ctx)
	e.Notify(p.id)
	return err == nil || errors.Is(err, txn.ErrArrow)
}

// buildFromPage makes the AReq of what the back end and the page sent. The error is an *untoldError if that is too
// little.
func (e *Engine) buildFromPage(p *page, text []byte) (check.Target, *message.Message, error) {
	msg, to, err := e.readKeptRequest(p, text)
	if err != nil {
		return check.Target{}, nil, err
	}
	page := p.rec.Page
	addPageData(msg, page, message.TableOf(message.AReq, p.rec.MessageVersion()))
	msg.Set("threeDSCompInd", page.Completion())
	msg.Set("notificationURL", e.BrowserURL+"/n/"+e.tagOf(p.id)+"/challenge")
	if !page.HasScript() || page.Data[canShowSPC] != "true" {
		msg.Set(check.SPCSupport, "")
		msg.Set("payeeOrigin", "")
	}
	areq, err := e.buildTold(msg, to)
	return to, areq, err
}

// An untoldError says that a browser did not send members of the AReq that the version requires of it. The engine sends
// no AReq then, for only the browser knows them.
type untoldError struct{ names []string }

func (e *untoldError) Error() string {
	return "the browser did not send " + strings.Join(e.names, ", ")
}

// buildTold makes the AReq of a request to which everything was added that its browser has sent. The error is an
// *untoldError if that is too little.
func (e *Engine) buildTold(msg *message.Request, to check.Target) (*message.Message, error) {
	areq, problems := msg.Build(e.BuildContext(to))
	if len(problems) == 0 {
		return areq, nil
	}
	untold := new(untoldError)
	for _, p := range problems {
		if p.Code != message.Missing || !check.IsBrowserMember(string(p.Path)) {
			return nil, errors.New("it is not good: " + string(p.Path))
		}
		untold.names = append(untold.names, string(p.Path))
	}
	return nil, untold
}

// endUntold ends an authentication without an AReq.
func (e *Engine) endUntold(ctx context.Context, row store.Txn, untold *untoldError) (isDone bool) {
	_, err := e.NewWrite(row, e.OnRecord(func(t *store.Txn, rec *txn.Record) error {
		if t.State != txn.Waiting {
			return txn.ErrArrow
		}
		rec.Untold = untold.names
		if rec.Page != nil {
			rec.Page.Card = nil
		}
		if rec.Agent != nil {
			rec.Agent.Request = nil
		}
		return e.AdvanceRow(t, rec, txn.Final, e.KeepFinal())
	})).Run(ctx)
	e.Notify(row.ID)
	if err != nil && !errors.Is(err, txn.ErrArrow) && !errors.Is(err, store.ErrNotFound) {
		e.LogStoreFailure(ctx, "outcome not stored", err, "threeDSServerTransID", row.ID)
		return false
	}
	return true
}

// readKeptRequest reads what is kept of a request for the AReqs of its page, and finds where they go.
func (e *Engine) readKeptRequest(p *page, text []byte) (*message.Request, check.Target, error) {
	msg, err := message.ReadRequest(text, message.Limits{Depth: -1, Members: -1})
	if err != nil {
		return nil, check.Target{}, err
	}
	to, err := e.targetOfPage(p, msg.Text("acctNumber"))
	return msg, to, err
}

// addPageData adds the members that the request left to the page, and those that a page may add.
func addPageData(msg *message.Request, page *txn.PageRecord, table *message.Table) {
	for name, value := range page.Data {
		isAwaited := check.IsBrowserMember(name) && slices.Contains(page.Awaited, name)
		if isAwaited || slices.Contains(pageMembers, name) && !msg.Has(name) {
			setPageMember(msg, table.Field(name), value)
		}
	}
}

// setPageMember sets a member to what the page sent, as JSON of the right kind. A member that the version lacks has no
// field.
func setPageMember(msg *message.Request, f *message.Field, value string) {
	switch {
	case f == nil:
	case f.Kind == message.Bool:
		msg.SetRaw(f.Name, []byte(strconv.FormatBool(value == "true")))
	case f.Name == "acceptLanguage":
		list, _ := json.Marshal(strings.Split(value, ","))
		msg.SetRaw(f.Name, list)
	default:
		msg.Set(f.Name, value)
	}
}

// targetOfPage returns where the AReqs of an authentication go.
func (e *Engine) targetOfPage(p *page, pan string) (check.Target, error) {
	peer, ok := e.Peer(p.row.Scheme)
	if !ok {
		return check.Target{}, errors.New("its directory is no longer configured")
	}
	to := check.Target{Peer: peer}
	for _, hit := range e.Cards.Lookup(pan) {
		if hit.Scheme == peer.Scheme {
			to.Info = hit.Info
		}
	}
	if to.Info == nil {
		return check.Target{}, errors.New("its card range is gone")
	}
	return to, nil
}

// pageMembers are members that a page may add.
var pageMembers = []string{"threeDSMethodId"}

// claimWaiting returns the record of a row that waits for its AReq, with what is kept of the one that is about to
// leave. The error is ErrArrow if the row does not wait, and store.ErrNotFound if its time is over.
func (e *Engine) claimWaiting(t *store.Txn, v message.Version, areq *message.Message) (*txn.Record, error) {
	if t.State != txn.Waiting {
		return nil, txn.ErrArrow
	}
	rec, err := e.Unseal(t)
	if err != nil {
		return nil, err
	}
	if e.IsOver(rec) {
		return nil, store.ErrNotFound
	}
	rec.Sent, rec.AReq, rec.Purchase = e.Now().UnixMilli(), areq.Facts(),
		e.PurchaseOf(t.ID, areq.Text("acctNumber"), v, areq)
	return rec, nil
}
