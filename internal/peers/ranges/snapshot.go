package ranges

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"time"

	"github.com/openthreeds/threeds/message"
)

// A snapshot is a generation as bytes:
//
//	magic, version of the format
//	block 'H': what the generation says beside its ranges, and how many there are
//	blocks 'I': the different Infos
//	blocks 'R': a lane, then ranges of it in order
//	block 'E': SHA-256 of all before it
//
// A block is its kind, the length of its content in four bytes, the content,
// and a CRC-32C of all that. Numbers are varints where nothing else is said.
const (
	magic        = "3dsranges"
	formatNumber = 1
	maxBlock     = 16 << 20
)

// Errors of ReadGeneration.
var (
	ErrSnapshot       = errors.New("snapshot is damaged")
	ErrSnapshotFormat = errors.New("snapshot is of another format")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// WriteTo writes the generation as a snapshot.
func (g *Generation) WriteTo(w io.Writer) (int64, error) {
	s := snapshotWriter{w: w, sum: sha256.New()}
	s.write(append([]byte(magic), formatNumber))
	t := g.Table
	if t == nil {
		t = &Table{}
	}
	s.block('H', g.appendHead(nil, t))
	var b []byte
	for _, info := range t.infos {
		if b = appendInfo(b, info); len(b) > blockSize {
			s.block('I', b)
			b = b[:0]
		}
	}
	if len(b) > 0 {
		s.block('I', b)
	}
	for i := range t.lanes {
		b = append(b[:0], byte(i))
		before := segment{}
		for k := range t.lanes[i].ranges {
			r := &t.lanes[i].ranges[k]
			if len(b)+longest > blockSize {
				s.block('R', b)
				b, before = append(b[:0], byte(i)), segment{}
			}
			now := segment{r.start(), r.end(), r.info}
			b = appendRange(b, before, now)
			before = now
		}
		if len(b) > 1 {
			s.block('R', b)
		}
	}
	s.block('E', s.sum.Sum(nil))
	return s.n, s.err
}

func (g *Generation) appendHead(b []byte, t *Table) []byte {
	b = appendText(appendText(b, g.Scheme), g.Serial)
	b = append(b, byte(g.Version-message.V210))
	var at int64
	if !g.Loaded.IsZero() {
		at = g.Loaded.UnixNano()
	}
	b = binary.AppendVarint(b, at)
	b = appendText(appendText(b, g.DS.Start), g.DS.End)
	b = appendTexts(b, g.DS.Versions)
	b = binary.AppendUvarint(b, uint64(len(g.DSURLs)))
	for _, u := range g.DSURLs {
		b = appendText(appendText(b, u.URL), u.Country)
	}
	b = binary.AppendUvarint(b, uint64(len(t.infos)))
	for i := range t.lanes {
		b = binary.AppendUvarint(b, uint64(len(t.lanes[i].ranges)))
	}
	return b
}

type snapshotWriter struct {
	w   io.Writer
	sum hash.Hash
	buf []byte
	n   int64
	err error
}

func (s *snapshotWriter) block(kind byte, content []byte) {
	s.buf = append(s.buf[:0], kind)
	s.buf = binary.LittleEndian.AppendUint32(s.buf, uint32(len(content)))
	s.buf = append(s.buf, content...)
	s.buf = binary.LittleEndian.AppendUint32(s.buf, crc32.Checksum(s.buf, castagnoli))
	s.write(s.buf)
}

func (s *snapshotWriter) write(b []byte) {
	if s.err != nil {
		return
	}
	n, err := s.w.Write(b)
	s.n, s.err = s.n+int64(n), err
	s.sum.Write(b)
}

// ReadGeneration reads a snapshot, to its end. The error is ErrSnapshot,
// ErrSnapshotFormat or one of r. What is read is checked like a new set, and no
// more memory is taken than what was read is worth.
func ReadGeneration(r io.Reader) (*Generation, error) {
	s := snapshotReader{r: r, sum: sha256.New()}
	start := make([]byte, len(magic)+1)
	if err := s.fill(start); err != nil {
		return nil, err
	}
	if string(start[:len(magic)]) != magic {
		return nil, ErrSnapshot
	}
	if start[len(magic)] != formatNumber {
		return nil, ErrSnapshotFormat
	}
	for {
		before := s.sum.Sum(nil)
		kind, content, err := s.block()
		if err != nil {
			return nil, err
		}
		isGood := false
		switch {
		case s.g == nil:
			isGood = kind == 'H' && s.head(content)
		case kind == 'I':
			isGood = s.infos(content)
		case kind == 'R':
			isGood = s.ranges(content)
		case kind == 'E' && bytes.Equal(content, before):
			return s.end()
		}
		if !isGood {
			return nil, ErrSnapshot
		}
	}
}

type snapshotReader struct {
	r   io.Reader
	sum hash.Hash
	buf []byte

	g     *Generation
	known interner
	want  struct {
		infos  uint64
		ranges [laneCount]uint64
	}
	tapes [laneCount]tape
}

// fill reads as much as b holds.
func (s *snapshotReader) fill(b []byte) error {
	_, err := io.ReadFull(s.r, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return ErrSnapshot
	}
	s.sum.Write(b)
	return err
}

// block reads a block. The content holds until the next one.
func (s *snapshotReader) block() (kind byte, content []byte, err error) {
	const front, back = 5, 4
	s.buf = append(s.buf[:0], make([]byte, front)...)
	if err := s.fill(s.buf); err != nil {
		return 0, nil, err
	}
	size := int(binary.LittleEndian.Uint32(s.buf[1:]))
	if size > maxBlock {
		return 0, nil, ErrSnapshot
	}
	for left := size + back; left > 0; { // no more at once than what a block of ours takes
		n, at := min(left, blockSize+longest), len(s.buf)
		s.buf = append(s.buf, make([]byte, n)...)
		if err := s.fill(s.buf[at:]); err != nil {
			return 0, nil, err
		}
		left -= n
	}
	if binary.LittleEndian.Uint32(s.buf[front+size:]) != crc32.Checksum(s.buf[:front+size], castagnoli) {
		return 0, nil, ErrSnapshot
	}
	return s.buf[0], s.buf[front : front+size], nil
}

func (s *snapshotReader) head(content []byte) bool {
	r := textReader{b: content}
	g := &Generation{Scheme: r.text(), Serial: r.text()}
	g.Version = message.Version(r.byte()) + message.V210
	if at := r.signed(); at != 0 {
		g.Loaded = time.Unix(0, at).UTC()
	}
	g.DS = DS{Start: r.text(), End: r.text(), Versions: r.texts()}
	g.DSURLs = readList(&r, func() DSURL { return DSURL{r.text(), r.text()} })
	s.want.infos = r.number()
	for i := range s.want.ranges {
		s.want.ranges[i] = r.number()
	}
	s.g = g
	return !r.bad && len(r.b) == 0 && g.Version <= message.V231
}

func (s *snapshotReader) infos(content []byte) bool {
	r := textReader{b: content}
	for len(r.b) > 0 {
		info := r.info()
		if r.bad || s.known.id(info) != uint32(len(s.known.list)-1) {
			return false
		}
	}
	return !r.bad
}

func (s *snapshotReader) ranges(content []byte) bool {
	if len(content) == 0 || content[0] >= laneCount {
		return false
	}
	t := &s.tapes[content[0]]
	limit := uint64(1)
	for range int(content[0]) + minDigits {
		limit *= 10
	}
	block := bytes.Clone(content[1:])
	last := t.last
	var now segment
	for b, n := block, 0; len(b) > 0; b = b[n:] {
		if now, n = readRange(b, now); n == 0 {
			return false
		}
		if now.start > now.end || now.end >= limit || uint64(now.info) >= uint64(len(s.known.list)) ||
			t.count > 0 && !last.isBefore(now) {
			return false
		}
		last = now
		t.count++
	}
	t.last = last
	t.blocks = append(t.blocks, block)
	return uint64(t.count) <= s.want.ranges[content[0]]
}

// end makes the generation of what was read.
func (s *snapshotReader) end() (*Generation, error) {
	var one [1]byte
	if n, err := io.ReadFull(s.r, one[:]); n > 0 {
		return nil, ErrSnapshot
	} else if err != io.EOF {
		return nil, err
	}
	if uint64(len(s.known.list)) != s.want.infos {
		return nil, ErrSnapshot
	}
	names := make([]uint32, len(s.known.list))
	for i := range names {
		names[i] = uint32(i)
	}
	var parts [laneCount]rows
	bad := &OverlapError{}
	for i := range s.tapes {
		if uint64(s.tapes[i].count) != s.want.ranges[i] {
			return nil, ErrSnapshot
		}
		parts[i] = s.tapes[i].sorted(names)
		s.tapes[i] = tape{}
		parts[i].findOverlaps(false, i+minDigits, bad)
	}
	if len(bad.Pairs) > 0 {
		return nil, ErrSnapshot
	}
	s.g.Table = newTable(parts, s.known.list)
	return s.g, nil
}
