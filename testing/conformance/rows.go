package conformance

import (
	_ "embed"
	"fmt"
	"strings"
)

// rowsText is the list of obligations, one a line; its head says how it is
// read.
//
//go:embed rows.txt
var rowsText string

// A Row is an obligation of a 3DS Server.
type Row struct {
	// ID is two letters and two digits: MC-14.
	ID string
	// Versions are the protocol versions with the obligation: all, 2.2+, 2.3.1.
	Versions string
	// Text says what is asked for, in our words.
	Text string
	How  How
	// By is the tests for Unit, the files for Docs, the reason for NotApplicable and Deviation, and what is missing for
	// Missing and Open. For Box and Shop it is "", or "unit" and the tests that show what a check cannot wait for.
	By string
}

// How says in what way it is shown that the server meets an obligation.
type How string

// The ways.
const (
	Box           How = "box"       // a check of this package
	Shop          How = "shop"      // a check of the demo shop: the duty is that of the requestor's page, not of the server
	Unit          How = "unit"      // unit tests: what cannot be seen from outside
	Docs          How = "docs"      // a document
	NotApplicable How = "n/a"       // it is nobody's duty here
	Deviation     How = "deviation" // the server deliberately does something else
	Missing       How = "missing"   // a feature that the server does not have
	Open          How = "open"      // nothing yet
)

// hasCheck reports whether a check of this package shows the row.
func (h How) hasCheck() bool { return h == Box || h == Shop }

// unitTests are the unit tests of a row.
func (r Row) unitTests() []string {
	switch tests, ok := strings.CutPrefix(r.By, "unit "); {
	case r.How == Unit:
		return strings.Fields(r.By)
	case r.How.hasCheck() && ok:
		return strings.Fields(tests)
	}
	return nil
}

// Rows are all obligations, in order.
func Rows() []Row {
	var rows []Row
	for line := range strings.Lines(rowsText) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 4 {
			panic(fmt.Sprintf("conformance: rows.txt: not four cells: %s", line))
		}
		how, by, _ := strings.Cut(cells[3], " ")
		rows = append(rows, Row{ID: cells[0], Versions: cells[1], Text: cells[2], How: How(strings.TrimSuffix(how, ":")), By: by})
	}
	return rows
}
