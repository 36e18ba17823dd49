// Package session carries out authentications step by step: it begins those of the Authentications API, takes the steps
// of a browser or of its agent, sends the AReq once everything is known, and then the second AReq of Secure Payment
// Confirmation.
//
//	merchant           Engine                       auth.Engine
//	    │ Create ───────▶│ check                         │
//	browser              │                               │
//	    │ BeginBrowser ─▶│ 3DS Method ── claim, AReq ───▶│
//	    │◀─ ViewBrowser ─│◀───────── challenge, end ─────│
//
// Use the methods of [Engine].
package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/iso"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// An Engine carries out authentications by an [auth.Engine]. It is safe for concurrent calls.
type Engine struct {
	*auth.Engine

	sending sync.Map // ids whose AReq a task of this engine is about to send
}

// A RefusedError says that no authentication was created, and what is wrong with the request.
type RefusedError struct {
	Faults []api.Fault
	// NoBrowser says that the one fault is that no pages for browsers are configured.
	NoBrowser bool
}

func (e *RefusedError) Error() string { return "auth: the request has faults" }

// ErrNoRanges says that card ranges are not loaded, so that the scheme of the card is not known.
var ErrNoRanges = errors.New("auth: card ranges are not loaded yet")

// A BrowserAccess lets one browser carry out its steps of an authentication. The merchant gets it once.
type BrowserAccess struct {
	URL     string // of the hosted page, which has the token in it
	Token   string
	Expires time.Time
}

// A creation is a request for an authentication on its way.
type creation struct {
	*check.Request
	api         string            // the API that it came by, as the record names it
	once        Once              // keeps a request that may be made again to one effect
	agent       *check.AgentSteps // of the request of an agent; nil for all others
	lookedUp    time.Time         // when the card range was found
	corrections []api.Correction  // what is kept of the changes
}

// Create begins an authentication: it fills in what the request leaves out, checks it as Explain does, and sends the
// AReq of an app or of a 3RI request. The AReq of a browser waits for the page; BrowserAccess is then not nil. The
// error is a *RefusedError, an *[auth.TooManyError], ErrNoRanges or [txn.ErrStoreUnreachable], or a fault of ours.
func (e *Engine) Create(ctx context.Context, acc *account.Account,
	body []byte) (*auth.Authentication, *BrowserAccess, error) {
	req := &creation{Request: e.NewRequest(acc), api: txn.AuthenticationsAPI}
	return e.createOnce(ctx, req, "authentications",
		func(ctx context.Context) (*auth.Authentication, *BrowserAccess, error) {
			return e.create(ctx, req, body)
		})
}

// createOnce calls create unless an earlier attempt of the request has created an authentication, and records the end
// under the name of an operation.
func (e *Engine) createOnce(
	ctx context.Context, req *creation, operation string,
	create func(context.Context) (*auth.Authentication, *BrowserAccess, error),
) (*auth.Authentication, *BrowserAccess, error) {
	req.once, _ = ctx.Value(onceKey{}).(Once)
	req.NewID = req.once.ID
	ctx = context.WithoutCancel(ctx)
	a, access, err := e.createdOnce(ctx, req)
	if errors.Is(err, auth.ErrNoAuthentication) {
		a, access, err = create(ctx)
	}
	e.NoteRequest(ctx, req.Request)
	e.noteAuthentication(ctx, operation, a, err)
	return a, access, err
}

// noteAuthentication records how an operation on an authentication ended. The authentication is nil if there is an
// error.
func (e *Engine) noteAuthentication(ctx context.Context, operation string, a *auth.Authentication, err error) {
	status, name := "", ""
	if a != nil {
		status, name = string(a.Status), a.Scheme
	}
	if err != nil {
		status = outcomeOfRefusal(err)
	}
	e.NoteEnd(ctx, operation, name, status)
}

// outcomeOfRefusal names an error of an operation on an authentication for the metrics. For a fault of the client it is
// "": the listener counts that under the name of the problem in its answer.
func outcomeOfRefusal(err error) string {
	_, isRefused := errors.AsType[*RefusedError](err)
	switch {
	case isRefused, errors.Is(err, auth.ErrNoAuthentication), errors.Is(err, ErrAlreadySent), errors.Is(err, ErrOtherKey):
		return ""
	case errors.Is(err, txn.ErrStoreUnreachable):
		return message.TransientFailure.String() // which the alert about the store counts
	case errors.Is(err, ErrNoRanges):
		return "no_ranges"
	}
	return auth.OutcomeOf("", err)
}

