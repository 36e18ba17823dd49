package rangequery

import (
	"fmt"
	"strings"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
)

// DescribeMatches says in lines what was found of a prefix, or of a card number, in each scheme.
func DescribeMatches(prefix string, all []*Match) string {
	var b strings.Builder
	for _, f := range all {
		switch {
		case f.Generation == 0:
			fmt.Fprintf(&b, "%s: no card ranges yet\n", f.Scheme)
		case f.Count == 0 && IsCard(prefix):
			fmt.Fprintf(&b, "%s: %s is in no range of %d\n", f.Scheme, cardnumber.MaskDigits(prefix), f.Used.Len())
		case IsCard(prefix):
			fmt.Fprintf(&b, "%s: %s is in a range of %d\n", f.Scheme, cardnumber.MaskDigits(prefix), f.Used.Len())
		default:
			fmt.Fprintf(&b, "%s: %d of %d ranges hold cards that begin with %s\n", f.Scheme, f.Count, f.Used.Len(), prefix)
		}
		for i, r := range f.Ranges {
			writeLines(&b, "    ", r.Start+"-"+r.End)
			writeLines(&b, "        ", DescribeInfo(f.Infos[i])...)
			if urls := DSURLs(f.Used, r.Country); urls != "" {
				writeLines(&b, "        ", "reached at "+urls)
			}
		}
		if left := f.Count - len(f.Ranges); left > 0 {
			fmt.Fprintf(&b, "    … and %d more\n", left)
		}
	}
	return b.String()
}

// Describe says in lines what differs.
func (d *Difference) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s to %s: %d added, %d removed, %d changed\n", d.Scheme, d.Old, d.New, d.Added,
		d.Removed, d.Changed)
	for _, c := range d.First {
		writeLines(&b, "", c.Line)
	}
	if left := d.Added + d.Removed + d.Changed - len(d.First); left > 0 {
		fmt.Fprintf(&b, "… and %d more\n", left)
	}
	return b.String()
}

// writeLines writes lines with the same indent.
func writeLines(b *strings.Builder, indent string, lines ...string) {
	for _, line := range lines {
		fmt.Fprintf(b, "%s%s\n", indent, line)
	}
}
