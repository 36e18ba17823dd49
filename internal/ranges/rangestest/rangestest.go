// Package rangestest makes card range data as directory servers have it, of
// any size and from a seed, for tests and benchmarks. It knows the messages
// from the tables of the specification, not from our code, and writes them as
// it goes: no set is ever held.
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
	Payloads int     // how many different things are said of ranges; 0: 4000
	Nested   float64 // how many of the ranges have one within them, 0 to 1; before 2.3.1 only
}

// A Range is one of a set.
type Range struct {
	Start, End string
	Payload    int
}

// All yields the ranges of a set in ascending order, those of 16 digits first,
// then those of 19 and of 13, which are few. Issuers have a row of ranges side
// by side under each of their prefixes, as in life. Half of the ranges of a
// prefix say the same.
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

// lane yields the ranges of one length.
func (s Set) lane(random *rand.Rand, digits, left int, yield func(Range) bool) bool {
	unit := uint64(1) // a row has up to 1000 places of this size
	for range digits - 11 {
		unit *= 10
	}
	const perRow = 40 // on average
	rows := left/perRow + 1
	gap := 2 * 30_000_000 / uint64(rows) // between 8-digit prefixes, from 4 to 5 and a half
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
	Version       string // "2.1.0", "2.2.0" or "2.3.1"
	ServerTransID string // of the PReq; "": any
	Serial        string // "": none
	Action        string // of all entries; "": none
	ReadOrder     string // from 2.3.1; "": 01
	DSURLs        string // from 2.3.1: dsUrlList as JSON; "": none
	File          bool   // only {"cardRangeData":…}
}

// perEntry is how many ranges an entry has at most from 2.3.1.
const perEntry = 64

// Write writes the set as a PRes. Two million ranges of 2.2.0 are 600 MB.
func (s Set) Write(w io.Writer, p PRes) error {
	out := bufio.NewWriterSize(w, 64<<10)
	fmt.Fprint(out, "{")
	if !p.File {
		id := p.ServerTransID
		if id == "" {
			id = "8a880dc0-d2d2-4067-bcb1-b08d1690b26e"
		}
		fmt.Fprintf(out, `"messageType":"PRes","messageVersion":%q,"threeDSServerTransID":%q,"dsTransID":"f25084f0-5b16-4c0a-ae5d-b24808a95e4b",`, p.Version, id)
		if p.Serial != "" {
			fmt.Fprintf(out, `"serialNum":%q,`, p.Serial)
		}
		if p.Version < "2.3.1" {
			fmt.Fprint(out, `"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.3.1",`)
		} else {
			fmt.Fprintf(out, `"dsProtocolVersions":["2.1.0","2.2.0","2.3.1"],"readOrder":%q,`, orElse(p.ReadOrder, "01"))
			if p.DSURLs != "" {
				fmt.Fprintf(out, `"dsUrlList":%s,`, p.DSURLs)
			}
		}
	}
	fmt.Fprint(out, `"cardRangeData":[`)
	action := ""
	if p.Action != "" {
		action = fmt.Sprintf(`"actionInd":%q,`, p.Action)
	}
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
			out.WriteString(action)
			writeOld(out, r.Payload, p.Version)
		}
	} else {
		s.listed(out, action)
	}
	fmt.Fprint(out, "]}")
	return out.Flush()
}

// writeOld writes what is said of a range before 2.3.1, and the end of the
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

// listed writes the ranges as 2.3.1 has them: those of an issuer that stand one
// behind the other and say the same are one entry.
func (s Set) listed(out *bufio.Writer, action string) {
	payload, n := -1, 0
	end := func() {
		if n > 0 {
			out.WriteString(`],`)
			out.WriteString(action)
			fmt.Fprintf(out, `"issuerCountryCode":%q,"acsProtocolVersions":[{"version":"2.2.0","acsInfoInd":["01","02"],"threeDSMethodURL":"https://acs%d.issuer.example/3dsmethod/v2/start"},`+
				`{"version":"2.3.1","acsInfoInd":["01","02","03","07"],"threeDSMethodURL":"https://acs%d.issuer.example/3dsmethod/v3/start","supportedMsgExt":[{"id":"A000000802-004","version":"1.0"}]}]}`,
				[]string{"208", "752", "578", "276"}[payload%4], payload, payload)
		}
	}
	s.Nested = 0 // 2.3.1 has none
	first := true
	payloads := max(s.Payloads, 1)
	if s.Payloads == 0 {
		payloads = 4000
	}
	for r := range s.All() {
		if p := r.Payload; n == 0 || n == perEntry || payload != p && n > 11 {
			end()
			if !first {
				out.WriteByte(',')
			}
			first = false
			payload, n = p%payloads, 0
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

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
