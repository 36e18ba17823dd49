package session

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// The second AReq of Secure Payment Confirmation (SPC) comes from the requestor, as a follow-up authentication, unless
// a page of ours shows the browser's dialog. Then the server itself sends it, once on all nodes together.

// spcGrace is how long after SPCTime the second AReq may leave at the latest.
const spcGrace = 2 * time.Minute

// errUsed says that a second AReq was permitted before.
var errUsed = errors.New("auth: the second AReq has left, or its card is no longer there")

// ErrBusy says that too many AReqs of the merchant are on their way. Nothing has left.
var ErrBusy = errors.New("auth: too many AReqs are on their way")

// secondOf returns a function that stores the row of the second AReq of a page, before the page is asked for the
// browser's dialog. The row has the first AReq, and the number of its card. The id of the second AReq can be used for
// nothing else.
func (e *Engine) secondOf(p *page, areq []byte, pan string) func(context.Context, *auth.Claim) error {
	return func(ctx context.Context, c *auth.Claim) error {
		id := e.NewID(e.Now(), 0, check.NumberOf(c.Peer.Scheme), c.Merchant, pan)
		row := store.Txn{
			ID: id, Owner: c.Merchant, Scheme: c.Peer.Scheme, State: txn.Second, Expires: e.ExpiryIn(check.SPCTime + spcGrace),
		}
		second := txn.SecondRecord{First: c.RowID(), Card: sealCard(id, p.secret, areq)}
		if err := e.Seal(&row, second); err != nil {
			return err
		}
		if err := e.Store.Create(ctx, row); err != nil {
			return err
		}
		c.Rec.Page.SPC = &txn.SPCRecord{ID: id, At: e.Now().UnixMilli()}
		return nil
	}
}

// startSPCTimer sends the second AReq when the time for SPC is over and the page has reported nothing. Each node that
// has seen the token meanwhile tries, and one of them sends it. If none is left, the issuer ends the first AReq by
// itself.
func (e *Engine) startSPCTimer(p *page) {
	if !p.rec.IsAwaitingSPC(&p.row) || e.IsOver(p.rec) {
		return
	}
	key, end := "spc "+p.id, time.UnixMilli(p.rec.Page.SPC.At).Add(check.SPCTime)
	if _, isUnderWay := e.sending.LoadOrStore(key, true); isUnderWay {
		return
	}
	e.TaskGroup().Start(func(ctx context.Context) {
		defer e.sending.Delete(key)
		for tasks.Sleep(ctx, sendPoll) {
			switch now := e.Now(); {
			case now.Before(end):
				continue
			case now.After(end.Add(spcGrace)):
				return
			}
			now, err := e.readPage(ctx, p.id)
			if errors.Is(err, auth.ErrNoAuthentication) || err == nil && !now.rec.IsAwaitingSPC(&now.row) {
				return
			}
			if err != nil {
				continue
			}
			now.secret = p.secret
			if err := e.sendSecond(ctx, now, SPCAnswer{Incomplete: "03"}); err == nil || errors.Is(err, errUsed) {
				return
			}
		}
	})
}

// sendSecond sends the second AReq of an authentication whose page has reported the outcome of SPC. However often it is
// called, on all nodes, one call sends the AReq; the others return errUsed. After any other error nothing has been
// sent.
func (e *Engine) sendSecond(ctx context.Context, p *page, answer SPCAnswer) error {
	s := p.rec.Page.SPC
	if e.Now().Sub(time.UnixMilli(s.At)) >= check.SPCTime {
		answer = SPCAnswer{Incomplete: "03"}
	}
	row, text, err := e.openSecond(ctx, p)
	if err != nil {
		return err
	}
	start := e.Now()
	to, areq, err := e.buildSecond(p, text, &answer)
	var sendable message.Sendable
	if err == nil {
		sendable, err = areq.Sendable()
	}
	if err != nil {
		e.Log.ErrorContext(ctx, "second AReq of an authentication not built", "threeDSServerTransID", p.id, "err", err)
		e.failPage(ctx, p, message.PermanentFailure)
		return errUsed
	}
	leave, ok := e.Directories.Enter(to.Peer.Scheme, p.row.Owner)
	if !ok {
		return ErrBusy
	}
	c := &auth.Claim{Target: to, ID: s.ID, Row: p.id, Merchant: p.row.Owner, Version: p.rec.MessageVersion(), Start: start}
	if err := e.claimSecond(ctx, p, c, areq, answer.outcome()); err != nil {
		leave()
		return err
	}
	e.Notify(p.id)
	if err := e.useSecond(ctx, row, areq); err != nil {
		leave()
		e.Log.ErrorContext(ctx, "second AReq of an authentication not sent", "threeDSServerTransID", p.id, "err", err)
		return errUsed
	}
	e.TaskGroup().Start(func(ctx context.Context) {
		defer leave()
		e.ExchangeIntoRow(ctx, c, sendable)
		e.Notify(p.id)
	})
	return nil
}

// openSecond reads the row of a second AReq, and opens the first AReq in it.
func (e *Engine) openSecond(ctx context.Context, p *page) (row store.Txn, text []byte, err error) {
	id := p.rec.Page.SPC.ID
	row, err = e.Store.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return row, nil, errUsed
	case err != nil:
		return row, nil, e.StoreUnreachable(ctx, "second AReq not read", err, p.id)
	}
	var second txn.SecondRecord
	if err := e.Open(&row, &second); err != nil {
		return row, nil, err
	}
	if second.Card == nil || second.First != p.id {
		return row, nil, errUsed
	}
	text, err = cardKey(id, p.secret).Open(nil, nil, second.Card, nil)
	return row, text, err
}

