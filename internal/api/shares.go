package api

import "sync"

// Shares counts the places in flight of each merchant, so that one merchant cannot have all of them. Its zero value is ready
// to use.
type Shares struct {
	mu     sync.Mutex
	places map[string]int64
}

// take takes places of a merchant, unless it has more than most then.
func (s *Shares) take(merchant string, places, most int64) bool {
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

// give gives places of a merchant back.
func (s *Shares) give(merchant string, places int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places[merchant] -= places; s.places[merchant] == 0 {
		delete(s.places, merchant)
	}
}
