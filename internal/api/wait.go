package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/openthreeds/threeds/internal/auth"
	"github.com/openthreeds/threeds/internal/faults"
	"github.com/openthreeds/threeds/internal/obs"
	"github.com/openthreeds/threeds/message"
)

// maxWait is the longest that a /postauth may wait for its result.
const maxWait = 60 * time.Second

// extraTime is what a request that waits has beyond its wait, for its answer to be written.
const extraTime = 10 * time.Second

// waitFault says what is wrong with a wait.
var waitFault = faults.Entry{
	Parameter: "wait", Code: message.Format, Rule: "range", Limit: limitOf(0, int(maxWait/time.Second)),
	Cure: "Give wait once, as a whole number of seconds.",
}

// badWait answers a wait that is not as docs/api.md, P2, has it.
var badWait = newFailureOf(waitFault, "invalid_request",
	"The parameter wait must be a whole number of seconds from 0 to 60, and be given once")

// postauth answers also when the caller seems to have gone: it may only have closed its
// sending side of the connection. It does not wait for such a caller.
func (h *Handler) postauth(ctx context.Context, req *request) (response, error) {
	wait, err := readWait(req.query)
	if err != nil {
		return response{}, err
	}
	rreq, err := h.Engine.Result(context.WithoutCancel(ctx), req.account, req.body)
	if pending, ok := errors.AsType[*auth.PendingError](err); ok && wait > 0 {
		return h.waitForResult(ctx, req, pending, wait)
	}
	return response{body: rreq}, err
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

// waitForResult answers a /postauth whose result is pending, as soon as there is something else to say, and
// at the latest after wait. Requests that wait take no place among those in flight. They are counted by
// themselves: as many may wait as may be in flight, and the next is answered at once.
func (h *Handler) waitForResult(ctx context.Context, req *request, pending *auth.PendingError, wait time.Duration) (response, error) {
	defer h.waiting.Add(-1)
	if n := h.waiting.Add(1); h.MaxInFlight > 0 && n > h.MaxInFlight {
		return response{retryAfter: true}, pending
	}
	limited, ended := h.prepareWait(ctx, req, wait)
	defer ended()
	rreq, err := h.Engine.WaitForResult(limited, req.account, pending)
	return response{body: rreq, retryAfter: h.isStopping()}, err
}

// prepareWait gives the place and the memory of a request back, and returns a context for its wait. Ended notes how
// long it took.
func (h *Handler) prepareWait(ctx context.Context, req *request, wait time.Duration) (limited context.Context, ended func()) {
	req.body = nil // its memory is not needed while the request waits
	req.pause(wait)
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, wait)
	stop := func() bool { return true }
	if h.Waits != nil {
		stop = context.AfterFunc(h.Waits, cancel)
	}
	return limited, func() {
		stop()
		cancel()
		obs.RequestOf(ctx).SetWaited(time.Since(began))
	}
}

// isStopping reports whether requests that wait are answered at once.
func (h *Handler) isStopping() bool { return h.Waits != nil && h.Waits.Err() != nil }

// extendTime gives a request that waits the time to write its answer afterwards.
func extendTime(w http.ResponseWriter, wait time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + extraTime)) // in tests it may fail
}
