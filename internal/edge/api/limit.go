package api

import (
	"crypto/sha256"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A Limiter limits the rate of requests of each API key. It keeps digests of keys and no
// keys, and forgets a key that was not used for a while, such as one that was revoked. A nil
// Limiter allows everything. It is safe for concurrent use.
type Limiter struct {
	perSecond rate.Limit
	burst     int

	mu     sync.Mutex
	keys   map[keyDigest]*rate.Limiter
	pruned time.Time // when unused keys were last forgotten
}

// A keyDigest stands for an API key, which cannot be computed from it.
type keyDigest [sha256.Size]byte

// pruneInterval is how often a Limiter looks for keys to forget.
const pruneInterval = time.Minute

// NewLimiter allows each key a number of requests per second, and the same number at once.
func NewLimiter(perSecond float64) *Limiter {
	return &Limiter{
		perSecond: rate.Limit(perSecond), burst: max(1, int(math.Ceil(perSecond))),
		keys: make(map[keyDigest]*rate.Limiter),
	}
}

// Allow reports whether a request with key may go on and, if not, after how many seconds the client may try again.
func (l *Limiter) Allow(key string) (wait int, ok bool) {
	if l == nil || l.limiterOf(sha256.Sum256([]byte(key))).Allow() {
		return 0, true
	}
	return max(1, int(math.Ceil(1/float64(l.perSecond)))), false
}

func (l *Limiter) limiterOf(key keyDigest) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.pruned) >= pruneInterval {
		l.prune(now)
		l.pruned = now
	}
	limiter := l.keys[key]
	if limiter == nil {
		limiter = rate.NewLimiter(l.perSecond, l.burst)
		l.keys[key] = limiter
	}
	return limiter
}

// prune forgets the keys whose allowance is full again, as that of a new key is.
func (l *Limiter) prune(now time.Time) {
	for key, limiter := range l.keys {
		if limiter.TokensAt(now) >= float64(l.burst) {
			delete(l.keys, key)
		}
	}
}
