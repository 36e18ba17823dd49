// Package rangestest makes card range data like that of directory servers, of any size and from a seed, for tests and
// benchmarks. It writes messages by the tables of the specification, without any of our code, and range by range: no
// set is ever in memory.
package rangestest

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
)

// A Set describes card range data. Equal Sets have equal ranges.
type Set struct {
	Ranges   int
	Seed     uint64
	Payloads int     // how many different payloads ranges have: what is said of a range; 0: 4000
	Nested   float64 // share of the ranges that have another one within them; before 2.3.1 only
}

// A Range is one of a set.
type Range struct {
	Start, End string
	Payload    int // from 0 to Set.Payloads - 1
}

// All yields the ranges of a set in ascending order, those of 16 digits first, then those
// of 19 and of 13, which are few. As in life, an issuer has ranges side by side under each
// of its prefixes. About half of the ranges have the payload of the one before.
func (s Set) All() iter.Seq[Range] {
	return func(yield func(Range) bool) {
		random := rand.New(rand.NewPCG(s.Seed, 1))
		few := s.Ranges / 50
		for _, lane := range []struct{ digits, ranges int }{{16, s.Ranges - 2*few}, {19, few}, {13, few}} {
			if !s.lane(random, lane.digits, lane.ranges, yield) {
				return
			}
		}
	}
}

// lane yields left ranges of one length. A prefix of 8 digits has a row of them.
func (s Set) lane(random *rand.Rand, digits, left int, yield func(Range) bool) bool {
	unit := uint64(1) // size of a range; a row has room for 1000
	for range digits - 11 {
		unit *= 10
	}
	const perRow = 40 // on average
	rows := left/perRow + 1
	gap := 2 * 30_000_000 / uint64(rows) // twice the mean distance of two prefixes, from 40000000 on
	prefix := uint64(40_000_000)
	for left > 0 {
		payload := s.payload(random)
		n := min(left, 1+random.IntN(2*perRow))
		place := uint64(random.IntN(1000 - 3*n))
		for range n {
			place += 1 + uint64(random.IntN(2))
			start := prefix*unit*1000 + place*unit
			end := start + unit - 1
			if random.IntN(2) == 0 {
				payload = s.payload(random)
			}
			if !yield(Range{fmt.Sprintf("%0*d", digits, start), fmt.Sprintf("%0*d", digits, end), payload}) {
				return false
			}
			left--
			if left > 0 && random.Float64() < s.Nested {
				start += unit / 10 * uint64(random.IntN(9))
				if !yield(Range{fmt.Sprintf("%0*d", digits, start), fmt.Sprintf("%0*d", digits, start+unit/10-1), s.payload(random)}) {
					return false
				}
				left--
			}
			if left == 0 {
				break
			}
		}
		prefix += 1 + random.Uint64N(max(gap-1, 1))
	}
	return true
}

func (s Set) payload(random *rand.Rand) int {
	if s.Payloads == 0 {
		return random.IntN(4000)
	}
	return random.IntN(s.Payloads)
}

// A PRes says what is written around the ranges.
type PRes struct {
	Version string // "2.1.0", "2.2.0" or "2.3.1"
	Serial  string // "": none
	File    bool   // a card range file, {"cardRangeData":…}, and no PRes
}

// perEntry is how many ranges an entry has at the most from 2.3.1.
const perEntry = 64

// Write writes the set as a PRes. Two million ranges of 2.2.0 are 600 MB.
func (s Set) Write(w io.Writer, p PRes) error {
	out := bufio.NewWriterSize(w, 64<<10)
	fmt.Fprint(out, "{")
	if !p.File {
		fmt.Fprintf(out,
			`"messageType":"PRes","messageVersion":%q,"threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e","dsTransID":"f25084f0-5b16-4c0a-ae5d-b24808a95e4b",`,
			p.Version)
		if p.Serial != "" {
			fmt.Fprintf(out, `"serialNum":%q,`, p.Serial)
		}
		if p.Version < "2.3.1" {
			fmt.Fprint(out, `"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.3.1",`)
		} else {
			fmt.Fprint(out, `"dsProtocolVersions":["2.1.0","2.2.0","2.3.1"],"readOrder":"01",`)
		}
	}
	fmt.Fprint(out, `"cardRangeData":[`)
	if p.Version < "2.3.1" {
		first := true
		for r := range s.All() {
			if !first {
				out.WriteByte(',')
			}
			first = false
			out.WriteString(`{"startRange":"`)
			out.WriteString(r.Start)
			out.WriteString(`","endRange":"`)
			out.WriteString(r.End)
			out.WriteString(`",`)
			writeOld(out, r.Payload, p.Version)
		}
	} else {
		s.listed(out)
	}
	fmt.Fprint(out, "]}")
	return out.Flush()
}

// writeOld writes the payload of a range in the form before 2.3.1, and the end of the
// entry.
func writeOld(out *bufio.Writer, payload int, version string) {
	out.WriteString(`"acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"`)
	out.WriteString([]string{"2.1.0", "2.2.0", "2.2.0", "2.3.1"}[payload%4])
	out.WriteString(`","dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.2.0"`)
	if payload%8 > 0 {
		fmt.Fprintf(out, `,"threeDSMethodURL":"https://acs%d.issuer.example/3dsmethod/v2/start"`, payload)
	}
	if version != "2.1.0" {
		out.WriteString(`,"acsInfoInd":["01","02"`)
		if payload%3 == 0 {
			out.WriteString(`,"03"`)
		}
		out.WriteString("]")
	}
	out.WriteByte('}')
}

// listed writes the ranges in the form of 2.3.1: an entry has a list of ranges and one
// payload. It has 12 ranges at least, the last one excepted, so ranges get the payload of
// the first one in their entry.
func (s Set) listed(out *bufio.Writer) {
	payload, n := -1, 0
	end := func() {
		if n > 0 {
			out.WriteString(`],`)
			fmt.Fprintf(out,
				`"issuerCountryCode":%q,"acsProtocolVersions":[{"version":"2.2.0","acsInfoInd":["01","02"],"threeDSMethodURL":"https://acs%d.issuer.example/3dsmethod/v2/start"},`+
					`{"version":"2.3.1","acsInfoInd":["01","02","03","07"],"threeDSMethodURL":"https://acs%d.issuer.example/3dsmethod/v3/start","supportedMsgExt":[{"id":"A000000802-004","version":"1.0"}]}]}`,
				[]string{"208", "752", "578", "276"}[payload%4], payload, payload)
		}
	}
	s.Nested = 0 // 2.3.1 has none
	first := true
	for r := range s.All() {
		if p := r.Payload; n == 0 || n == perEntry || payload != p && n > 11 {
			end()
			if !first {
				out.WriteByte(',')
			}
			first = false
			payload, n = p, 0
			out.WriteString(`{"ranges":[`)
		}
		if n > 0 {
			out.WriteByte(',')
		}
		out.WriteString(`{"start":"`)
		out.WriteString(r.Start)
		out.WriteString(`","end":"`)
		out.WriteString(r.End)
		out.WriteString(`"}`)
		n++
	}
	end()
}
