package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/message"
)

// cancelSuffix ends the path under which an authentication is cancelled.
const cancelSuffix = "/cancel"

// cancelEndpoint serves it for every authentication.
var cancelEndpoint = &endpoint{problemProtocol{}, (*Handler).maxBody, true, nil, (*Handler).cancel}

// isCancelPath reports whether a path is that of the cancellation of an authentication.
func isCancelPath(path string) bool {
	id, isUnder := strings.CutPrefix(path, authenticationsPath)
	id, isCancel := strings.CutSuffix(id, cancelSuffix)
	return isUnder && isCancel && !strings.Contains(id, "/")
}

// newBrowser returns the member browser; nil unless the authentication waits for its browser.
func (h *Handler) newBrowser(a *auth.Authentication, access *session.BrowserAccess) *api.Browser {
	if a.BrowserExpires.IsZero() {
		return nil
	}
	o := &api.Browser{Script: h.BrowserScript, Integrity: h.BrowserIntegrity, Expires: wholeSeconds(a.BrowserExpires)}
	if access != nil {
		o.URL, o.Token = access.URL, access.Token
	}
	return o
}

// create begins an authentication.
func (h *Handler) create(ctx context.Context, req *request) (response, error) {
	if c := req.claim; c != nil {
		ctx = session.WithOnce(ctx, session.Once{ID: c.Noted(), Secret: c.Derive("browser token"), Note: c.Note})
	}
	a, access, err := h.Engine.Create(ctx, req.account, req.body)
	if err != nil {
		return response{}, creationProblem(err)
	}
	body, err := h.encodeAuthentication(a, access)
	return response{status: http.StatusCreated, location: authenticationsPath + a.ID, body: body}, err
}

// noBrowserPages answers a request for a browser while no listener for browsers is configured.
var noBrowserPages = newProblem("browser-not-configured", http.StatusBadRequest,
	"The server has no address for browsers: its configuration lacks browser.url")

// rangesNotLoaded answers while the scheme of a card is unknown.
var rangesNotLoaded = newProblem("overloaded", http.StatusServiceUnavailable,
	"Card ranges are not loaded yet, try again")

// creationProblem returns the problem that an error of Create is.
func creationProblem(err error) error {
	if refused, ok := errors.AsType[*session.RefusedError](err); ok {
		switch {
		case refused.NoBrowser:
			return noBrowserPages
		case len(refused.Faults) == 1 && refused.Faults[0].Rule == "version":
			return newProblem("unsupported-version", http.StatusBadRequest, "The card cannot be used with this version",
				refused.Faults...)
		}
		return problemOf(refused.Faults...)
	}
	if errors.Is(err, session.ErrNoRanges) {
		return rangesNotLoaded
	}
	return err
}

// tooManyOfMerchant answers a merchant with too many AReqs on their way.
var tooManyOfMerchant = newProblem("rate-limited", http.StatusTooManyRequests,
	"Too many authentications of yours are on their way to this directory server")

var (
	isFinal        = newProblem("final", http.StatusConflict, "The authentication is over")
	notCancellable = newProblem("not-cancellable", http.StatusConflict,
		"An authentication that began with /auth cannot be cancelled")
)

// cancel ends an authentication that is not over.
func (h *Handler) cancel(ctx context.Context, req *request) (response, error) {
	if err := expectNoMembers(req.body); err != nil {
		return response{}, err
	}
	id := strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(req.path, authenticationsPath), cancelSuffix))
	if !message.IsUUID(id) {
		return response{}, noAuthentication
	}
	a, err := h.Engine.Cancel(context.WithoutCancel(ctx), req.account, id)
	switch {
	case errors.Is(err, session.ErrFinal):
		return response{}, isFinal
	case errors.Is(err, session.ErrNotCancellable):
		return response{}, notCancellable
	case err != nil:
		return response{}, err
	}
	body, err := h.encodeAuthentication(a, nil)
	return response{body: body}, err
}

// wholeSeconds returns a time as all answers show it: in UTC, in whole seconds.
func wholeSeconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
