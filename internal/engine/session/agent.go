package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// Errors of [Engine.AuthenticateForAgent].
var (
	// ErrAlreadySent says that the AReq has left, or that the authentication was cancelled.
	ErrAlreadySent = errors.New("auth: the authentication has begun already")
	// ErrOtherKey says that the request came with another API key of the merchant than the first.
	ErrOtherKey = errors.New("auth: the authentication was created with another API key")
)

// A Delegation is what a request of an agent says in addition to the members of the AReq. An agent takes the steps of a
// browser itself: it runs the 3DS Method, and shows the page of the issuer.
type Delegation struct {
	// APIKey is the key that came with the request. The card is sealed under it until the AReq leaves.
	APIKey string
	check.AgentSteps
}

// secret returns what the request is sealed under. Only the SHA-256 of the key rests anywhere, and that opens nothing.
func (d *Delegation) secret() []byte { return []byte("agent " + strings.ToLower(d.APIKey)) }

// agentsOperation is the name of the operations of agents.
const agentsOperation = "delegate_authentication"

// CreateForAgent is [Engine.Create] for an agent. The AReq waits for [Engine.AuthenticateForAgent].
func (e *Engine) CreateForAgent(ctx context.Context, acc *account.Account, d Delegation,
	body []byte) (*auth.Authentication, error) {
	d.Completion = ""
	req := &creation{Request: e.NewRequest(acc), api: txn.AgentsAPI, agent: &d.AgentSteps}
	a, _, err := e.createOnce(ctx, req, agentsOperation,
		func(ctx context.Context) (*auth.Authentication, *BrowserAccess, error) {
			a, err := e.createForAgent(ctx, req, &d, body)
			return a, nil, err
		})
	return a, err
}

// createForAgent stores an authentication that waits for its agent.
func (e *Engine) createForAgent(ctx context.Context, req *creation, d *Delegation,
	body []byte) (*auth.Authentication, error) {
	kept, original := slices.Clone(body), slices.Clone(body)
	c, err := e.CheckAgents(req.Request, *req.agent, body)
	if err := e.acceptCreation(ctx, req, c, err, original); err != nil {
		return nil, err
	}
	if c.To.Peer == nil {
		return e.createNotEnrolled(ctx, req, c.AReq)
	}
	if err := e.noteID(ctx, req); err != nil {
		return nil, err
	}
	rec := e.newCreated(req)
	rec.Agent = &txn.AgentRecord{
		Request: sealCard(req.TransID(), d.secret(), kept), NotificationURL: d.NotificationURL,
		MethodURL: check.MethodURL(c.To.Peer, check.ACSVersion(c.To.Info, rec.Version)),
	}
	if string(c.Message.RawAt("browserJavascriptEnabled")) == "false" { // 2.1.0 has no such element
		rec.Agent.MethodURL = "" // such a browser cannot run it
	}
	return e.createWaiting(ctx, req, c, rec)
}

// AgentAuthentication is [auth.Engine.Authentication] for authentications of [Engine.CreateForAgent] alone.
func (e *Engine) AgentAuthentication(ctx context.Context, acc *account.Account,
	id string) (*auth.Authentication, error) {
	a, err := e.ReadAuthentication(ctx, acc, strings.ToLower(id))
	if err == nil && !a.IsForAgent {
		a, err = nil, auth.ErrNoAuthentication
	}
	e.noteAuthentication(ctx, agentsOperation, a, err)
	return a, err
}

// AuthenticateForAgent sends the AReq of an authentication that [Engine.CreateForAgent] made. The body has members
// of the AReq that were not known then. The request may be made again with [WithOnce], whose note says that the
// AReq may have left. The error is one of those of Create, or auth.ErrNoAuthentication, ErrAlreadySent or
// ErrOtherKey. An authentication that will never have an AReq, because it has expired or no directory has its
// card, is returned as it is.
func (e *Engine) AuthenticateForAgent(
	ctx context.Context, acc *account.Account, d Delegation, id string, body []byte,
) (*auth.Authentication, error) {
	id = strings.ToLower(id)
	req := &creation{Request: e.NewRequest(acc)}
	once, _ := ctx.Value(onceKey{}).(Once)
	req.once, req.NewID = Once{ID: id, Note: once.Note}, id
	a, err := e.authenticateForAgent(context.WithoutCancel(ctx), req, &d, once.ID != "", body)
	e.NoteRequest(ctx, req.Request)
	e.noteAuthentication(ctx, agentsOperation, a, err)
	return a, err
}

