package v1

import (
	"slices"
	"strconv"
	"strings"
)

// A cardRange is a CR: numbers of one length, both ends included.
type cardRange struct{ begin, end string }

// bins are the first digits of the cards of a scheme.
var bins = map[string][][2]string{
	"visa":       {{"4", "4"}},
	"mastercard": {{"51", "55"}, {"2221", "2720"}},
	"amex":       {{"34", "34"}, {"37", "37"}},
	"jcb":        {{"35", "35"}},
	"protectbuy": {{"36", "36"}, {"38", "38"}, {"65", "65"}, {"6011", "6011"}},
}

// The serial numbers of a CRRes: of the table as it was before the cards that
// are "outside" left it, and as it is.
var serials = [2]string{"2611200001", "2611200002"}

// rangeTables makes both.
func rangeTables(scheme string, t table) (all [2][]cardRange) {
	for length := 13; length <= 19; length++ {
		for _, bin := range bins[scheme] {
			r := cardRange{padNumber(bin[0], "0", length), padNumber(bin[1], "9", length)}
			all[0] = append(all[0], r)
			left := []cardRange{r}
			for _, c := range t.cards {
				if c.outside {
					left = subtractRange(left,
						cardRange{padNumber(c.pattern.Text, "0", length), padNumber(c.pattern.Text, "9", length)})
				}
			}
			all[1] = append(all[1], left...)
		}
	}
	return all
}

func padNumber(prefix, digit string, length int) string {
	return prefix + strings.Repeat(digit, length-len(prefix))
}

// subtractRange cuts a hole into ranges of the same length.
func subtractRange(ranges []cardRange, hole cardRange) (left []cardRange) {
	for _, r := range ranges {
		if hole.begin < r.begin || hole.end > r.end {
			left = append(left, r)
			continue
		}
		if r.begin < hole.begin {
			left = append(left, cardRange{r.begin, addToNumber(hole.begin, -1)})
		}
		if hole.end < r.end {
			left = append(left, cardRange{addToNumber(hole.end, 1), r.end})
		}
	}
	return left
}

// addToNumber is the number next to another of up to 19 digits.
func addToNumber(number string, by int64) string {
	n, _ := strconv.ParseUint(number, 10, 64) // digits
	text := strconv.FormatUint(n+uint64(by), 10)
	return strings.Repeat("0", len(number)-len(text)) + text
}

// ranges is the CRRes: all, or what has changed since the serial number.
func (d *directory) rangesAnswer(m received) []byte {
	version := leaf("version", protocolVersion)
	if f := d.network.table.merchants[m.body.find("Merchant", "merID").text]; f.Is("VERes", "ireq") {
		return envelope(m.id, tag("CRRes", version, iReq(f.Code, f.Text)))
	}
	body := []string{version}
	cr := func(r cardRange, action string) {
		body = append(body, tag("CR", leaf("begin", r.begin), leaf("end", r.end), leaf("action", action)))
	}
	before, now := d.tables[0], d.tables[1]
	switch m.body.find("serialNumber").text {
	case "", "0":
		for _, r := range now {
			cr(r, "A")
		}
	case serials[0]:
		for _, r := range missingFrom(before, now) {
			cr(r, "D")
		}
		for _, r := range missingFrom(now, before) {
			cr(r, "A")
		}
	case serials[1]:
	default:
		return envelope(m.id, tag("CRRes", version, iReq("57", "Serial number cannot be located")))
	}
	return envelope(m.id, tag("CRRes", append(body, leaf("serialNumber", serials[1]))...))
}

// missingFrom are the ranges of all that are not in others.
func missingFrom(all, others []cardRange) []cardRange {
	return slices.DeleteFunc(slices.Clone(all), func(r cardRange) bool { return slices.Contains(others, r) })
}