// claimSecond is the first of two permissions for a second AReq: the row of the authentication goes from the wait for
// SPC to Sent. A later call finds the row in another state.
func (e *Engine) claimSecond(ctx context.Context, p *page, c *auth.Claim, areq *message.Message, outcome string) error {
	c.Sent = e.JournaledAReq(areq)
	mayLeave := false
	_, err := e.NewWrite(p.row, e.OnRecord(func(t *store.Txn, rec *txn.Record) error {
		if !rec.IsAwaitingSPC(t) || rec.Page.SPC.ID != c.ID || e.IsOver(rec) {
			return errUsed
		}
		ares, err := rec.ReadARes()
		if err != nil {
			return err
		}
		s := rec.Page.SPC
		s.Outcome, s.AReq, s.ARes, s.Sent, s.Answered = outcome, rec.AReq, ares.Facts(), rec.Sent, rec.Answered
		rec.Sent, rec.AReq, rec.ARes, rec.Answered, rec.BadResult = e.Now().UnixMilli(), areq.Facts(), nil, 0, nil
		c.Rec, mayLeave = rec, true
		return e.AdvanceRow(t, rec, txn.Sent, e.KeepFinal())
	})).Run(auth.WithSent(ctx, c.Sent))
	switch {
	case err == nil && mayLeave:
		return nil
	case errors.Is(err, errUsed), errors.Is(err, store.ErrNotFound), err == nil:
		return errUsed
	}
	return e.StoreUnreachable(ctx, "second claim not stored", err, p.id)
}

// useSecond is the other permission: the row of the second AReq gives out its card once. From then on the row stays as
// long as a result may come for that AReq.
func (e *Engine) useSecond(ctx context.Context, row store.Txn, areq *message.Message) error {
	mayLeave := false
	_, err := e.NewWrite(row, func(t *store.Txn) error {
		var second txn.SecondRecord
		if err := e.Open(t, &second); err != nil {
			return err
		}
		if second.Sent != 0 {
			return errUsed
		}
		second.Sent, second.Card = e.Now().UnixMilli(), nil
		t.Expires = e.ExpiryIn(max(e.KeepFinal(), e.Timeouts.Challenge, auth.DecoupledWait(areq)) + txn.KeepExpired)
		mayLeave = true
		return e.Seal(t, second)
	}).Run(ctx)
	if err == nil && !mayLeave {
		err = errUsed
	}
	return err
}

// buildSecond makes the second AReq: the first one, with the outcome of SPC, and a reference to the first ARes. An
// assertion in a form that the protocol does not have counts as SPC that has failed.
func (e *Engine) buildSecond(p *page, text []byte, answer *SPCAnswer) (check.Target, *message.Message, error) {
	msg, to, err := e.readKeptRequest(p, text)
	if err != nil {
		return check.Target{}, nil, err
	}
	facts, err := p.rec.Context()
	if err != nil {
		return check.Target{}, nil, err
	}
	const layout, authInfo = "200601021504", "threeDSRequestorAuthenticationInfo"
	msg.Set("threeDSServerTransID", p.rec.Page.SPC.ID)
	if p.rec.Page.IsMethodDone {
		msg.Set("threeDSMethodId", p.id) // the 3DS Method has run for the first id
	}
	appendEntry(msg, "threeDSRequestorPriorAuthenticationInfo", map[string]string{
		"threeDSReqPriorAuthMethod": "05", "threeDSReqPriorRef": facts.ARes.Text("acsTransID"),
		"threeDSReqPriorAuthTimestamp": time.UnixMilli(p.rec.Page.SPC.At).UTC().Format(layout),
	})
	switch answer.Incomplete {
	case "":
		appendEntry(msg, authInfo, map[string]any{
			"threeDSReqAuthMethod": "09", "threeDSReqAuthTimestamp": e.Now().UTC().Format(layout),
			"threeDSReqAuthData": answer.Assertion,
		})
	case "03":
		msg.Set(authInfo, "")
		fallthrough
	default:
		msg.Set("spcIncompInd", answer.Incomplete)
	}
	areq, problems := msg.Build(to.Peer.Context(message.Context{Loopback: e.Loopback}))
	switch {
	case len(problems) == 0:
		return to, areq, nil
	case answer.Incomplete == "":
		*answer = SPCAnswer{Incomplete: "01"}
		return e.buildSecond(p, text, answer)
	}
	return to, nil, errors.New("it is not good: " + string(problems[0].Path))
}

// maxEntries is how many entries the lists have that appendEntry extends.
const maxEntries = 3

// appendEntry adds an entry to a list of the AReq. In a full one it takes the place of the last.
func appendEntry(msg *message.Request, name string, entry any) {
	var list []json.RawMessage
	_ = json.Unmarshal(msg.RawAt(message.Path(name)), &list) // a list that is absent is empty, and any other was checked
	added, _ := json.Marshal(entry)                          // texts, and JSON that was read
	list = append(list[:min(len(list), maxEntries-1)], added)
	raw, _ := json.Marshal(list)
	msg.SetRaw(name, raw)
}