func (e *Engine) create(ctx context.Context, req *creation, body []byte) (*auth.Authentication, *BrowserAccess, error) {
	original := slices.Clone(body) // Explain reads it again if there are faults
	c, err := e.CheckCreation(req.Request, body)
	if err := e.acceptCreation(ctx, req, c, err, original); err != nil {
		return nil, nil, err
	}
	isBrowsers := c.AReq.Text("deviceChannel") == check.Browser
	switch {
	case c.To.Peer == nil:
		a, err := e.createNotEnrolled(ctx, req, c.AReq)
		return a, nil, err
	case isBrowsers && e.BrowserURL == "":
		return nil, nil, &RefusedError{NoBrowser: true}
	}
	if err := e.CheckFollowUp(ctx, req.Request, c.To, c.AReq); err != nil {
		return nil, nil, refusedFor(err)
	}
	if isBrowsers {
		return e.createForBrowser(ctx, req, c)
	}
	text, err := c.AReq.Sendable()
	if err != nil {
		return nil, nil, err
	}
	leave, ok := e.Directories.Enter(c.To.Peer.Scheme, req.Account.Merchant.Name)
	if !ok {
		return nil, nil, auth.NewTooManyError(req.Version, "")
	}
	defer leave()
	if err := e.noteID(ctx, req); err != nil {
		return nil, nil, err
	}
	claimed, err := e.Claim(ctx, req.Request, c, &txn.Record{
		API: req.api, LookedUp: req.lookedUp.UnixMilli(), Schemes: e.SchemesOf(e.Cards.Lookup(req.PAN)),
		Defaulted: req.Defaulted, Reference: req.Reference, Corrections: req.corrections,
	})
	if err != nil {
		return nil, nil, refusedFor(err)
	}
	e.LogFindings(ctx, req.Request, c.To)
	e.ExchangeIntoRow(ctx, claimed, text)
	a, err := e.ReadAuthentication(ctx, req.Account, req.TransID())
	return a, nil, err
}

// acceptCreation returns why a request cannot become an authentication, or nil if it can. err is the error of the check
// that was made before, and body is that of the request.
func (e *Engine) acceptCreation(ctx context.Context, req *creation, c *check.Content, err error, body []byte) error {
	req.lookedUp = e.Now()
	e.Note(ctx, "scheme", c.To.Scheme())
	if e.hasFaults(req, c, err) {
		return e.refuseCreation(req, body)
	}
	e.ObserveRules(req.Request, c)
	if len(check.FollowUpProblems(req.Version, c.AReq)) > 0 {
		return e.refuseCreation(req, body)
	}
	req.corrections = e.KeptCorrections(req.Request, c, body)
	if !e.Cards.AnyTried() || c.To.Peer == nil && e.Cards.Pending(req.DS) {
		return ErrNoRanges
	}
	return nil
}

// hasFaults reports whether a request that was checked, with an error of the check, is refused for its content.
func (e *Engine) hasFaults(req *creation, c *check.Content, err error) bool {
	return err != nil || len(c.Problems) > 0 || len(c.Own) > 0 || c.To.Peer != nil && !req.IsVersionUsable(c.To)
}

// refuseCreation returns the faults of a request that cannot be an authentication, as Explain finds them.
func (e *Engine) refuseCreation(req *creation, body []byte) error {
	x := e.Explain(req.Account, body, check.ExplainOptions{IsCreation: true, Agent: req.agent})
	if len(x.Faults) == 0 {
		return errors.New("auth: a request was refused that Explain calls valid")
	}
	return &RefusedError{Faults: x.Faults}
}

// refusedFor turns the Erro of a request that the engine refuses for what it knows of other authentications.
func refusedFor(err error) error {
	if refused, ok := errors.AsType[*check.FaultyRequestError](err); ok {
		return &RefusedError{Faults: refused.Faults}
	}
	if bad, ok := errors.AsType[message.Error](err); ok && bad.Code == message.TransientFailure {
		return txn.ErrStoreUnreachable
	}
	return err
}

// newCreated returns the record of an authentication that was created and has not been sent.
func (e *Engine) newCreated(req *creation) *txn.Record {
	return &txn.Record{
		Began: req.Start.UnixMilli(), LookedUp: req.lookedUp.UnixMilli(), Amount: req.LoggedAmount,
		Currency: req.LoggedCurrency, API: req.api, Version: req.Version.String(), Made: e.Now().UnixMilli(),
		AReq:     []byte("{}"),
		CardHash: e.HashCard(req.PAN),
		BIN:      check.BINOf(req.PAN), Last4: req.PAN[len(req.PAN)-4:], Schemes: e.SchemesOf(e.Cards.Lookup(req.PAN)),
		Changes: auth.DescribeChanges(req.Changes), Unkept: txn.UnkeptRules(req.Findings),
		Defaulted: req.Defaulted, Reference: req.Reference, Corrections: req.corrections,
	}
}

