package api

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/edge/shed"
	"github.com/openthreeds/threeds/internal/state/account"
)

// A Refusal is why a request was not served.
type Refusal string

// The refusals.
const (
	Overload    Refusal = "overload"     // the load shedder did not admit the request
	InFlight    Refusal = "in_flight"    // too many requests are in flight
	RateLimit   Refusal = "rate_limit"   // the rate limit of the key is reached
	PerMerchant Refusal = "per_merchant" // too many AReqs of the merchant wait for the directory server
	Connections Refusal = "connections"  // the connection was closed because there were too many

	MerchantDisabled Refusal = "merchant_disabled"  // an operator has disabled the merchant
	MerchantRate     Refusal = "merchant_rate"      // the rate that the settings of the merchant have is reached
	MerchantInFlight Refusal = "merchant_in_flight" // as many requests are in flight as these settings allow
)

// classOf returns the priority of a request when not all can be served. An /enrolled has no step before it, so it
// counts as a beginning, as a path without an endpoint does.
func classOf(path string) shed.Priority {
	switch {
	case path == "/auth", strings.HasSuffix(path, authenticateSuffix):
		return shed.Middle
	case path == "/postauth", path == "/check", path == "/outcome", strings.HasPrefix(path, authenticationsPath),
		strings.HasPrefix(path, delegatePath+"/"):
		return shed.High
	}
	return shed.Low
}

// inFlight is the number of places that are taken.
func (h *Handler) inFlight() *atomic.Int64 { return cmp.Or(h.InFlight, &h.ownInFlight) }

// shares counts the places of each merchant.
func (h *Handler) shares() *Shares { return cmp.Or(h.Shares, &h.ownShares) }

// An admission is a request in flight, with the places that it takes. It ends with release.
type admission struct {
	h         *Handler
	class     shed.Priority
	merchant  string
	places    int64
	isLimited bool // the limits of the merchant count the request
}

// admit admits a request of a merchant, unless too many are in flight. It returns why not; "" means that it is
// admitted.
func (h *Handler) admit(c shed.Priority, m *account.Merchant) (admission, Refusal) {
	a := admission{h: h, class: c, merchant: m.Name}
	if isLimited(c) {
		if !h.MerchantLimits.startRequest(m) {
			return a, MerchantInFlight
		}
		a.isLimited = true
	}
	if !a.takePlaces(1) {
		a.release()
		return a, InFlight
	}
	return a, ""
}

// bytesPerPlace is how many bytes of a body come with the place of its request; each
// further piece of that length takes one more place. Bodies are a few KiB long, but some
// thousands of the longest would take more memory than there is.
const bytesPerPlace = 16 << 10

// takePlacesFor takes the places of a body of that length, at most half of all places. So a request that is alone
// always gets them.
func (a *admission) takePlacesFor(bytes int64) bool {
	more := (bytes - 1) / bytesPerPlace
	if a.h.MaxInFlight > 0 {
		more = min(more, a.h.MaxInFlight/2)
	}
	return more <= 0 || a.takePlaces(more)
}

// takePlaces takes places, if that many are left. The last tenth of all places is for
// requests that conclude an authentication, the tenth before it for those and for requests
// that continue one. One merchant gets three quarters of what there is for such requests.
func (a *admission) takePlaces(places int64) bool {
	most := a.h.MaxInFlight - a.h.MaxInFlight/10*int64(shed.High-a.class)
	if !a.h.shares().reserve(a.merchant, places, most-most/4) {
		return false
	}
	if n := a.h.inFlight().Add(places); a.h.MaxInFlight > 0 && n > most {
		a.h.inFlight().Add(-places)
		a.h.shares().release(a.merchant, places)
		return false
	}
	a.places += places
	return true
}

// release gives the places back. It may be called more than once.
func (a *admission) release() {
	if a.places > 0 {
		a.h.inFlight().Add(-a.places)
		a.h.shares().release(a.merchant, a.places)
	}
	if a.isLimited {
		a.h.MerchantLimits.endRequest(a.merchant)
	}
	a.places, a.isLimited = 0, false
}

// writeOverloaded answers a request that is refused because the server is busy.
func (h *Handler) writeOverloaded(w http.ResponseWriter, r *http.Request, ep *endpoint, why Refusal) {
	h.countRefusal(r, why)
	setRetryAfter(w)
	ep.protocol.writeFailure(h, w, r, serverOverload)
}

// setRetryAfter asks the client to try again in 1 to 3 seconds, so that not all clients come back at the same time.
func setRetryAfter(w http.ResponseWriter) {
	w.Header().Set("Retry-After", strconv.Itoa(1+rand.IntN(3)))
}

// maxWaitingRefusals is how many answers of refuse may wait in HTTP/2 for clients to take
// them.
const maxWaitingRefusals = 4096

// refuse answers a request that takes no place among those in flight: one without a good
// key, or one that is not served. Write writes the answer.
//
// In HTTP/1.1 a connection has one answer at a time. In HTTP/2 it may have a hundred, and
// each holds the memory of a request until the client takes it. Nothing else limits those.
// So they get less time, and beyond maxWaitingRefusals requests are aborted without an
// answer.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, write func()) {
	if r.ProtoMajor < 2 {
		if r.ContentLength > maxDrain {
			prepareForUnreadBody(w, r) // the body is too long to be drained
		}
		write()
		sendAndDrain(w, r)
		return
	}
	defer h.waitingRefusals.Add(-1)
	if h.waitingRefusals.Add(1) > maxWaitingRefusals {
		panic(http.ErrAbortHandler)
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(listen.RequestTime))
	write()
	_ = control.Flush() // so that the answer waits here, where it is counted
}

// countRefusal counts a request that is refused.
func (h *Handler) countRefusal(r *http.Request, why Refusal) {
	obs.RequestOf(r.Context()).Refuse(string(why))
	if h.Refused != nil {
		h.Refused(strings.TrimPrefix(operationOf(r), "/"), why)
	}
}
