package sandbox

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
)

//go:embed scenarios/v1.txt
var v1Text string

// V1Table is scenarios/v1.txt: what each test card and each merchant id does in
// 3-D Secure 1.0.2, and how to read it.
func V1Table() string { return v1Text }

// A v1Table is that text as it is run.
type v1Table struct {
	cards     []v1Card
	merchants merchants
}

// A v1Card is a line for cards.
type v1Card struct {
	pattern  pattern
	outside  bool
	silent   bool
	enrolled string
	status   string // of the PARes, with enrolled Y
	broken   bool   // and whether its signature is
}

// find is what becomes of a card; there is a line for each.
func (t v1Table) find(pan string) v1Card {
	for _, c := range t.cards {
		if c.pattern.match(pan) {
			return c
		}
	}
	return v1Card{enrolled: "U"}
}

// readV1 reads the table. It takes nothing for granted: what it does not
// understand is an error that names the line.
func readV1(text string) (v1Table, error) {
	t := v1Table{merchants: make(merchants)}
	err := eachLine(text, t.readLine)
	if err == nil && (len(t.cards) == 0 || t.cards[len(t.cards)-1].pattern != pattern{head: true}) {
		err = errors.New("the last card is not *, so that some are nowhere")
	}
	return t, err
}

func (t *v1Table) readLine(line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch kind {
	case "card":
		c, err := readV1Card(rest)
		t.cards = append(t.cards, c)
		return err
	case "merchant":
		return t.merchants.readLine(rest, 24, v1Kinds)
	}
	return fmt.Errorf("unknown word %q", kind)
}

func readV1Card(text string) (v1Card, error) {
	end := strings.IndexFunc(text, func(c rune) bool { return !strings.ContainsRune("0123456789.* \t", c) })
	if end < 0 {
		return v1Card{}, errors.New("a card of which nothing is said")
	}
	p, err := readPattern(strings.Join(strings.Fields(text[:end]), ""))
	if err != nil {
		return v1Card{}, err
	}
	c, words := v1Card{pattern: p}, strings.Fields(text[end:])
	switch {
	case len(words) == 1 && words[0] == "outside" && p.tail && !strings.Contains(p.text, "."):
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

// v1Kinds are the faults of each message; what comes after them is a code and a
// text, a code, an element, or nothing.
var v1Kinds = map[string]string{
	"VERes ireq": "code text", "VERes error": "code text", "VERes silence": "", "VERes status": "code", "VERes garbage": "",
	"VERes cut": "", "VERes twice": "", "VERes critical": "", "VERes other": "id acctID url",
	"PARes ireq": "code text", "PARes error": "code text", "PARes chain": "", "PARes root": "", "PARes signature": "",
	"PARes edited": "", "PARes unsigned": "", "PARes reference": "", "PARes wrapped": "",
	"PARes other": "id acqBIN merID xid date purchAmount currency pan",
}
