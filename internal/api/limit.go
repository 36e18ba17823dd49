package api

import (
	"math"
	"sync"

	"golang.org/x/time/rate"
)

// A Limiter bounds the requests of each key. It is asked for good keys only,
// so that it never holds more limiters than there are keys. A nil Limiter lets
// everything pass.
type Limiter struct {
	perSecond rate.Limit
	burst     int
	keys      sync.Map // string → *rate.Limiter
}

// NewLimiter allows each key so many requests per second, and as many at once.
func NewLimiter(perSecond float64) *Limiter {
	return &Limiter{perSecond: rate.Limit(perSecond), burst: max(1, int(math.Ceil(perSecond)))}
}

// Allow reports whether key may go on; if not, after how many seconds it is
// worth another try.
func (l *Limiter) Allow(key string) (wait int, ok bool) {
	if l == nil {
		return 0, true
	}
	v, ok := l.keys.Load(key)
	if !ok {
		v, _ = l.keys.LoadOrStore(key, rate.NewLimiter(l.perSecond, l.burst))
	}
	if v.(*rate.Limiter).Allow() {
		return 0, true
	}
	return max(1, int(math.Ceil(1/float64(l.perSecond)))), false
}
