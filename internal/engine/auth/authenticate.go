package auth

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// A Claim is the right to send one AReq. The store has its record, so the id is used up.
type Claim struct {
	check.Target
	ID       string // threeDSServerTransID
	Merchant string
	Version  message.Version
	Start    time.Time // of the /auth
	Rec      *txn.Record
	Bridging string        // the version of the Bridging extension in the AReq; "" if it has none
	Sent     *journal.Step // the AReq as the journal records it; nil without a journal

	// made is the row that the claim has made, without its data. Its outcome is written without reading it. Zero means
	// that the row was there before.
	made store.Txn

	// row is the id of the row that has the transaction. It is another than id for a second AReq of SPC; "" means id.
	Row string
	// OnSPC keeps what a second AReq is made of, in case the issuer asks for SPC on a page of ours; nil if the page
	// does not offer SPC.
	OnSPC func(ctx context.Context, c *Claim) error
}

// RowID is the id of the row that has the transaction.
func (c *Claim) RowID() string { return cmp.Or(c.Row, c.ID) }

// written is the row as it is known for a write: as it was made, or its id alone.
func (c *Claim) written() store.Txn {
	if c.made.ID != "" {
		return c.made
	}
	return store.Txn{ID: c.RowID()}
}

// An answer is the ARes that the requestor gets.
type answer struct {
	body   []byte
	status string // its transStatus
}

// Authenticate passes an AReq to the card's directory server and returns the ARes as it
// came. A request that is refused does not use its id up. Once the AReq has been sent, the
// exchange is finished and its outcome committed even if ctx ends. There may be Notes with
// an error, too.
func (e *Engine) Authenticate(ctx context.Context, acc *account.Account, body []byte) ([]byte, Notes, error) {
	req := e.NewRequest(acc)
	to, ares, err := e.authenticate(ctx, req, body)
	e.NoteRequest(ctx, req)
	e.NoteEnd(ctx, "auth", to.Scheme(), OutcomeOf(ares.status, err))
	return ares.body, notesOf(req), err
}

// NewRequest returns a request that has come now.
func (e *Engine) NewRequest(acc *account.Account) *check.Request {
	return check.NewRequest(acc, e.Now(), e.Timeouts.Preauth)
}

// Explain says what would become of a body that has come now: see [check.Checker.Explain].
func (e *Engine) Explain(acc *account.Account, body []byte, o check.ExplainOptions) *check.Explanation {
	return e.Checker.Explain(e.NewRequest(acc), body, o)
}

type referenceKey struct{}

// WithReference returns a context for [Engine.Authenticate] with the reference by which the requestor knows
// the transaction. It is kept with the transaction, and recorded for each later request about the transaction.
func WithReference(ctx context.Context, reference string) context.Context {
	return context.WithValue(ctx, referenceKey{}, reference)
}

// NoteRequest records what a request is about.
func (e *Engine) NoteRequest(ctx context.Context, req *check.Request) {
	if e.Recorder == nil {
		return
	}
	e.Note(ctx, "threeDSServerTransID", req.LoggedID())
	if transid.IsReference(req.Reference) {
		e.Note(ctx, "reference", req.Reference)
	}
	e.noteCard(ctx, req.PAN)
	e.Note(ctx, "messageVersion", req.LoggedVersion)
	e.Note(ctx, "deviceChannel", req.LoggedChannel)
	e.Note(ctx, "messageCategory", req.LoggedCategory)
	e.Note(ctx, "amount", req.LoggedAmount)
	e.Note(ctx, "currency", req.LoggedCurrency)
	if len(req.Changes) > 0 {
		e.Recorder.NoteChanges(ctx, DescribeChanges(req.Changes))
	}
}