// createNotEnrolled stores that a card is in no range. The authentication is over. The AReq is what would be sent if
// there were a directory server.
func (e *Engine) createNotEnrolled(ctx context.Context, req *creation,
	areq *message.Message) (*auth.Authentication, error) {
	if err := e.noteID(ctx, req); err != nil {
		return nil, err
	}
	rec := e.newCreated(req)
	rec.Version, rec.Sent, rec.AReq = "", rec.Made, areq.Facts()
	rec.SetPurchase(areq)
	rec.AcquirerMerchant = "" // which of the merchant's acquirers it would be depends on the directory server
	t := store.Txn{ID: req.TransID(), Owner: req.Account.Merchant.Name, State: txn.Waiting}
	if err := e.createRow(ctx, &t, rec, e.Timeouts.Values); err != nil {
		return nil, err
	}
	err := e.Store.Update(ctx, store.Txn{ID: t.ID}, func(t *store.Txn) error {
		return e.AdvanceRow(t, rec, txn.Final, e.Timeouts.Values)
	})
	if err != nil {
		return nil, e.StoreUnreachable(ctx, "outcome not stored", err, t.ID)
	}
	e.Notify(t.ID)
	return e.ReadAuthentication(ctx, req.Account, t.ID)
}

// createRow stores the first row of an authentication that waits.
func (e *Engine) createRow(ctx context.Context, t *store.Txn, rec *txn.Record, keep time.Duration) error {
	e.SetExpiry(t, rec, keep)
	if err := e.Seal(t, rec); err != nil {
		return err
	}
	if err := e.Store.Create(ctx, *t); err != nil {
		return e.StoreUnreachable(ctx, "authentication not stored", err, t.ID)
	}
	return nil
}

// createForBrowser stores an authentication that waits for a browser. The card is in its row, sealed with a key that
// only the browser's token has.
func (e *Engine) createForBrowser(ctx context.Context, req *creation,
	c *check.Content) (*auth.Authentication, *BrowserAccess, error) {
	if err := e.noteID(ctx, req); err != nil {
		return nil, nil, err
	}
	token, secret := newToken(req.TransID(), req.once.randomOf(e))
	rec := e.newCreated(req)
	rec.Page = &txn.PageRecord{
		Token: e.Sealer.Digest(tokenText(req.TransID(), secret)),
		Card:  sealCard(req.TransID(), secret, c.AReq.WithoutPlaceholders()), Awaited: req.Awaited, ReturnURL: req.ReturnURL,
		MethodURL: check.MethodURL(c.To.Peer, check.ACSVersion(c.To.Info, rec.Version)),
		Amount:    c.AReq.Text("purchaseAmount"), Exponent: c.AReq.Text("purchaseExponent"),
	}
	if !slices.Contains(req.Awaited, "browserLanguage") {
		rec.Page.Language = c.AReq.Text("browserLanguage")
	}
	rec.Page.Currency, _ = iso.CurrencyLetters(c.AReq.Text("purchaseCurrency"))
	a, err := e.createWaiting(ctx, req, c, rec)
	if err != nil {
		return nil, nil, err
	}
	return a, e.newAccess(a, token), nil
}

// createWaiting stores an authentication whose AReq waits for a browser or an agent.
func (e *Engine) createWaiting(ctx context.Context, req *creation, c *check.Content,
	rec *txn.Record) (*auth.Authentication, error) {
	rec.AReq = c.AReq.Facts()
	rec.SetPurchase(c.AReq)
	t := store.Txn{ID: req.TransID(), Owner: req.Account.Merchant.Name, Scheme: c.To.Peer.Scheme, State: txn.Waiting}
	if err := e.createRow(ctx, &t, rec, e.Timeouts.Browser); err != nil {
		return nil, err
	}
	if err := e.addExpiryEvent(ctx, &t, rec); err != nil {
		return nil, err
	}
	e.LogFindings(ctx, req.Request, c.To)
	return e.ReadAuthentication(ctx, req.Account, t.ID)
}

