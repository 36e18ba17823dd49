package api

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/listen"
	"github.com/openthreeds/threeds/internal/obs"
	"github.com/openthreeds/threeds/internal/shed"
	"github.com/openthreeds/threeds/message"
)

// A Refusal is why a request was not served.
type Refusal string

// The refusals.
const (
	Overload  Refusal = "overload"   // by the gate
	InFlight  Refusal = "in_flight"  // too many in work
	RateLimit Refusal = "rate_limit" // of the key
	// PerMerchant is an AReq that had too many of its merchant before it at the directory server.
	PerMerchant Refusal = "per_merchant"
	// Connections is a connection that went because there were too many.
	Connections Refusal = "connections"
)

// classOf is what a request is worth when not all can be served. An /enrolled has
// no step before it, so it counts as a beginning; so does what is no operation.
func classOf(path string) shed.Priority {
	switch path {
	case "/auth":
		return shed.Middle
	case "/postauth", "/check":
		return shed.High
	}
	return shed.Low
}

// work is how many places are taken.
func (h *Handler) work() *atomic.Int64 { return cmp.Or(h.InFlight, &h.own) }

// A visit is a request in work, with the places that it takes. It ends with leave.
type visit struct {
	h      *Handler
	class  shed.Priority
	places int64
}

// enter lets a request in, unless there are too many.
func (h *Handler) enter(c shed.Priority) (visit, bool) {
	v := visit{h: h, class: c}
	return v, v.take(1)
}

// perPlace is how much of a body is in the place of its request; each further piece of
// that length takes one more. Bodies are a few KiB long, but some thousands of the
// longest would take more memory than there is.
const perPlace = 16 << 10

// widen takes the places of a body of so many bytes, at most half of all: one request
// alone always finds them.
func (v *visit) widen(bytes int64) bool {
	more := (bytes - 1) / perPlace
	if v.h.MaxInFlight > 0 {
		more = min(more, v.h.MaxInFlight/2)
	}
	return more <= 0 || v.take(more)
}

// take takes places, if that many are left. The last tenth of them is for what
// concludes, the tenth before it for what is no beginning.
func (v *visit) take(places int64) bool {
	most := v.h.MaxInFlight - v.h.MaxInFlight/10*int64(shed.High-v.class)
	if n := v.h.work().Add(places); v.h.MaxInFlight > 0 && n > most {
		v.h.work().Add(-places)
		return false
	}
	v.places += places
	return true
}

func (v *visit) leave() {
	v.h.work().Add(-v.places)
	v.places = 0
}

// end ends a visit whose body was not read: its answer is made, and a client that takes
// its time with the rest of the body is in nobody's way.
func (v *visit) end(w http.ResponseWriter, r *http.Request) {
	v.leave()
	hearOut(w, r)
}

// tooMuch is the answer of both protocols, made once: refusing has to be cheap.
var tooMuch = own(message.TransientFailure, "The server is overloaded").JSON()

// overloaded refuses a request. When to come again is spread over some seconds,
// so that not all do at once.
func (h *Handler) overloaded(w http.ResponseWriter, r *http.Request, why Refusal) {
	h.refused(r, why)
	w.Header()["Retry-After"] = again[rand.IntN(len(again))]
	if legacy[pathOf(r)] != nil {
		h.deny(w, r, overloaded)
		return
	}
	obs.RequestOf(r.Context()).SetError(message.TransientFailure.String(), nil, "")
	h.write(w, http.StatusServiceUnavailable, tooMuch)
}

// maxUntaken is how many answers of turnAway may wait in HTTP/2 for clients to take
// them.
const maxUntaken = 4096

// arrival is how long a request may take to come.
const arrival = listen.RequestTime

// turnAway answers a request that takes no place among those in flight: one without a
// good key, or one that is not served. In HTTP/1.1 a connection has one answer at a time.
// In HTTP/2 it may have a hundred, and each holds the memory of a request until the
// client takes it. Nothing else bounds those, so they get less time, and beyond maxUntaken
// requests are aborted without an answer.
func (h *Handler) turnAway(w http.ResponseWriter, r *http.Request, answer func()) {
	if r.ProtoMajor < 2 {
		if r.ContentLength > heard {
			leave(w, r) // it will not be heard out
		}
		answer()
		hearOut(w, r)
		return
	}
	defer h.untaken.Add(-1)
	if h.untaken.Add(1) > maxUntaken {
		panic(http.ErrAbortHandler)
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(arrival))
	answer()
	_ = control.Flush() // so that it waits here, where it counts
}

var again = [][]string{{"1"}, {"2"}, {"3"}}

// refused counts a request that is refused.
func (h *Handler) refused(r *http.Request, why Refusal) {
	obs.RequestOf(r.Context()).Refuse(string(why))
	if h.Refused != nil {
		h.Refused(strings.TrimPrefix(operationOf(r), "/"), why)
	}
}
