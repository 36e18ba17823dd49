package directory

import "sync"

// merchantPlaces limits how many messages of each merchant are on their way to one directory server, so that one
// merchant whose cards get no answer leaves places for the others.
type merchantPlaces struct {
	max int // messages of one merchant

	mu    sync.Mutex
	inUse map[string]int // by merchant; a merchant without messages is not in it
}

// acquire takes a place of a merchant. The returned function gives it back; further calls of it do nothing. If ok is
// false, the merchant has no place left.
func (m *merchantPlaces) acquire(merchant string) (leave func(), ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inUse[merchant] >= m.max {
		return nil, false
	}
	if m.inUse == nil {
		m.inUse = make(map[string]int)
	}
	m.inUse[merchant]++
	return sync.OnceFunc(func() { m.release(merchant) }), true
}

func (m *merchantPlaces) release(merchant string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inUse[merchant]--; m.inUse[merchant] == 0 {
		delete(m.inUse, merchant)
	}
}
