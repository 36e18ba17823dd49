package v1

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/sandbox/internal/scenario"
)

// A table is scenarios/v1.txt as it is run.
type table struct {
	cards     []card
	merchants scenario.Faults
}

// A card is a line for cards.
type card struct {
	pattern  scenario.Pattern
	outside  bool
	silent   bool
	enrolled string
	status   string // of the PARes, with enrolled Y
	broken   bool   // and whether its signature is
}

// find is what becomes of a card; there is a line for each.
func (t table) find(pan string) card {
	for _, c := range t.cards {
		if c.pattern.Match(pan) {
			return c
		}
	}
	return card{enrolled: "U"}
}

// readTable reads the table. It takes nothing for granted: what it does not
// understand is an error that names the line.
func readTable(text string) (table, error) {
	t := table{merchants: make(scenario.Faults)}
	err := scenario.EachLine(text, t.readLine)
	if err == nil && (len(t.cards) == 0 || t.cards[len(t.cards)-1].pattern != scenario.Pattern{Head: true}) {
		err = errors.New("the last card is not *, so that some are nowhere")
	}
	return t, err
}

func (t *table) readLine(line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch kind {
	case "card":
		c, err := readCard(rest)
		t.cards = append(t.cards, c)
		return err
	case "merchant":
		return t.merchants.ReadLine(rest, 24, faultKinds)
	}
	return fmt.Errorf("unknown word %q", kind)
}

func readCard(text string) (card, error) {
	end := strings.IndexFunc(text, func(c rune) bool { return !strings.ContainsRune("0123456789.* \t", c) })
	if end < 0 {
		return card{}, errors.New("a card without a rule")
	}
	p, err := scenario.ReadPattern(strings.Join(strings.Fields(text[:end]), ""))
	if err != nil {
		return card{}, err
	}
	c, words := card{pattern: p}, strings.Fields(text[end:])
	switch {
	case len(words) == 1 && words[0] == "outside" && p.Tail && !strings.Contains(p.Text, "."):
		c.outside, c.enrolled = true, "N"
	case len(words) == 1 && words[0] == "silence":
		c.silent = true
	case len(words) == 2 && words[0] == "enrolled" && slices.Contains([]string{"N", "U"}, words[1]):
		c.enrolled = words[1]
	case (len(words) == 2 || len(words) == 3 && words[2] == "broken") && words[0] == "status" &&
		slices.Contains([]string{"Y", "A", "N", "U"}, words[1]):
		c.enrolled, c.status, c.broken = "Y", words[1], len(words) == 3
	default:
		return c, fmt.Errorf("%q is nothing that a card can do", strings.Join(words, " "))
	}
	return c, nil
}

// faultKinds are the faults of each message; what comes after them is a code and a
// text, a code, an element, or nothing.
var faultKinds = map[string]string{
	"VERes ireq": "code text", "VERes error": "code text", "VERes silence": "", "VERes status": "code",
	"VERes garbage": "", "VERes cut": "", "VERes twice": "", "VERes critical": "", "VERes other": "id acctID url",
	"PARes ireq": "code text", "PARes error": "code text", "PARes chain": "", "PARes root": "", "PARes signature": "",
	"PARes edited": "", "PARes unsigned": "", "PARes reference": "", "PARes wrapped": "",
	"PARes other": "id acqBIN merID xid date purchAmount currency pan",
}
