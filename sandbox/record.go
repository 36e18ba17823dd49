package sandbox

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// An Exchange is one message that passed between two parties, as it stood on
// the wire.
type Exchange struct {
	At   time.Time `json:"at"`
	From string    `json:"from"` // "server", "acs", "browser", or "ds" and the scheme
	To   string    `json:"to"`
	Type string    `json:"type"` // messageType; "threeDSMethodData" for the 3DS Method
	Body string    `json:"body"` // raw; what a browser carries, with its base64url taken off
	// what was wrong with it, or would be elsewhere, or, with no Body, that no answer came
	Note string `json:"note,omitempty"`
}

// A journal remembers the newest transactions and their messages.
type journal struct {
	keep int

	mu      sync.Mutex
	pages   map[string]*journalEntry // by each of the transaction's ids
	order   []*journalEntry          // oldest first
	methods map[string]bool          // threeDSServerTransIDs whose 3DS Method has completed
	ran     []string                 // the same, oldest first
}

// A journalEntry is one transaction and its messages.
type journalEntry struct {
	ids []string
	all []Exchange
	txn *transaction
}

func newJournal(keep int) *journal {
	return &journal{keep: keep, pages: make(map[string]*journalEntry), methods: make(map[string]bool)}
}

// entryOf returns the page of an id and opens one when there is none. The caller
// holds the lock.
func (b *journal) entryOf(id string) *journalEntry {
	if p := b.pages[id]; p != nil {
		return p
	}
	p := &journalEntry{ids: []string{id}}
	b.pages[id] = p
	b.order = append(b.order, p)
	for len(b.order) > b.keep {
		for _, old := range b.order[0].ids {
			delete(b.pages, old)
		}
		b.order = b.order[1:]
	}
	return p
}

// keepBody is how much of a message is written down.
const keepBody = 64 << 10

// record writes down a message that passed at this moment, the beginning of a long one, or a note in place of one. A
// message without an id is kept nowhere.
func (s *Sandbox) record(id, from, to, kind string, body []byte, note string) {
	if id == "" {
		return
	}
	if len(body) > keepBody {
		body, note = body[:keepBody], strings.TrimPrefix(note+"; only its first 65536 bytes", "; ")
	}
	e := Exchange{At: s.Now().UTC(), From: from, To: to, Type: kind, Body: string(body), Note: note}
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	p := s.journal.entryOf(id)
	p.all = append(p.all, e)
}

// warnOf logs what is accepted here and may be refused elsewhere, and returns it for the journal.
func (s *Sandbox) warnOf(id, what string) string {
	if what != "" {
		s.log.Warn("taken here, and may be refused by others", "threeDSServerTransID", id, "what", what)
	}
	return what
}

// open enters a transaction under the server's id. It is false when that id
// already has one.
func (b *journal) open(t *transaction) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.entryOf(t.ids.server)
	if p.txn != nil {
		return false
	}
	p.txn = t
	for _, id := range []string{t.ids.ds, t.ids.acs} {
		p.ids = append(p.ids, id)
		b.pages[id] = p
	}
	return true
}

// transaction finds one by any of its ids.
func (b *journal) transaction(id string) *transaction {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.pages[id]; p != nil {
		return p.txn
	}
	return nil
}

func (b *journal) exchanges(id string) []Exchange {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.pages[id]; p != nil {
		return slices.Clone(p.all)
	}
	return nil
}

// latest is the server's ids of the newest n transactions, newest first.
func (b *journal) latest(n int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for i := len(b.order) - 1; i >= 0 && len(ids) < n; i-- {
		ids = append(ids, b.order[i].ids[0])
	}
	return ids
}

// methodRan remembers that the 3DS Method completed for an id, methodDone asks.
func (b *journal) methodRan(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.methods[id] {
		return
	}
	b.methods[id] = true
	if b.ran = append(b.ran, id); len(b.ran) > b.keep {
		delete(b.methods, b.ran[0])
		b.ran = b.ran[1:]
	}
}

func (b *journal) methodDone(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.methods[id]
}
