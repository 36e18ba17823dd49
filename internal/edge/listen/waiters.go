package listen

import "sync"

// Waiters counts requests that wait, by the party that they belong to: a merchant, or the token of a shopper. So one
// party cannot take all places. Its zero value lets every request wait.
type Waiters struct {
	Max int // for one party; 0 means that there is no limit

	mu     sync.Mutex
	counts map[string]int
}

// Enter takes a place for a request of a party. It returns false if the party already has Max places: then answer the
// request with the present state. Otherwise call leave when the request no longer waits.
func (w *Waiters) Enter(party string) (leave func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Max > 0 && w.counts[party] >= w.Max {
		return nil, false
	}
	if w.counts == nil {
		w.counts = make(map[string]int)
	}
	w.counts[party]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.counts[party]--; w.counts[party] == 0 {
			delete(w.counts, party)
		}
	}, true
}
