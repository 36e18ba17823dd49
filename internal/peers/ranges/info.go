package ranges

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/message"
)

// An Info is the data of a range, as the directory server sent it. Ranges with the same data share one Info, so an Info
// must not be changed.
type Info struct {
	ACSStart, ACSEnd string       // lowest and highest version of the issuer
	DSStart, DSEnd   string       // the same of the directory server, for this range
	DSVersions       []string     // ascending
	ACS              []ACSVersion // ascending
	IssuerCountry    string       // ISO 3166-1 numeric, from 2.3.1; see Generation.URLs

	own uint8 // which of DSStart and DSEnd the range gives itself
}

const (
	ownStart = 1 << iota
	ownEnd
)

// An ACSVersion is one protocol version that the issuer of a range supports.
type ACSVersion struct {
	Version    string
	MethodURL  string // empty when the issuer has no 3DS Method
	InfoInd    []string
	Extensions []Extension // from 2.3.1
}

// An Extension is a message extension that an issuer's ACS supports.
type Extension struct{ ID, Version string }

// A DS has the protocol versions that a directory server supports.
type DS struct {
	Start, End string
	Versions   []string // ascending
}

// dsOf returns the versions that a PRes gives for all ranges.
func dsOf(m *message.Message, version message.Version) DS {
	if version >= message.V231 {
		return listed(m.Strings("dsProtocolVersions"))
	}
	ds := DS{Start: m.Text("dsStartProtocolVersion"), End: m.Text("dsEndProtocolVersion")}
	ds.Versions = between(ds.Start, ds.End)
	return ds
}

// listed returns the versions of a directory server that were given one by one.
func listed(versions []string) DS {
	ds := DS{Versions: slices.Compact(slices.SortedFunc(slices.Values(versions), compareVersions))}
	if n := len(ds.Versions); n > 0 {
		ds.Start, ds.End = ds.Versions[0], ds.Versions[n-1]
	}
	return ds
}

// under returns info with the versions that ds has, for those that its ranges leave to the
// PRes. They may change while the ranges stay.
func (info *Info) under(ds DS) *Info {
	full := *info
	if info.own&ownStart == 0 {
		full.DSStart = ds.Start
	}
	if info.own&ownEnd == 0 {
		full.DSEnd = ds.End
	}
	switch info.own {
	case 0:
		full.DSVersions = ds.Versions
	case ownStart, ownEnd:
		full.DSVersions = between(full.DSStart, full.DSEnd)
	}
	return &full
}

// between returns the existing protocol versions from start to end.
func between(start, end string) []string {
	var versions []string
	for _, v := range message.Versions() {
		if compareVersions(start, v.String()) <= 0 && compareVersions(v.String(), end) <= 0 {
			versions = append(versions, v.String())
		}
	}
	return versions
}

// isReversed reports whether the last version of the issuer, or of the directory server, is below the
// first one.
func (info *Info) isReversed() bool {
	isBelow := func(end, start string) bool { return end != "" && start != "" && compareVersions(end, start) < 0 }
	return isBelow(info.ACSEnd, info.ACSStart) || info.own == ownStart|ownEnd && isBelow(info.DSEnd, info.DSStart)
}

// compareVersions orders versions by their numbers: 2.10.0 is above 2.2.0.
func compareVersions(x, y string) int {
	return slices.CompareFunc(strings.Split(x, "."), strings.Split(y, "."), func(x, y string) int {
		m, _ := strconv.Atoi(x)
		n, _ := strconv.Atoi(y)
		return cmp.Compare(m, n)
	})
}

// An interner holds each different Info once.
type interner struct {
	list []*Info
	ids  map[string]uint32 // by what they say
	buf  []byte
}

// id returns the number of the Info with the same data as info.
func (n *interner) id(info *Info) uint32 {
	n.buf = appendInfo(n.buf[:0], info)
	id, known := n.ids[string(n.buf)]
	if !known {
		if n.ids == nil {
			n.ids = make(map[string]uint32)
		}
		id = uint32(len(n.list))
		n.ids[string(n.buf)] = id
		n.list = append(n.list, info)
	}
	return id
}

// names returns the numbers of many Infos.
func (n *interner) names(infos []*Info) []uint32 {
	names := make([]uint32, len(infos))
	for i, info := range infos {
		names[i] = n.id(info)
	}
	return names
}

// appendInfo appends an encoded Info to b. Equal Infos have equal encodings.
func appendInfo(b []byte, info *Info) []byte {
	for _, s := range []string{info.ACSStart, info.ACSEnd, info.DSStart, info.DSEnd, info.IssuerCountry} {
		b = appendText(b, s)
	}
	b = append(b, info.own)
	b = appendTexts(b, info.DSVersions)
	b = binary.AppendUvarint(b, uint64(len(info.ACS)))
	for i := range info.ACS {
		v := &info.ACS[i]
		b = appendText(appendText(b, v.Version), v.MethodURL)
		b = appendTexts(b, v.InfoInd)
		b = binary.AppendUvarint(b, uint64(len(v.Extensions)))
		for _, e := range v.Extensions {
			b = appendText(appendText(b, e.ID), e.Version)
		}
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTexts(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendText(b, s)
	}
	return b
}

// A textReader decodes what appendInfo, appendText and appendTexts have encoded. After a fault
// bad is set, and it returns zero values.
type textReader struct {
	b   []byte
	bad bool
}

func (r *textReader) number() uint64 { return readNumber(r, binary.Uvarint) }

func (r *textReader) signed() int64 { return readNumber(r, binary.Varint) }

func readNumber[T uint64 | int64](r *textReader, decode func([]byte) (T, int)) T {
	n, size := decode(r.b)
	if size <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *textReader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	b := r.b[0]
	r.b = r.b[1:]
	return b
}

// length reads how many values follow, each of at least one byte.
func (r *textReader) length() int {
	n := r.number()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}

func (r *textReader) text() string {
	n := r.length()
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *textReader) texts() []string { return readList(r, r.text) }

// readList reads how many values follow, and these with one.
func readList[T any](r *textReader, one func() T) (list []T) {
	for range r.length() {
		if r.bad {
			return nil
		}
		list = append(list, one())
	}
	return list
}

func (r *textReader) info() *Info {
	info := &Info{ACSStart: r.text(), ACSEnd: r.text(), DSStart: r.text(), DSEnd: r.text(), IssuerCountry: r.text()}
	info.own = r.byte()
	info.DSVersions = r.texts()
	info.ACS = readList(r, func() ACSVersion {
		return ACSVersion{Version: r.text(), MethodURL: r.text(), InfoInd: r.texts(), Extensions: readList(r, r.extension)}
	})
	return info
}

func (r *textReader) extension() Extension { return Extension{r.text(), r.text()} }
