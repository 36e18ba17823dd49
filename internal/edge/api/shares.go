package api

import "sync"

// Shares counts the places in flight of each merchant, so that one merchant cannot have all of them. Its zero
// value is ready to use.
type Shares struct {
	mu     sync.Mutex
	places map[string]int64
}

// reserve counts places for a merchant and returns true, unless the merchant would have more than most.
func (s *Shares) reserve(merchant string, places, most int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if most > 0 && s.places[merchant]+places > most {
		return false
	}
	if s.places == nil {
		s.places = make(map[string]int64)
	}
	s.places[merchant] += places
	return true
}

// release ends the count of places that reserve counted.
func (s *Shares) release(merchant string, places int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places[merchant] -= places; s.places[merchant] == 0 {
		delete(s.places, merchant)
	}
}
