package sandbox

import (
	"strconv"
	"strings"
)

// A v1Range is a CR: numbers of one length, both ends included.
type v1Range struct{ begin, end string }

// v1Bins are the first digits of the cards of a scheme.
var v1Bins = map[string][][2]string{
	"visa":       {{"4", "4"}},
	"mastercard": {{"51", "55"}, {"2221", "2720"}},
	"amex":       {{"34", "34"}, {"37", "37"}},
	"jcb":        {{"35", "35"}},
	"protectbuy": {{"36", "36"}, {"38", "38"}, {"65", "65"}, {"6011", "6011"}},
}

// The serial numbers of a CRRes: of the table as it was before the cards that
// are "outside" left it, and as it is.
var v1Serials = [2]string{"2611200001", "2611200002"}

// v1Tables makes both.
func v1Tables(scheme string, table v1Table) (all [2][]v1Range) {
	for length := 13; length <= 19; length++ {
		for _, bin := range v1Bins[scheme] {
			r := v1Range{filled(bin[0], "0", length), filled(bin[1], "9", length)}
			all[0] = append(all[0], r)
			left := []v1Range{r}
			for _, c := range table.cards {
				if c.outside {
					left = carved(left, v1Range{filled(c.pattern.text, "0", length), filled(c.pattern.text, "9", length)})
				}
			}
			all[1] = append(all[1], left...)
		}
	}
	return all
}

func filled(prefix, digit string, length int) string {
	return prefix + strings.Repeat(digit, length-len(prefix))
}

// carved cuts a hole into ranges of the same length.
func carved(ranges []v1Range, hole v1Range) (left []v1Range) {
	for _, r := range ranges {
		if hole.begin < r.begin || hole.end > r.end {
			left = append(left, r)
			continue
		}
		if r.begin < hole.begin {
			left = append(left, v1Range{r.begin, moved(hole.begin, -1)})
		}
		if hole.end < r.end {
			left = append(left, v1Range{moved(hole.end, 1), r.end})
		}
	}
	return left
}

// moved is the number beside another of up to 19 digits.
func moved(number string, by int64) string {
	n, _ := strconv.ParseUint(number, 10, 64) // digits
	text := strconv.FormatUint(n+uint64(by), 10)
	return strings.Repeat("0", len(number)-len(text)) + text
}

// ranges is the CRRes: all, or what has changed since the serial number.
func (d *v1Directory) ranges(m v1Received) []byte {
	version := leaf("version", v1Version)
	if f := d.box.v1.table.merchants[m.body.find("Merchant", "merID").text]; f.is("VERes", "ireq") {
		return v1Message(m.id, tag("CRRes", version, iReq(f.code, f.text)))
	}
	body := []string{version}
	cr := func(r v1Range, action string) {
		body = append(body, tag("CR", leaf("begin", r.begin), leaf("end", r.end), leaf("action", action)))
	}
	before, now := d.tables[0], d.tables[1]
	switch m.body.find("serialNumber").text {
	case "", "0":
		for _, r := range now {
			cr(r, "A")
		}
	case v1Serials[0]:
		for _, r := range minus(before, now) {
			cr(r, "D")
		}
		for _, r := range minus(now, before) {
			cr(r, "A")
		}
	case v1Serials[1]:
	default:
		return v1Message(m.id, tag("CRRes", version, iReq("57", "Serial number cannot be located")))
	}
	return v1Message(m.id, tag("CRRes", append(body, leaf("serialNumber", v1Serials[1]))...))
}

func minus(all, taken []v1Range) (left []v1Range) {
	out := make(map[v1Range]bool, len(taken))
	for _, r := range taken {
		out[r] = true
	}
	for _, r := range all {
		if !out[r] {
			left = append(left, r)
		}
	}
	return left
}
