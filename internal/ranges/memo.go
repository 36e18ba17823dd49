package ranges

import "sync/atomic"

// A memo is what the user of a table has made of an Info, for an owner.
type memo struct {
	owner any
	text  []byte
	// room is where text lies if it fits: right behind its header, so that a look-up
	// waits once for the memory of both.
	room [984]byte
}

// memos are those of a table, by the number of the Info. They are not in the
// Infos, which a look-up need not touch if there is a memo.
type memos []atomic.Pointer[memo]

// Memo returns what was remembered of the hit for an owner, nil when nothing was.
// The text is shared: read only. It goes with the generation.
func (h *Hit) Memo(owner any) []byte {
	if h.memo == nil {
		return nil
	}
	if m := h.memo.Load(); m != nil && m.owner == owner {
		return m.text
	}
	return nil
}

// Remember keeps a copy of text with all that the hit's directory server says the
// same of, in place of that for another owner. A Hit that is not of Schemes keeps
// nothing.
func (h *Hit) Remember(owner any, text []byte) {
	if h.memo == nil {
		return
	}
	m := &memo{owner: owner}
	m.text = append(m.room[:0], text...)
	h.memo.Store(m)
}
