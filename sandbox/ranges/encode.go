package ranges

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"

	"github.com/openthreeds/threeds/sandbox/internal/peer"
)

// An item is one range of cardRangeData, before it is JSON.
type item struct {
	bounds
	about  *about
	action string          // A, M or D
	raw    json.RawMessage // stands for the whole entry when it is set
}

// chunk is about how many bytes a streamed body is made of at a time.
const chunk = 32 << 10

// newAbout prepares what a range has besides its bounds. The JSON members are made when they are first sent.
func (r *Set) newAbout(c Range) *about {
	a := &about{Range: c, tails: make(map[string]func() []byte, 3)}
	for _, version := range peer.Versions() {
		a.tails[version] = sync.OnceValue(func() []byte {
			members := c.members(version)
			if !r.o.Nice {
				members.PutUnknownNull()
			}
			return append([]byte{','}, members.Members()...)
		})
	}
	return a
}

func (c Range) versions() []string {
	if len(c.Versions) == 0 {
		return peer.Versions()
	}
	return c.Versions
}

// members are those of an entry of cardRangeData besides the bounds.
func (c Range) members(version string) *peer.Object {
	l := new(peer.Object)
	if version == peer.V231 {
		l.Put("acsProtocolVersions", c.acsProtocolVersions())
		l.Put("issuerCountryCode", c.Country)
		if c.DSVersions != nil {
			l.Put("dsProtocolVersions", c.DSVersions)
		}
		return l
	}
	all := c.versions()
	l.Put("acsStartProtocolVersion", all[0])
	l.Put("acsEndProtocolVersion", all[len(all)-1])
	if n := len(c.DSVersions); n > 0 {
		l.Put("dsStartProtocolVersion", c.DSVersions[0])
		l.Put("dsEndProtocolVersion", c.DSVersions[n-1])
	}
	l.Put("threeDSMethodURL", c.MethodURL)
	if version == peer.V220 && c.Info != nil {
		l.Put("acsInfoInd", c.Info)
	}
	return l
}

// acsProtocolVersions are the entries of 2.3.1, in no helpful order.
func (c Range) acsProtocolVersions() (all []json.RawMessage) {
	for _, v := range slices.Backward(c.versions()) {
		l := new(peer.Object)
		l.Put("version", v)
		info := c.Info
		if v == peer.V231 && c.Confirms {
			info = append(slices.Clone(info), "07")
		}
		if v != peer.V210 && info != nil {
			l.Put("acsInfoInd", info)
		}
		l.Put("threeDSMethodURL", c.MethodURL)
		if c.Extensions != nil {
			l.Put("supportedMsgExt", c.Extensions)
		}
		all = append(all, l.Bytes())
	}
	return all
}

// A writer makes JSON of items and hands it out in chunks. A chunk is good
// until the next one is asked for.
type writer struct {
	version  string
	together int  // bounds that share an entry in 2.3.1; zero for what is usual
	bare     bool // additions do not say so
	yield    func([]byte) bool
	buf      []byte
	ended    bool

	last  item // of the entry that is open
	pairs int  // bounds in it; 0 when none is open
	first bool // no entry came yet
}

// entries writes an array.
func (w *writer) entries(items iter.Seq[item]) {
	w.buf = append(w.buf, '[')
	w.first, w.pairs = true, 0
	for it := range items {
		w.entry(it)
		if w.flush(chunk); w.ended {
			return
		}
	}
	w.end()
	w.buf = append(w.buf, ']')
}

func (w *writer) entry(it item) {
	if w.pairs > 0 && w.joins(it) {
		w.buf = append(w.buf, ',')
		w.pair(it, "start", "end")
		w.pairs++
		return
	}
	w.end()
	if !w.first {
		w.buf = append(w.buf, ',')
	}
	w.first = false
	switch {
	case it.raw != nil:
		w.buf = append(w.buf, it.raw...)
		return
	case w.version == peer.V231:
		w.buf = append(w.buf, `{"ranges":[`...)
		w.pair(it, "start", "end")
	default:
		w.pair(it, "startRange", "endRange")
		w.buf = w.buf[:len(w.buf)-1]
	}
	w.last, w.pairs = it, 1
}

