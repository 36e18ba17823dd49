package conformance

import (
	_ "embed"
	"strconv"
	"strings"
)

// membersText is what the messages of a 3DS Server may hold, a line for each member:
// version, message, name, and six letters, its inclusion for payments in APP, BRW and 3RI,
// then the same without payment. R is required, C conditional, O optional, and - not
// defined, or not sent by a 3DS Server. It is made from the dictionary of the
// specification.
//
//go:embed members.txt
var membersText string

// memberInclusions are the members of a message, each with its letter for the channel and
// category.
func memberInclusions(version, messageType, channel, category string) map[string]byte {
	column := map[string]int{"APP": 0, "BRW": 1, "3RI": 2}[channel]
	if category == "NPA" {
		column += 3
	}
	got := make(map[string]byte)
	for line := range strings.Lines(membersText) {
		cells := strings.Fields(line)
		if len(cells) == 4 && cells[0] == version && cells[1] == messageType {
			got[cells[2]] = cells[3][column]
		}
	}
	return got
}

// wantAllRequired wants a message of the server to hold what is required in this flow, and
// nothing that is not defined.
func (x *flow) wantAllRequired(o object) {
	all := memberInclusions(x.version, o.text("messageType"), x.channel, x.category)
	for name := range o {
		if n := all[name]; n == 0 || n == '-' {
			x.t.Errorf("%s: %s holds %s, which is not defined there", x, o.text("messageType"), name)
		}
	}
	for name, n := range all {
		if n == 'R' && !o.has(name) {
			x.t.Errorf("%s: %s lacks %s", x, o.text("messageType"), name)
		}
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
