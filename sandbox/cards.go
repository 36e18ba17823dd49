package sandbox

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:embed scenarios/cards.txt
var cardsText string

// CardTable is scenarios/cards.txt: what each test card does, and how to read
// it.
func CardTable() string { return cardsText }

// A Card is what can be known of a card number before anything is sent.
type Card struct {
	Scheme       string   // the directory server that knows it
	Others       []string // further ones, of a co-badged card
	Listed       bool     // the table says what becomes of it; if not, /auth gets Erro 305
	Versions     []string // protocol versions, ascending
	MethodURL    string   // the 3DS Method's page in all these versions, "" when there is none
	MethodSilent bool     // that page never answers
}

// Card tells of any card number. It is false for what is no number of 13-19
// digits and for cards that are not enrolled.
func (s *Sandbox) Card(pan string) (Card, bool) {
	if len(pan) < 13 || len(pan) > 19 || !digits(pan) {
		return Card{}, false
	}
	found := s.table.find(pan)
	if found.absent {
		return Card{}, false
	}
	c := Card{Scheme: schemeOf(pan), Listed: found.listed(), Versions: versions()}
	for i := range schemes {
		if word := schemes[i].word; word != c.Scheme && schemes[i].holds(pan) {
			c.Others = append(c.Others, word)
		}
	}
	if !c.Listed {
		return c, true
	}
	c.Versions = found.versions
	switch found.method {
	case "answers":
		c.MethodURL = s.acs.url + methodPath
	case "silent":
		c.MethodURL, c.MethodSilent = s.acs.url+silentMethodPath, true
	}
	return c, true
}

// A deed is what becomes of an AReq.
type deed struct {
	kind   string // "answer", "challenge", "decoupled", "silence"
	status string // of answer: transStatus
	reason string // of answer: transStatusReason
	how    string // of challenge: "passes", "fails", "asks"
	info   string // cardholderInfo
	padded bool   // the CRes is padded base64url
}

// A rule is one line of the table.
type rule struct {
	pattern   pattern
	absent    bool
	versions  []string
	method    string
	deed      deed
	lastEight int  // the outcome holds up to this number; -1 for no bound
	only, not bool // the outcome holds in 3RI alone, or not in 3RI
}

// holds says whether the outcome of the rule is meant.
func (r *rule) holds(pan string, threeRI bool) bool {
	if r.only && !threeRI || r.not && threeRI {
		return false
	}
	if r.lastEight < 0 {
		return true
	}
	n, _ := strconv.Atoi(pan[len(pan)-8:])
	return n <= r.lastEight
}

// A cardTable is the tables of the text, in its order.
type cardTable []section

// A section is one of them: which cards it is for, and its lines.
type section struct {
	name  string
	cards []pattern
	rules []*rule
}

// A finding is all that the table says of one number.
type finding struct {
	absent   bool
	versions []string
	method   string
	outcomes []*rule
}

// listed says whether the table is complete for the card.
func (f finding) listed() bool {
	return len(f.versions) > 0 && f.method != "" && len(f.outcomes) > 0
}

func (t cardTable) find(pan string) finding {
	var f finding
	for _, part := range t {
		if !slices.ContainsFunc(part.cards, func(p pattern) bool { return p.match(pan) }) {
			continue
		}
		for _, r := range part.rules {
			if !r.pattern.match(pan) {
				continue
			}
			f.absent = f.absent || r.absent
			if f.versions == nil {
				f.versions = r.versions
			}
			if f.method == "" {
				f.method = r.method
			}
			if r.deed.kind != "" {
				f.outcomes = append(f.outcomes, r)
			}
		}
		break
	}
	return f
}

// outcome is what becomes of an AReq of an enrolled card; false when the table
// has nothing for it. In 3RI there is no 3DS Method, and nothing hangs on it.
func (f finding) outcome(pan string, threeRI bool) (deed, bool) {
	if f.absent || !f.listed() && !(threeRI && len(f.versions) > 0) {
		return deed{}, false
	}
	for _, r := range f.outcomes {
		if r.holds(pan, threeRI) {
			return r.deed, true
		}
	}
	return deed{}, false
}

// A pattern is digits, dots for any digit, and stars at the ends.
type pattern struct {
	text       string
	head, tail bool // any digits before, any digits after
}

func (p pattern) match(pan string) bool {
	switch {
	case p.head && p.tail:
		for i := 0; i+len(p.text) <= len(pan); i++ {
			if p.same(pan[i : i+len(p.text)]) {
				return true
			}
		}
		return false
	case len(p.text) > len(pan):
		return false
	case p.head:
		return p.same(pan[len(pan)-len(p.text):])
	case p.tail:
		return p.same(pan[:len(p.text)])
	}
	return len(p.text) == len(pan) && p.same(pan)
}

func (p pattern) same(part string) bool {
	for i := range part {
		if p.text[i] != '.' && p.text[i] != part[i] {
			return false
		}
	}
	return true
}

func readPattern(text string) (pattern, error) {
	var p pattern
	p.text, p.head = strings.CutPrefix(text, "*")
	p.text, p.tail = strings.CutSuffix(p.text, "*")
	if strings.Trim(p.text, "0123456789.") != "" || text == "" || len(p.text) > 19 {
		return p, fmt.Errorf("pattern %q: want digits and dots with a star at either end", text)
	}
	return p, nil
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }
