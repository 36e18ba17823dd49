package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/protocol/acp"
	"github.com/openthreeds/threeds/internal/state/idempotency"
	"github.com/openthreeds/threeds/message"
)

// The paths of Delegate Authentication of the Agentic Commerce Protocol.
const (
	delegatePath       = "/delegate_authentication"
	authenticateSuffix = "/authenticate"
)

// delegateEndpoints are what is served for agents, by the path with ID in the place of an id.
var delegateEndpoints = map[string]*endpoint{
	delegatePath:         {acpProtocol{}, (*Handler).maxBody, true, nil, (*Handler).createSession},
	delegatePath + "/ID": {acpProtocol{}, (*Handler).maxBody, true, []string{http.MethodGet}, (*Handler).session},
	delegatePath + "/ID" + authenticateSuffix: {acpProtocol{}, (*Handler).maxBody, true, nil,
		(*Handler).authenticateSession},
}

// delegateOperationOf returns the path of an operation of agents with ID in the place of an id.
func delegateOperationOf(path string) string {
	id, isUnder := strings.CutPrefix(path, delegatePath+"/")
	id, isSend := strings.CutSuffix(id, authenticateSuffix)
	switch {
	case !isUnder || id == "" || strings.Contains(id, "/"):
		return path
	case isSend:
		return delegatePath + "/ID" + authenticateSuffix
	}
	return delegatePath + "/ID"
}

// acpProtocol is the protocol of agents: the key in the header Authorization, and errors of its own.
type acpProtocol struct{}

// apiKey returns the bearer token. Of several headers none counts.
func (acpProtocol) apiKey(r *http.Request) string {
	if values := r.Header["Authorization"]; len(values) == 1 {
		if scheme, key, ok := strings.Cut(values[0], " "); ok && strings.EqualFold(scheme, "Bearer") {
			return strings.TrimLeft(key, " ")
		}
	}
	return ""
}

// maxEcho is the length of the longest header that is sent back, in bytes.
const maxEcho = 255

// echoHeaders sends back the headers by which an agent knows its request.
func echoHeaders(w http.ResponseWriter, r *http.Request) {
	for _, name := range []string{"Idempotency-Key", "Request-Id"} {
		if values := r.Header[name]; len(values) == 1 && len(values[0]) <= maxEcho {
			w.Header().Set(name, values[0])
		}
	}
}

func (acpProtocol) writeFailure(h *Handler, w http.ResponseWriter, r *http.Request, f *failure) {
	if f == unknownKey {
		obs.RequestOf(r.Context()).Refuse("unauthorized")
		w.Header().Set("WWW-Authenticate", `Bearer realm="threeds"`)
	}
	h.writeACPError(w, r, acp.NewError(cmp.Or(f.mpiStatus, f.status), "", f.text))
}

// noSession answers for every id that the caller has no session of, whatever is wrong with it.
var noSession = acp.NewError(http.StatusNotFound, "", "No session of yours has this id, or none any more")

func (p acpProtocol) writeError(h *Handler, w http.ResponseWriter, r *http.Request, err error) {
	said, isSaid := errors.AsType[*acp.Error](err)
	refused, isRefused := errors.AsType[*session.RefusedError](err)
	_, isTooMany := errors.AsType[*auth.TooManyError](err)
	switch {
	case isSaid:
	case isRefused:
		said = acp.FromFaults(refused.Faults)
	case isTooMany:
		h.countRefusal(r, PerMerchant)
		setRetryAfter(w)
		said = acp.NewError(http.StatusTooManyRequests, "", tooManyOfMerchant.Detail)
	case errors.Is(err, auth.ErrNoAuthentication):
		said = noSession
	case errors.Is(err, session.ErrAlreadySent):
		said = acp.NewError(http.StatusConflict, acp.DuplicateRequest,
			"The session was authenticated already, or was cancelled")
	case errors.Is(err, session.ErrOtherKey):
		said = acp.NewError(http.StatusConflict, "",
			"The session was created with another API key, and only that one opens the card")
	case errors.Is(err, session.ErrNoRanges):
		said = acp.NewError(http.StatusServiceUnavailable, "", rangesNotLoaded.Detail)
	case errors.Is(err, txn.ErrStoreUnreachable):
		obs.RequestOf(r.Context()).Refuse(storeOutcome)
		said = acp.NewError(http.StatusServiceUnavailable, "", storeAway.Detail)
	default:
		h.logUnlessGone(r, err)
		p.writeFailure(h, w, r, internalFailure)
		return
	}
	h.writeACPError(w, r, said)
}

// writeKeyError answers a request whose Idempotency-Key cannot be claimed.
func (acpProtocol) writeKeyError(h *Handler, w http.ResponseWriter, r *http.Request, err error) {
	e := acp.NewError(http.StatusServiceUnavailable, "", storeAway.Detail)
	switch {
	case errors.Is(err, errBadKey):
		e = acp.NewError(http.StatusBadRequest, "",
			"The header Idempotency-Key must be given once, with 1 to 255 printable characters of ASCII")
	case errors.Is(err, idempotency.ErrInProgress):
		setRetryAfter(w)
		e = acp.NewError(http.StatusConflict, acp.DuplicateRequest, inProgress.Detail)
	case errors.Is(err, idempotency.ErrMismatch):
		e = acp.NewError(http.StatusConflict, acp.IdempotencyConflict, idempotencyMismatch.Detail)
	case errors.Is(err, idempotency.ErrUnreadable):
		e = acp.NewError(http.StatusConflict, acp.IdempotencyConflict,
			"The answer that was kept for this Idempotency-Key cannot be read any more, and the request is not run again: "+
				"ask for the session by its id, or make another one with another key")
	default:
		obs.RequestOf(r.Context()).Refuse(storeOutcome)
	}
	h.writeACPError(w, r, e)
}

func (h *Handler) writeACPError(w http.ResponseWriter, r *http.Request, e *acp.Error) {
	var elements []string
	if e.Param != "" {
		elements = []string{e.Param}
	}
	obs.RequestOf(r.Context()).SetError(e.Code, elements, "")
	if e.Status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		setRetryAfter(w)
	}
	h.write(w, e.Status, encodeJSON(e))
}

// checkWhole checks what a request says about itself in addition to its key, once its body has been read.
func (acpProtocol) checkWhole(h *Handler, w http.ResponseWriter, req *request) error {
	if err := h.ACP.Check(req.header, req.body); err != nil {
		w.Header().Set("WWW-Authenticate", `Bearer realm="threeds"`)
		return acp.NewError(http.StatusUnauthorized, "", "Not authorised: "+err.Error())
	}
	if versions := req.header["Api-Version"]; len(versions) != 1 || versions[0] != acp.Version {
		return acp.NewError(http.StatusBadRequest, "", "The header API-Version must be "+acp.Version)
	}
	return nil
}

// onceOf returns a context that keeps a request with an Idempotency-Key to one effect.
func onceOf(ctx context.Context, req *request) context.Context {
	if c := req.claim; c != nil {
		ctx = session.WithOnce(ctx, session.Once{ID: c.Noted(), Note: c.Note})
	}
	return ctx
}

// delegation is what a request says in addition to the members of the AReq.
func delegation(req *request, steps acp.Steps) session.Delegation {
	return session.Delegation{
		APIKey:     req.apiKey,
		AgentSteps: check.AgentSteps{NotificationURL: steps.NotificationURL, Completion: steps.Completion},
	}
}

// createSession begins an authentication for an agent.
func (h *Handler) createSession(ctx context.Context, req *request) (response, error) {
	steps, body, err := acp.ReadCreate(req.body)
	if err != nil {
		return response{}, err
	}
	a, err := h.Engine.CreateForAgent(onceOf(ctx, req), req.account, delegation(req, steps), body)
	return sessionResponse(http.StatusCreated, a, err, false)
}

// authenticateSession has the AReq of a session sent.
func (h *Handler) authenticateSession(ctx context.Context, req *request) (response, error) {
	id := strings.TrimSuffix(strings.TrimPrefix(req.path, delegatePath+"/"), authenticateSuffix)
	if !message.IsUUID(strings.ToLower(id)) {
		return response{}, noSession
	}
	// The faults of a body must not show whether a session exists.
	if _, err := h.Engine.AgentAuthentication(context.WithoutCancel(ctx), req.account, id); err != nil {
		return response{}, err
	}
	steps, body, err := acp.ReadAuthenticate(req.body)
	if err != nil {
		return response{}, err
	}
	a, err := h.Engine.AuthenticateForAgent(onceOf(ctx, req), req.account, delegation(req, steps), id, body)
	return sessionResponse(http.StatusOK, a, err, false)
}

// session shows a session.
func (h *Handler) session(ctx context.Context, req *request) (response, error) {
	id := strings.TrimPrefix(req.path, delegatePath+"/")
	if !message.IsUUID(strings.ToLower(id)) {
		return response{}, noSession
	}
	a, err := h.Engine.AgentAuthentication(context.WithoutCancel(ctx), req.account, id)
	return sessionResponse(http.StatusOK, a, err, true)
}

// sessionResponse returns the answer with a session.
func sessionResponse(status int, a *auth.Authentication, err error, hasResult bool) (response, error) {
	if err != nil {
		return response{}, err
	}
	s, err := acp.SessionOf(&acp.Authentication{
		ID: a.ID, Status: a.Status, MethodURL: a.MethodURL, Outcome: a.Outcome, ARes: a.ARes, RReq: a.RReq,
	}, hasResult)
	if err != nil {
		return response{}, err
	}
	return encodeResponse(status, s)
}