// joins says whether a range goes into the entry that is open.
func (w *writer) joins(it item) bool {
	most := w.together
	if most == 0 {
		most = 1
		if w.last.about.generated {
			most = 5000
		}
	}
	return w.version == peer.V231 && it.raw == nil && it.about == w.last.about && it.action == w.last.action &&
		w.pairs < most
}

func (w *writer) pair(it item, start, end string) {
	w.buf = append(w.buf, '{', '"')
	w.buf = append(w.buf, start...)
	w.buf = append(w.buf, `":"`...)
	w.buf = append(w.buf, it.start...)
	w.buf = append(w.buf, `","`...)
	w.buf = append(w.buf, end...)
	w.buf = append(w.buf, `":"`...)
	w.buf = append(w.buf, it.end...)
	w.buf = append(w.buf, '"', '}')
}

// end closes the entry that is open.
func (w *writer) end() {
	if w.pairs == 0 {
		return
	}
	w.pairs = 0
	if w.version == peer.V231 {
		w.buf = append(w.buf, ']')
	}
	if !w.bare || w.last.action != "A" {
		w.buf = append(w.buf, `,"actionInd":"`...)
		w.buf = append(w.buf, w.last.action...)
		w.buf = append(w.buf, '"')
	}
	w.buf = append(w.buf, w.last.about.tails[w.version]()...)
	w.buf = append(w.buf, '}')
}

// flush hands out what there is if it is at least that much.
func (w *writer) flush(least int) {
	if len(w.buf) >= least && len(w.buf) > 0 && !w.ended {
		w.ended = !w.yield(w.buf)
		w.buf = w.buf[:0]
	}
}

// entry is the item as an entry of its own.
func (it item) entry(version string) json.RawMessage {
	w := &writer{version: version, first: true}
	w.entry(it)
	w.end()
	return w.buf
}

// A body is a text in chunks, each good until the next. It is the same each
// time it is gone through.
type body = iter.Seq[[]byte]

// zipped is a body under gzip.
func zipped(parts body) body {
	return func(yield func([]byte) bool) {
		var out bytes.Buffer
		z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // the level is a good one
		for part := range parts {
			_, _ = z.Write(part) // a bytes.Buffer does not fail
			if out.Len() < chunk {
				continue
			}
			if !yield(out.Bytes()) {
				return
			}
			out.Reset()
		}
		_ = z.Close()
		yield(out.Bytes())
	}
}

// cut is the first n bytes of a body.
func cut(parts body, n int64) body {
	return func(yield func([]byte) bool) {
		left := n
		for part := range parts {
			if int64(len(part)) >= left {
				yield(part[:left])
				return
			}
			if left -= int64(len(part)); !yield(part) {
				return
			}
		}
	}
}

func singleChunk(text []byte) body {
	return func(yield func([]byte) bool) { yield(text) }
}

func size(parts body) int64 {
	var n int64
	for part := range parts {
		n += int64(len(part))
	}
	return n
}

func whole(parts body) []byte {
	var all []byte
	for part := range parts {
		all = append(all, part...)
	}
	return all
}

// A seeker reads a body from any place: what lies before it is made and thrown
// away.
type seeker struct {
	parts body
	size  int64
	want  int64 // where the next Read is
	at    int64 // where part begins
	part  []byte
	next  func() ([]byte, bool)
	stop  func()
}

func (s *seeker) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.want
	case io.SeekEnd:
		offset += s.size
	}
	if offset < 0 {
		return 0, errors.New("before the beginning")
	}
	s.want = offset
	return offset, nil
}

func (s *seeker) Read(into []byte) (int, error) {
	if s.next == nil || s.want < s.at {
		s.Close()
		s.next, s.stop = iter.Pull(s.parts)
		s.at, s.part = 0, nil
	}
	for s.want >= s.at+int64(len(s.part)) {
		s.at += int64(len(s.part))
		part, more := s.next()
		if !more {
			s.part = nil
			return 0, io.EOF
		}
		s.part = part
	}
	n := copy(into, s.part[s.want-s.at:])
	s.want += int64(n)
	return n, nil
}

// Close ends the current pass. The next Read starts from the beginning.
func (s *seeker) Close() {
	if s.stop != nil {
		s.stop()
	}
	s.next, s.stop = nil, nil
}
