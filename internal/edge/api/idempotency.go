package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/state/idempotency"
	"github.com/openthreeds/threeds/internal/state/record"
	"github.com/openthreeds/threeds/message"
)

// A keyProtocol is a protocol whose POSTs may carry an Idempotency-Key.
type keyProtocol interface {
	protocol
	// writeKeyError answers a request whose key cannot be claimed: errBadKey, idempotency.ErrInProgress,
	// idempotency.ErrMismatch, idempotency.ErrUnreadable, or an error of the store.
	writeKeyError(h *Handler, w http.ResponseWriter, r *http.Request, err error)
}

// errBadKey says that a header is no key.
var errBadKey = errors.New("api: not an Idempotency-Key")

// isIdempotent reports whether a request may carry an Idempotency-Key.
func isIdempotent(ep *endpoint, r *http.Request) bool {
	_, is := ep.protocol.(keyProtocol)
	return is && r.Method == http.MethodPost
}

// badIdempotencyKey answers a header that is no key.
var badIdempotencyKey = problemOf(api.Fault{
	Header: "Idempotency-Key", Code: message.Format.String(), Rule: "pattern", Limit: limitOf(1, idempotency.MaxKey),
	Cure: "Give the header once, with 1 to 255 printable characters of ASCII.",
})

var (
	inProgress = newProblem("in-progress", http.StatusConflict,
		"The first request with this Idempotency-Key has no answer yet, try again")
	idempotencyMismatch = newProblem("idempotency-mismatch", http.StatusUnprocessableEntity,
		"The Idempotency-Key was used with another body, path or API key; use another one for another request")
	answerUnreadable = newProblem("answer-unreadable", http.StatusConflict,
		"The answer that was kept for this Idempotency-Key cannot be read any more, and the request is not run again. "+
			"What it has made can be found with GET /authentications or GET /webhook-endpoints; use another key to make it again")
)

// answerOnce answers a request with an Idempotency-Key: with the answer that is kept, or by doing its work and keeping
// the answer. The work goes on if the client leaves, for the client gets the answer when it comes again.
func (h *Handler) answerOnce(w http.ResponseWriter, r *http.Request, ep *endpoint, req *request, keys []string) {
	p, ok := ep.protocol.(keyProtocol)
	if !ok {
		panic("api: the protocol has no Idempotency-Key")
	}
	if len(keys) > 1 || !idempotency.IsKey(keys[0]) {
		p.writeKeyError(h, w, r, errBadKey)
		return
	}
	r = r.WithContext(context.WithoutCancel(r.Context()))
	claim, kept, err := h.Idempotency.Begin(r.Context(), idempotency.Request{
		Merchant: req.account.Merchant.Name, APIKey: ep.protocol.apiKey(r), Key: keys[0],
		Method: req.method, Path: req.path, Body: req.body,
	})
	switch {
	case errors.Is(err, idempotency.ErrInProgress), errors.Is(err, idempotency.ErrMismatch):
		p.writeKeyError(h, w, r, err)
		return
	case err != nil:
		h.logIdempotencyFailure(r.Context(), "key not claimed", err)
		p.writeKeyError(h, w, r, err)
		return
	case kept != nil:
		maps.Copy(w.Header(), kept.Header)
		w.Header().Set("Idempotency-Replayed", "true")
		h.writeRecorded(w, kept)
		return
	}
	req.claim = claim
	answer := recordedAnswer{Answer: idempotency.Answer{Header: http.Header{}}}
	h.answerClaimed(&answer, r, ep, req)
	maps.Copy(w.Header(), answer.Answer.Header)
	h.writeRecorded(w, &answer.Answer)
}

// writeKeyError answers a request whose Idempotency-Key cannot be claimed.
func (problemProtocol) writeKeyError(h *Handler, w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, errBadKey):
		h.writeProblem(w, r, badIdempotencyKey)
	case errors.Is(err, idempotency.ErrInProgress):
		setRetryAfter(w)
		h.writeProblem(w, r, inProgress)
	case errors.Is(err, idempotency.ErrMismatch):
		h.writeProblem(w, r, idempotencyMismatch)
	case errors.Is(err, idempotency.ErrUnreadable):
		h.writeProblem(w, r, answerUnreadable)
	default:
		h.writeProblem(w, r, storeAway)
	}
}

// answerClaimed does the work of a request that has claimed its key, and ends the claim. It frees the key when there is
// a panic.
func (h *Handler) answerClaimed(answer *recordedAnswer, r *http.Request, ep *endpoint, req *request) {
	defer func() {
		end := req.claim.Release
		if idempotency.IsKept(answer.Status) {
			end = func(ctx context.Context) error { return req.claim.Finish(ctx, &answer.Answer) }
		}
		// The answer is right all the same. The next request with this key waits until the claim is over, and repeats it.
		if err := end(r.Context()); err != nil {
			h.logIdempotencyFailure(r.Context(), "answer not kept", err)
		}
	}()
	h.answer(answer, r, ep, req)
}

func (h *Handler) logIdempotencyFailure(ctx context.Context, what string, err error) {
	record.LogFailure(ctx, h.Log, nil, time.Now(), what, err)
}

// writeRecorded sends an answer whose header is set.
func (h *Handler) writeRecorded(w http.ResponseWriter, a *idempotency.Answer) {
	w.WriteHeader(a.Status)
	if _, err := w.Write(a.Body); err != nil {
		h.Log.Info("answer not sent", "err", err)
	}
}

// A recordedAnswer is an answer that is not sent yet.
type recordedAnswer struct{ idempotency.Answer }

func (a *recordedAnswer) Header() http.Header { return a.Answer.Header }

func (a *recordedAnswer) WriteHeader(status int) {
	if a.Status == 0 {
		a.Status = status
	}
}

func (a *recordedAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.Body = append(a.Body, p...)
	return len(p), nil
}
