package journal

import "time"

// A claimQueue has the claims whose answer may be written in their place, the oldest first. Its zero value is empty.
// Only the writer uses it.
type claimQueue struct {
	order   []*waitingClaim // some of them are not in waiting any more
	waiting map[string]*waitingClaim
}

// A waitingClaim is written at a time unless it is removed before.
type waitingClaim struct {
	id    string
	until time.Time
	build func() []Entry
}

func (q *claimQueue) len() int { return len(q.waiting) }

// push adds a claim, in place of an older one of the same authentication.
func (q *claimQueue) push(c *waitingClaim) {
	if q.waiting == nil {
		q.waiting = map[string]*waitingClaim{}
	}
	q.waiting[c.id] = c
	q.order = append(q.order, c)
	q.skipRemoved()
}

// remove removes the claim of an authentication, if there is one.
func (q *claimQueue) remove(id string) {
	delete(q.waiting, id)
	q.skipRemoved()
}

// skipRemoved makes the order begin with a claim that waits.
func (q *claimQueue) skipRemoved() {
	for len(q.order) > 0 && q.waiting[q.order[0].id] != q.order[0] {
		q.order[0] = nil
		q.order = q.order[1:]
	}
}

// pop removes the oldest claim and returns how its entry is made. There has to be one.
func (q *claimQueue) pop() func() []Entry {
	oldest := q.order[0]
	q.remove(oldest.id)
	return oldest.build
}

// isDue reports whether the oldest claim has waited long enough.
func (q *claimQueue) isDue(now time.Time) bool {
	return len(q.order) > 0 && !q.order[0].until.After(now)
}

// due returns a channel that is ready when the oldest claim has waited long enough; nil if there is none.
func (q *claimQueue) due() <-chan time.Time {
	if len(q.order) == 0 {
		return nil
	}
	return time.After(time.Until(q.order[0].until))
}
