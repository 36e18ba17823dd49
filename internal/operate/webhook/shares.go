package webhook

import "sync"

// How many attempts may be under way at the same time on a node. However slow or dead one merchant's endpoints are,
// they leave places for those of others, and a dead endpoint leaves places for the merchant's other ones.
const (
	maxInFlight    = 64
	maxPerMerchant = maxInFlight / 4
	maxPerEndpoint = 4 // once it has answered well; before that, and after a failure, one

	// maxProbes is how many of a merchant's places are for endpoints that have failed probeAfter times in a row. Each of
	// them has one attempt at a time.
	maxProbes  = 4
	probeAfter = 3
)

// claimLen is how many deliveries are claimed in one call.
const claimLen = 4

// MaxEndpoints is how many endpoints a merchant may have.
const MaxEndpoints = 16

// A share is what one endpoint does of the attempts of a node.
type share struct {
	merchant string
	inFlight int
	failures int  // in a row, since the last success
	isGood   bool // an attempt has succeeded, and none has failed since
}

func (s *share) limit() int {
	if s.isGood {
		return maxPerEndpoint
	}
	return 1
}

func (s *share) isProbed() bool { return s.failures >= probeAfter }

// shares are those of all endpoints for which there was an attempt. Their zero value is ready to use.
type shares struct {
	mu        sync.Mutex
	inFlight  int
	endpoints map[string]*share
	merchants map[string]int // attempts under way
}

// probes counts the attempts to a merchant's endpoints that fail again and again. The caller holds the mutex.
func (s *shares) probes(merchant string) (n int) {
	for _, e := range s.endpoints {
		if e.merchant == merchant && e.isProbed() {
			n += e.inFlight
		}
	}
	return n
}

// findBusy returns the endpoints that have no place left, and for how many more attempts there is room. all are the
// endpoints of the merchants. findBusy forgets an endpoint that is no longer among them and has no attempt under way.
func (s *shares) findBusy(all *endpoints) (busy []string, free int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	probes := make(map[string]int)
	for id, e := range s.endpoints {
		if all.find(id) == nil && !isOperator(id) && e.inFlight == 0 {
			delete(s.endpoints, id)
		} else if e.isProbed() {
			probes[e.merchant] += e.inFlight
		}
	}
	for id, e := range s.endpoints {
		isFull := s.merchants[e.merchant]+claimLen > maxPerMerchant
		if e.inFlight >= e.limit() || e.isProbed() && probes[e.merchant] >= maxProbes || isFull && isOperator(id) {
			busy = append(busy, id)
		}
	}
	for merchant, n := range s.merchants {
		if n+claimLen > maxPerMerchant {
			for _, e := range all.of(merchant) {
				busy = append(busy, e.ID)
			}
		}
	}
	return busy, min(maxInFlight-s.inFlight, claimLen)
}

// takePlace takes a place for an attempt. It returns false if the endpoint has none left.
func (s *shares) takePlace(endpoint, merchant string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endpoints == nil {
		s.endpoints, s.merchants = make(map[string]*share), make(map[string]int)
	}
	e := s.endpoints[endpoint]
	if e == nil {
		e = &share{merchant: merchant}
		s.endpoints[endpoint] = e
	}
	if e.inFlight >= e.limit() || e.isProbed() && s.probes(e.merchant) >= maxProbes {
		return false
	}
	e.inFlight++
	s.inFlight++
	s.merchants[e.merchant]++
	return true
}

// freePlace gives the place of an attempt back.
func (s *shares) freePlace(endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.endpoints[endpoint]
	e.inFlight--
	s.inFlight--
	if s.merchants[e.merchant]--; s.merchants[e.merchant] == 0 {
		delete(s.merchants, e.merchant)
	}
}

// noteResult notes how an attempt has ended.
func (s *shares) noteResult(endpoint string, hasSucceeded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.endpoints[endpoint]
	if e == nil {
		return
	}
	if e.isGood = hasSucceeded; hasSucceeded {
		e.failures = 0
	} else {
		e.failures++
	}
}
