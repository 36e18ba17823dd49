package ranges

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A memo is a text that the user of a table has made of an Info, for an owner. Of
// thousands of Infos most differ in an address alone. So a memo holds only that part, and
// shares the text around it: then thousands of memos fit into the processor's caches, and
// each is in one place.
type memo struct {
	frame *frame
	part  []byte
	room  [96]byte // where part lies if it fits
}

// A frame is the text around the part, which stands between each two pieces.
type frame struct {
	owner  any
	pieces []string
}

// memos are those of a table. They are kept apart from the Infos, so that a look-up that
// finds a memo need not touch the Info.
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

// Remember keeps a text for AppendMemo, for all ranges that share the hit's Info. A text
// of another owner is replaced. Part is what differs from one Info to the next, wherever
// it stands in the text; it may be empty. A Hit that does not come from Schemes remembers
// nothing.
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

// frame returns the frame with these pieces. It forgets the frames of another owner.
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
