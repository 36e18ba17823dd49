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
	// By is "" for Box, the tests for Unit, the files for Docs, the reason for
	// NotApplicable, and what is missing for Open.
	By string
}

// How says in what way it is shown that the server meets an obligation.
type How string

// The ways.
const (
	Box           How = "box"  // a check of this package
	Unit          How = "unit" // unit tests: what cannot be seen from outside
	Docs          How = "docs" // a document
	NotApplicable How = "n/a"
	Open          How = "open" // nothing yet
)

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
