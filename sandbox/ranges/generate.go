package ranges

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"github.com/openthreeds/threeds/sandbox/internal/peer"
)

// A generator makes the i-th of n ranges out of i and a seed. The space of all
// prefixes of width digits is cut into n pieces; in each lies one range, whose
// bounds are prefixes filled up with 0 and 9. So no two overlap, whatever the
// lengths of their numbers.
type generator struct {
	n      int
	seed   uint64
	leads  []string // four digits each, ascending
	width  int
	each   uint64 // prefixes that begin with one of leads
	slots  uint64 // prefixes in all
	abouts []*about
}

const payloads = 4000

func newGenerator(r *Set, n int, seed uint64) (*generator, error) {
	g := &generator{n: n, seed: seed, leads: r.o.Leads, width: 8, each: 10_000}
	for g.slots < 4*uint64(max(n, 1)) {
		if g.width++; g.width > 12 || n < 0 {
			return nil, fmt.Errorf("there is no room for %d ranges", n)
		}
		g.each *= 10
		g.slots = g.each * uint64(len(g.leads))
	}
	for p := range payloads {
		g.abouts = append(g.abouts, r.newAbout(g.payload(p)))
		g.abouts[p].generated = true
	}
	return g, nil
}

// random is the i-th random number of a kind.
func (g *generator) random(kind, i uint64) uint64 {
	x := g.seed ^ kind<<56 ^ i
	x += 0x9e3779b97f4a7c15 * (kind + 1)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// slot is where the i-th piece begins.
func (g *generator) slot(i int) uint64 {
	high, low := bits.Mul64(uint64(i), g.slots)
	q, _ := bits.Div64(high, low, uint64(g.n))
	return q
}

// at makes the i-th range.
func (g *generator) at(i int) item {
	low, high := g.slot(i), g.slot(i+1)
	first := low + g.random(1, uint64(i))%((high-low)/2)
	last := min(first+g.random(2, uint64(i))%(high-first), first-first%g.each+g.each-1)
	length := 16
	switch p := g.random(3, uint64(i)) % 100; {
	case p < 6:
		length = 19
	case p < 9:
		length = 18
	case p < 12:
		length = 15
	case p < 14:
		length = 13
	case p < 15:
		length = 14
	}
	// One issuer has several ranges in a row; one in ten of them is of those
	// without a 3DS Method.
	run := uint64(i / 16)
	p := 1 + int((run*1597+g.seed%payloads)%(payloads-1))
	if g.random(4, run)%10 == 0 {
		p = 0
	}
	return item{
		bounds: bounds{g.number(first, '0', length), g.number(last, '9', length)},
		about:  g.abouts[p],
		action: "A",
	}
}

// number is a prefix as a card number.
func (g *generator) number(slot uint64, fill byte, length int) string {
	var buf [19]byte
	copy(buf[:], g.leads[slot/g.each])
	rest := slot % g.each
	for i := g.width - 1; i >= 4; i-- {
		buf[i] = byte('0' + rest%10)
		rest /= 10
	}
	for i := g.width; i < length; i++ {
		buf[i] = fill
	}
	return string(buf[:length])
}

// find returns what the generator tells about a range, nil when it did not make the range.
func (g *generator) find(b bounds) *about {
	if len(b.start) < g.width || g.n == 0 {
		return nil
	}
	lead, known := slices.BinarySearch(g.leads, b.start[:4])
	rest, err := strconv.ParseUint(b.start[4:g.width], 10, 64)
	if !known || err != nil {
		return nil
	}
	high, low := bits.Mul64(uint64(lead)*g.each+rest, uint64(g.n))
	near, _ := bits.Div64(high, low, g.slots)
	for i := max(int(near)-1, 0); i < min(int(near)+2, g.n); i++ {
		if it := g.at(i); it.bounds == b {
			return it.about
		}
	}
	return nil
}

// payload is what the ranges of an issuer have besides their bounds.
func (g *generator) payload(p int) Range {
	if p == 0 {
		return Range{Versions: []string{peer.V210, peer.V220}, Info: []string{"01"}}
	}
	roll := g.random(5, uint64(p))
	pick := func(n int) int {
		one := int(roll % uint64(n))
		roll /= uint64(n)
		return one
	}
	c := Range{
		MethodURL: fmt.Sprintf("https://acs%d.issuer-%04d.example/3ds-method/v2?bank=%04d&region=%d", pick(9), p, p, pick(4)),
		Versions: [][]string{{peer.V210, peer.V220}, {peer.V220}, {peer.V210, peer.V220, peer.V231},
			{peer.V220, peer.V231}}[pick(4)],
		Info:    [][]string{{"01", "02"}, {"01", "02", "03"}, {"01", "02", "04"}, {"02"}}[pick(4)],
		Country: []string{"208", "276", "250", "826", "840", "392", "356", "752"}[pick(8)],
	}
	if pick(4) == 0 {
		c.DSVersions = []string{peer.V220, peer.V231}
	}
	if pick(8) == 0 {
		c.Extensions = []Extension{{ID: "A000000802-001", Version: "1.0"}}
	}
	return c
}