// addExpiryEvent stores the event that an authentication has expired because no browser or agent went on with it. The
// event lies in the future. If it cannot be stored, the merchant does not hear of the authentication.
func (e *Engine) addExpiryEvent(ctx context.Context, t *store.Txn, rec *txn.Record) error {
	if e.Announcer == nil || !e.Announcer.Wants(t.Owner) {
		return nil
	}
	err := e.Store.Update(ctx, store.Txn{ID: t.ID}, func(t *store.Txn) error {
		if err := e.AddEvent(t, rec); err != nil {
			return err
		}
		return e.Seal(t, rec)
	})
	if err != nil {
		return e.StoreUnreachable(ctx, "event not stored", err, t.ID)
	}
	return nil
}

func (e *Engine) newAccess(a *auth.Authentication, token string) *BrowserAccess {
	return &BrowserAccess{URL: e.BrowserURL + "/a/" + token, Token: token, Expires: a.BrowserExpires}
}

// A Once is for [Engine.Create] what an Idempotency-Key says of a request that may be made again.
type Once struct {
	ID     string   // of the authentication that an earlier attempt may have created; "" if there was none
	Secret [32]byte // that a browser's token is made of, the same for every attempt

	// Note keeps the id of the authentication, before anything is stored under it or sent.
	Note func(ctx context.Context, id string) error
}

type onceKey struct{}

// WithOnce returns a context for [Engine.Create]. An authentication that an earlier attempt has created is returned as
// it is, even if it is unknown whether its AReq has left.
func WithOnce(ctx context.Context, once Once) context.Context {
	return context.WithValue(ctx, onceKey{}, once)
}

// randomOf returns where the secret of a token comes from.
func (o *Once) randomOf(e *Engine) io.Reader {
	if o.Note == nil {
		return e.Random()
	}
	return bytes.NewReader(o.Secret[:])
}

// noteID has the id of a request kept that may be made again.
func (e *Engine) noteID(ctx context.Context, req *creation) error {
	if req.once.Note == nil {
		return nil
	}
	if err := req.once.Note(ctx, req.TransID()); err != nil {
		return e.StoreUnreachable(ctx, "id not noted", err, req.TransID())
	}
	return nil
}

// createdOnce returns what an earlier attempt of a request has created, or auth.ErrNoAuthentication.
func (e *Engine) createdOnce(ctx context.Context, req *creation) (*auth.Authentication, *BrowserAccess, error) {
	if req.once.ID == "" {
		return nil, nil, auth.ErrNoAuthentication
	}
	a, err := e.Authentication(ctx, req.Account, req.once.ID)
	if err != nil || a.BrowserExpires.IsZero() {
		return a, nil, err
	}
	token, _ := newToken(a.ID, req.once.randomOf(e))
	return a, e.newAccess(a, token), nil
}

// Errors of [Engine.Cancel].
var (
	ErrFinal          = errors.New("auth: the authentication is over")
	ErrNotCancellable = errors.New("auth: an authentication that /auth began cannot be cancelled")
)

// Cancel ends an authentication of [Engine.Create] that is not final. For any merchant but its owner there is none.
func (e *Engine) Cancel(ctx context.Context, acc *account.Account, id string) (*auth.Authentication, error) {
	id = strings.ToLower(id)
	t, rec, err := e.ReadOwned(ctx, acc, id)
	if err != nil {
		return nil, err
	}
	if rec.API == "" {
		return nil, ErrNotCancellable
	}
	if err := e.cancelRow(ctx, t, ""); err != nil {
		return nil, err
	}
	return e.Authentication(ctx, acc, id)
}

// cancelRow moves the row of an authentication to Cancelled. If no browser has begun it, that of binding is bound to
// it; "" means that the merchant cancels.
func (e *Engine) cancelRow(ctx context.Context, was *store.Txn, binding string) error {
	_, err := e.NewWrite(*was, e.OnRecord(func(t *store.Txn, rec *txn.Record) error {
		if e.StatusOf(t, rec).IsFinal() {
			return ErrFinal
		}
		if rec.Page != nil {
			rec.Page.Card = nil
			if len(rec.Page.Binding) == 0 && isBinding(binding) {
				rec.Page.Binding = e.Sealer.Digest(bindingText(was.ID, binding))
			}
		}
		if rec.Agent != nil {
			rec.Agent.Request = nil
		}
		return e.AdvanceRow(t, rec, txn.Cancelled, e.KeepFinal())
	})).Run(ctx)
	switch {
	case err == nil:
		e.Notify(was.ID)
		return nil
	case errors.Is(err, ErrFinal), errors.Is(err, txn.ErrArrow):
		return ErrFinal
	case errors.Is(err, store.ErrNotFound):
		return auth.ErrNoAuthentication
	}
	return e.StoreUnreachable(ctx, "cancellation not stored", err, was.ID)
}
