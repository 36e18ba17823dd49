package api

import (
	"math"
	"net/http"
	"strconv"
	"sync"

	"golang.org/x/time/rate"

	"github.com/openthreeds/threeds/internal/edge/shed"
	"github.com/openthreeds/threeds/internal/state/account"
)

// MerchantLimits hold merchants to the rate and to the number of requests in flight that their settings say. Nodes
// share a limit: each grants an equal part of it. So a limit is approximate: it is lower than it says while a merchant
// does not use all nodes alike, and parts are rounded up. A nil MerchantLimits allows everything. It is safe for
// concurrent use.
type MerchantLimits struct {
	// Nodes returns how many nodes share the limits, at least 1. It is called for each request.
	Nodes func() int

	inFlight Shares // inFlight counts the requests of each merchant.

	mu    sync.Mutex
	rates map[string]*rate.Limiter // rates has the limiter of each merchant that has a rate.
}

// isLimited reports whether the limits of merchants count for a request. What fetches a result is never refused for
// them.
func isLimited(c shed.Priority) bool { return c != shed.High }

// allow reports whether the rate of a merchant allows one more request and, if not, after how many seconds the merchant
// may try again.
func (l *MerchantLimits) allow(m *account.Merchant) (wait int, ok bool) {
	if l == nil || m.Rate.Count == 0 {
		return 0, true
	}
	perSecond := m.Rate.PerSecond() / float64(l.Nodes())
	if l.limiterOf(m.Name, rate.Limit(perSecond)).Allow() {
		return 0, true
	}
	return max(1, int(math.Ceil(1/perSecond))), false
}

// limiterOf returns the limiter of a merchant with the present limit.
func (l *MerchantLimits) limiterOf(merchant string, perSecond rate.Limit) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.rates[merchant]
	switch burst := max(1, int(math.Ceil(float64(perSecond)))); {
	case limiter == nil:
		if l.rates == nil {
			l.rates = make(map[string]*rate.Limiter)
		}
		limiter = rate.NewLimiter(perSecond, burst)
		l.rates[merchant] = limiter
	case limiter.Limit() != perSecond:
		limiter.SetLimit(perSecond)
		limiter.SetBurst(burst)
	}
	return limiter
}

// startRequest counts one more request in flight and returns true, unless the merchant would have more than it may.
// endRequest takes back what startRequest has counted.
func (l *MerchantLimits) startRequest(m *account.Merchant) bool {
	if l == nil {
		return true
	}
	most := int64(0) // no limit
	if m.InFlight > 0 {
		nodes := l.Nodes()
		most = int64((m.InFlight + nodes - 1) / nodes)
	}
	return l.inFlight.reserve(m.Name, 1, most)
}

// endRequest counts one request in flight less.
func (l *MerchantLimits) endRequest(merchant string) {
	if l != nil {
		l.inFlight.release(merchant, 1)
	}
}

// writeMerchantLimited answers a request that a limit of its merchant refuses.
func (h *Handler) writeMerchantLimited(w http.ResponseWriter, r *http.Request, ep *endpoint) {
	h.countRefusal(r, MerchantInFlight)
	setRetryAfter(w)
	ep.protocol.writeFailure(h, w, r, merchantLimited)
}

// checkMerchantRate refuses a request that begins or continues an authentication beyond the rate of its merchant.
func (h *Handler) checkMerchantRate(w http.ResponseWriter, r *http.Request, m *account.Merchant) *failure {
	if !isLimited(classOf(pathOf(r))) {
		return nil
	}
	wait, ok := h.MerchantLimits.allow(m)
	if ok {
		return nil
	}
	h.countRefusal(r, MerchantRate)
	w.Header().Set("Retry-After", strconv.Itoa(wait))
	return merchantLimited
}