// authenticateForAgent does the work of AuthenticateForAgent. The request is a repetition if an earlier one with the
// same Idempotency-Key may have sent the AReq.
func (e *Engine) authenticateForAgent(
	ctx context.Context, req *creation, d *Delegation, isRepetition bool, body []byte,
) (*auth.Authentication, error) {
	a, err := e.ReadAuthentication(ctx, req.Account, req.once.ID)
	switch {
	case err != nil:
		return nil, err
	case !a.IsForAgent:
		return nil, auth.ErrNoAuthentication
	}
	t, rec, err := e.ReadOwned(ctx, req.Account, req.once.ID)
	switch {
	case err != nil:
		return nil, err
	case rec.Agent == nil, t.State == txn.Waiting && e.IsOver(rec), t.State == txn.Final && !rec.WasSent(),
		t.State != txn.Waiting && isRepetition:
		return a, nil
	case t.State != txn.Waiting:
		return nil, ErrAlreadySent
	}
	c, err := e.checkAgentsRequest(req, d, t, rec, body)
	if untold, ok := errors.AsType[*untoldError](err); ok {
		if !e.endUntold(ctx, *t, untold) {
			return nil, txn.ErrStoreUnreachable
		}
		return e.ReadAuthentication(ctx, req.Account, t.ID)
	}
	if err != nil {
		return nil, err
	}
	text, err := c.AReq.Sendable()
	if err != nil {
		return nil, err
	}
	leave, ok := e.Directories.Enter(c.To.Peer.Scheme, t.Owner)
	if !ok {
		return nil, auth.NewTooManyError(req.Version, "")
	}
	defer leave()
	if err := e.noteID(ctx, req); err != nil {
		return nil, err
	}
	claimed := &auth.Claim{
		Target: c.To, ID: t.ID, Merchant: t.Owner, Version: req.Version, Start: req.Start,
		Bridging: extension.VersionOf(c.AReq, extension.BridgingID),
	}
	if err := e.claimForAgent(ctx, req, claimed, t, c.AReq); err != nil {
		return nil, err
	}
	e.LogFindings(ctx, req.Request, c.To)
	e.Notify(t.ID)
	e.ExchangeIntoRow(ctx, claimed, text)
	return e.ReadAuthentication(ctx, req.Account, t.ID)
}

// checkAgentsRequest makes the AReq of what the two requests of an agent tell, and checks it as
// that of any other request.
func (e *Engine) checkAgentsRequest(
	req *creation, d *Delegation, t *store.Txn, rec *txn.Record, body []byte,
) (*check.Content, error) {
	first, err := cardKey(t.ID, d.secret()).Open(nil, nil, rec.Agent.Request, nil)
	if err != nil {
		return nil, ErrOtherKey
	}
	members := map[string]json.RawMessage{}
	for _, text := range [][]byte{first, body} {
		if err := json.Unmarshal(text, &members); err != nil {
			return nil, err
		}
	}
	members["ds"], _ = json.Marshal(t.Scheme)
	members["messageVersion"], _ = json.Marshal(rec.Version)
	whole, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	d.NotificationURL = cmp.Or(d.NotificationURL, rec.Agent.NotificationURL)
	switch {
	case rec.Agent.MethodURL == "":
		d.Completion = "U"
	case d.Completion != "Y":
		d.Completion = "N" // U is for cards without a 3DS Method
	}
	original := slices.Clone(whole)
	req.agent = &d.AgentSteps
	c, err := e.CheckAgents(req.Request, d.AgentSteps, whole)
	if e.hasFaults(req, c, err) {
		return nil, e.refuseCreation(req, original)
	}
	missing := message.Path("")
	switch {
	case members["browserJavascriptEnabled"] == nil: // the agent describes no browser
		missing = "browserAcceptHeader"
	case d.NotificationURL == "":
		missing = "notificationURL"
	}
	if missing != "" {
		entry := faults.New(message.Missing, missing, "required", "Send it in one of the two requests.")
		return nil, &RefusedError{Faults: []api.Fault{entry}}
	}
	if c.To.Peer == nil {
		return nil, ErrNoRanges // the range was there when the authentication was created
	}
	e.ObserveRules(req.Request, c)
	if len(c.AReq.Placeholders()) == 0 {
		return c, nil
	}
	told, err := message.ReadRequest(c.AReq.WithoutPlaceholders(), message.Limits{Depth: -1, Members: -1})
	if err != nil {
		return nil, err
	}
	req.Changes = append(req.Changes, told.Normalise()...)
	c.AReq, err = e.buildTold(told, c.To)
	return c, err
}

// claimForAgent commits that the AReq leaves. Of any number of calls, on all nodes, one succeeds.
func (e *Engine) claimForAgent(ctx context.Context, req *creation, c *auth.Claim, was *store.Txn,
	areq *message.Message) error {
	c.Sent = e.JournaledAReq(areq)
	mayLeave := false
	_, err := e.NewWrite(*was, func(t *store.Txn) error {
		rec, err := e.claimWaiting(t, req.Version, areq)
		if err != nil {
			return err
		}
		rec.Agent.Request, rec.Agent.Continued = nil, req.Start.UnixMilli()
		rec.Changes, rec.Defaulted = auth.DescribeChanges(req.Changes), req.Defaulted
		rec.Unkept = txn.UnkeptRules(req.Findings)
		c.Rec, mayLeave = rec, true
		return e.AdvanceRow(t, rec, txn.Sent, e.KeepFinal())
	}).Run(auth.WithSent(ctx, c.Sent))
	switch {
	case err == nil && mayLeave:
		return nil
	case errors.Is(err, txn.ErrArrow), errors.Is(err, store.ErrNotFound), err == nil:
		return ErrAlreadySent
	}
	return e.StoreUnreachable(ctx, "claim not stored", err, c.ID)
}
