package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/openthreeds/threeds/internal/ranges"
)

// An issuance is how a scheme's card numbers look: BINs of six digits in one or
// two blocks, and their length.
type issuance struct {
	scheme string
	digits int
	blocks [][2]int // of BINs, first and last
	share  float64  // of all ranges
}

// issuances are roughly those of the world.
var issuances = []issuance{
	{"visa", 16, [][2]int{{400000, 499999}}, 0.52},
	{"mastercard", 16, [][2]int{{510000, 559999}, {222100, 272099}}, 0.33},
	{"upi", 16, [][2]int{{620000, 629999}}, 0.08},
	{"amex", 15, [][2]int{{340000, 349999}, {370000, 379999}}, 0.03},
	{"jcb", 16, [][2]int{{352800, 358999}}, 0.02},
	{"protectbuy", 16, [][2]int{{601100, 601199}, {644000, 659999}}, 0.02},
}

const (
	perBIN   = 400  // account ranges of a BIN, which has room for 1000
	payloads = 4000 // how many issuers there are: what is said of a range is the issuer's
	sampled  = 5000 // how many card numbers are asked for
)

// cards builds the tables of n ranges, and returns card numbers that are in them.
func cards(n int) (*ranges.Schemes, []string, error) {
	random := rand.New(rand.NewPCG(1, 2))
	var names, pans []string
	for _, i := range issuances {
		names = append(names, i.scheme)
	}
	schemes := ranges.NewSchemes(names...)
	for _, i := range issuances {
		infos := make([]*ranges.Info, payloads)
		for k := range infos {
			infos[k] = issuer(k)
		}
		table, some, err := i.table(int(float64(n)*i.share), sampled*int(100*i.share)/100, infos, random)
		if err != nil {
			return nil, nil, err
		}
		schemes.Swap(i.scheme, table)
		pans = append(pans, some...)
	}
	random.Shuffle(len(pans), func(i, j int) { pans[i], pans[j] = pans[j], pans[i] })
	return schemes, pans, nil
}

// issuer is what a directory says of the ranges of the i-th issuer. It has the same length
// for all.
func issuer(i int) *ranges.Info {
	info := &ranges.Info{ACSStart: "2.1.0", ACSEnd: "2.3.1", DSStart: "2.1.0", DSEnd: "2.3.1", DSVersions: []string{"2.1.0", "2.2.0", "2.3.1"}}
	for _, v := range info.DSVersions {
		info.ACS = append(info.ACS, ranges.ACSVersion{
			Version: v, InfoInd: []string{"01", "02"},
			MethodURL: fmt.Sprintf("https://acs%04d.issuers.example/3ds/method", i),
		})
	}
	return info
}

// table makes n ranges of a scheme and picks card numbers out of them.
func (s *issuance) table(n, pick int, infos []*ranges.Info, random *rand.Rand) (*ranges.Table, []string, error) {
	var bins []int
	for _, block := range s.blocks {
		for bin := block[0]; bin <= block[1]; bin++ {
			bins = append(bins, bin)
		}
	}
	random.Shuffle(len(bins), func(i, j int) { bins[i], bins[j] = bins[j], bins[i] })
	var b ranges.Builder
	var pans []string
	for i := range n {
		bin, account := bins[i/perBIN], i%perBIN*1000/perBIN
		number := func(rest int) string { return fmt.Sprintf("%06d%03d%0*d", bin, account, s.digits-9, rest) }
		last := 1
		for range s.digits - 9 {
			last *= 10
		}
		if err := b.Add(number(0), number(last-1), infos[i/perBIN%len(infos)]); err != nil {
			return nil, nil, err
		}
		if len(pans) < pick && (i+1)*pick/n > len(pans) {
			pans = append(pans, number(random.IntN(last)))
		}
	}
	t, err := b.Build()
	return t, pans, err
}
