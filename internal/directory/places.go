package directory

import "sync"

// merchantPlaces limits how many messages of each merchant are on their way to one directory server, so that one
// merchant whose cards get no answer leaves places for the others.
type merchantPlaces struct {
	most int // of one merchant

	mu    sync.Mutex
	taken map[string]int // by merchant; none are left out
}

// take takes a place of a merchant and returns the function that gives it back; to call that again does nothing. Not
// ok means that the merchant has none left.
func (m *merchantPlaces) take(merchant string) (leave func(), ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken[merchant] >= m.most {
		return nil, false
	}
	if m.taken == nil {
		m.taken = make(map[string]int)
	}
	m.taken[merchant]++
	return sync.OnceFunc(func() { m.giveBack(merchant) }), true
}

func (m *merchantPlaces) giveBack(merchant string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken[merchant]--; m.taken[merchant] == 0 {
		delete(m.taken, merchant)
	}
}
