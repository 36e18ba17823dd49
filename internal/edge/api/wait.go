package api

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/message"
)

// maxWait is the longest that a /postauth may wait for its result.
const maxWait = 60 * time.Second

// extraTime is what a request that waits has beyond its wait, for its answer to be written.
const extraTime = 10 * time.Second

// waitFault says what is wrong with a wait.
var waitFault = api.Fault{
	Parameter: "wait", Code: message.Format.String(), Rule: "range", Limit: limitOf(0, int(maxWait/time.Second)),
	Cure: "Give wait once, as a whole number of seconds.",
}

// badWait answers a wait that does not have the form of docs/api.md, P2.
var badWait = newFailureOf(waitFault, "invalid_request",
	"The parameter wait must be a whole number of seconds from 0 to 60, and be given once")

// postauth also answers when the caller seems to have gone: the caller may only have closed its sending side of the
// connection. It does not wait for such a caller.
func (h *Handler) postauth(ctx context.Context, req *request) (response, error) {
	wait, err := readWait(req.query)
	if err != nil {
		return response{}, err
	}
	var res response
	res.body, err = h.Engine.Result(context.WithoutCancel(ctx), req.account, req.body)
	if pending, ok := errors.AsType[*auth.PendingError](err); ok && wait > 0 {
		res.retryAfter = h.wait(ctx, req, wait, func(limited context.Context) {
			res.body, err = h.Engine.WaitForResult(limited, req.account, pending)
		})
	}
	return res, err
}

// readWait returns how long a /postauth may wait, by the parameter wait of its query.
func readWait(query string) (time.Duration, error) {
	if query == "" {
		return 0, nil
	}
	values, err := url.ParseQuery(query)
	wait := values["wait"]
	if err == nil && len(wait) == 0 {
		return 0, nil
	}
	if err != nil || len(wait) > 1 {
		return 0, badWait
	}
	seconds, err := strconv.ParseUint(wait[0], 10, 8)
	if err != nil || time.Duration(seconds)*time.Second > maxWait {
		return 0, badWait
	}
	return time.Duration(seconds) * time.Second, nil
}

// wait calls work, in which a request may wait. The context of work ends after the time most. wait returns true if the
// client is to pause before it tries again. Requests that wait take no place among those in flight, and hold no body.
// They have a limit of their own: as many may wait as may be in flight, and for one merchant as many as Waiters allows.
// A request beyond that is answered immediately, without work. At the limit of connections the request that has waited
// longest is answered early.
func (h *Handler) wait(ctx context.Context, req *request, most time.Duration,
	work func(limited context.Context)) (retryAfter bool) {
	defer h.waiting.Add(-1)
	if n := h.waiting.Add(1); h.MaxInFlight > 0 && n > h.MaxInFlight {
		return true
	}
	if h.Waiters != nil {
		leave, ok := h.Waiters.Enter(req.account.Merchant.Name)
		if !ok {
			return true
		}
		defer leave()
	}
	req.body = nil // its memory is not needed while the request waits
	waiting, done := req.pause(most)
	began := time.Now()
	defer func() { obs.RequestOf(ctx).SetWaited(time.Since(began)) }()
	limited, cancel := context.WithTimeout(waiting, most)
	defer cancel()
	if h.Waits != nil {
		defer context.AfterFunc(h.Waits, cancel)()
	}
	work(limited)
	isCutShort := done()
	return isCutShort || h.Waits != nil && h.Waits.Err() != nil // such requests are answered immediately
}
