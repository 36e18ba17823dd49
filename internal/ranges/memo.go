package ranges

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A memo is what the user of a table has made of an Info: a text, for an owner. Of
// thousands of Infos most differ in an address alone. So a memo has that, and the
// text around it is shared: what the thousands have is small enough to stay in the
// caches, and what a look-up has to wait for is in one place.
type memo struct {
	frame *frame
	part  []byte
	room  [96]byte // where part lies if it fits
}

// A frame is the text around the parts: there is one between two pieces.
type frame struct {
	owner  any
	pieces []string
}

// memos are those of a table. They are not in the Infos, which a look-up need not
// touch if there is a memo.
type memos struct {
	of []atomic.Pointer[memo] // by the number of the Info

	mu     sync.Mutex
	owner  any               // of the frames
	frames map[uint64]*frame // by a hash of the pieces
	seed   maphash.Seed
}

func newMemos(infos int) *memos {
	return &memos{of: make([]atomic.Pointer[memo], infos), seed: maphash.MakeSeed()}
}

// AppendMemo appends what was remembered of the hit for an owner to dst, and reports
// whether anything was.
func (h *Hit) AppendMemo(dst []byte, owner any) ([]byte, bool) {
	if h.memos == nil {
		return dst, false
	}
	m := h.memos.of[h.at].Load()
	if m == nil || m.frame.owner != owner {
		return dst, false
	}
	for i, piece := range m.frame.pieces {
		if i > 0 {
			dst = append(dst, m.part...)
		}
		dst = append(dst, piece...)
	}
	return dst, true
}

// Remember keeps a text with all that the hit's directory server says the same of, in
// place of that for another owner. The part is the piece of the text that differs from
// one Info to the next, wherever it stands in it; it may be empty. A Hit that is not of
// Schemes keeps nothing.
func (h *Hit) Remember(owner any, text []byte, part string) {
	if h.memos == nil {
		return
	}
	pieces := []string{string(text)}
	if part != "" {
		pieces = strings.Split(pieces[0], part)
	}
	m := &memo{frame: h.memos.frame(owner, pieces)}
	m.part = append(m.room[:0], part...)
	h.memos.of[h.at].Store(m)
}

// frame is the one that has these pieces. Those of another owner are let go.
func (m *memos) frame(owner any, pieces []string) *frame {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owner != owner || m.frames == nil {
		m.owner, m.frames = owner, make(map[uint64]*frame)
	}
	var h maphash.Hash
	h.SetSeed(m.seed)
	for _, piece := range pieces {
		_, _ = h.WriteString(piece) // never fails
		_ = h.WriteByte(0)
	}
	if f := m.frames[h.Sum64()]; f != nil && slices.Equal(f.pieces, pieces) {
		return f
	}
	f := &frame{owner, pieces}
	m.frames[h.Sum64()] = f
	return f
}