// authenticate does the work of Authenticate: it checks the request, claims its id and
// exchanges the messages. It fills in req, and also returns the target if there is an error.
func (e *Engine) authenticate(ctx context.Context, req *check.Request, body []byte) (check.Target, answer, error) {
	// ctx also ends when the requestor closes its sending side of the connection. The requestor may still wait for the
	// answer then.
	through := context.WithoutCancel(ctx)
	c, err := e.CheckAReq(req, body)
	rec := &txn.Record{LookedUp: e.Now().UnixMilli()}
	if err == nil {
		err = e.accept(through, req, c)
	} else {
		err = check.BadJSON(err)
	}
	if err != nil {
		return c.To, answer{}, blameRequest(err)
	}
	text, err := c.AReq.Sendable()
	if err != nil {
		return c.To, answer{}, err
	}
	leave, ok := e.Directories.Enter(c.To.Peer.Scheme, req.Account.Merchant.Name)
	if !ok {
		return c.To, answer{}, NewTooManyError(req.Version, req.KnownID())
	}
	defer leave()
	rec.Reference, _ = ctx.Value(referenceKey{}).(string)
	claimed, err := e.Claim(through, req, c, rec)
	if err != nil {
		return c.To, answer{}, blameRequest(err)
	}
	e.LogFindings(ctx, req, c.To)
	ares, err := e.exchange(ctx, claimed, text)
	return c.To, ares, err
}

// accept refuses an AReq whose content has faults, or that contradicts what is known of its id, its card and earlier
// authentications.
func (e *Engine) accept(ctx context.Context, req *check.Request, c *check.Content) error {
	e.ObserveRules(req, c)
	if len(c.Problems) > 0 {
		return e.Refuse(req, c, c.Problems, c.Enforced)
	}
	if err := e.CheckIDAndVersion(req, c.To); err != nil {
		if bad, ok := errors.AsType[message.Error](err); ok && bad.Code == message.UnsupportedVersion {
			err = e.Refuse(req, c, message.Problems{{Code: bad.Code, Path: "messageVersion"}}, nil)
		}
		return err
	}
	return e.CheckFollowUp(ctx, req, c.To, c.AReq)
}

// ObserveRules reports what a request lacks of the rules of its scheme.
func (e *Engine) ObserveRules(req *check.Request, c *check.Content) {
	if e.Observer != nil && c.RulesChecked {
		e.Observer.RulesChecked(req.Account.Merchant.Name, c.To.Peer.Scheme, c.Findings)
	}
}

// Claim commits the id before the AReq leaves. From then on the id is used up, on every node
// and whatever crashes. Rec holds what is kept in addition to what the request says.
func (e *Engine) Claim(ctx context.Context, req *check.Request, content *check.Content,
	rec *txn.Record) (*Claim, error) {
	to, areq := content.To, content.AReq
	c := &Claim{
		Target: to, ID: req.TransID(), Merchant: req.Account.Merchant.Name, Version: req.Version, Start: req.Start,
		Bridging: extension.VersionOf(areq, extension.BridgingID), Rec: rec,
	}
	rec.Began, rec.Sent, rec.Version = req.Start.UnixMilli(), e.Now().UnixMilli(), req.Version.String()
	rec.BIN, rec.Last4, rec.CardHash = check.BINOf(req.PAN), req.PAN[len(req.PAN)-4:], e.HashCard(req.PAN)
	rec.AReq, rec.Purchase = areq.Facts(), e.PurchaseOf(req.TransID(), req.PAN, req.Version, areq)
	rec.Changes, rec.Unkept = DescribeChanges(req.Changes), txn.UnkeptRules(req.Findings)
	rec.SetPurchase(areq)
	t := store.Txn{ID: c.ID, Owner: c.Merchant, Scheme: to.Peer.Scheme, State: txn.Sent, Version: store.NewVersion()}
	e.SetExpiry(&t, rec, e.KeepFinal())
	if err := e.Seal(&t, rec); err != nil {
		return nil, err
	}
	c.Sent = e.JournaledAReq(areq)
	switch err := e.Store.Create(WithSent(ctx, c.Sent), t); {
	case errors.Is(err, store.ErrExists):
		return nil, check.NewErro(req.Version, message.UnknownTransaction, "The threeDSServerTransID has been used", c.ID)
	case err != nil:
		e.LogStoreFailure(ctx, "claim not stored", err, "threeDSServerTransID", c.ID)
		return nil, unreachable(req.Version, c.ID)
	}
	c.made = t
	c.made.Data, c.made.Plain = nil, nil // the outcome needs neither, and thousands may wait for theirs
	return c, nil
}
