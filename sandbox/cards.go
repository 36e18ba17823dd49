package sandbox

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/sandbox/internal/peer"
	"github.com/openthreeds/threeds/sandbox/internal/scenario"
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

// Card describes any card number. ok is false for a text that is no number of 13-19 digits, and for cards that are not
// enrolled.
func (s *Sandbox) Card(pan string) (Card, bool) {
	if len(pan) < 13 || len(pan) > 19 || !scenario.IsDigits(pan) {
		return Card{}, false
	}
	found := s.table.find(pan)
	if found.absent {
		return Card{}, false
	}
	c := Card{Scheme: schemeOf(pan), Listed: found.listed(), Versions: peer.Versions()}
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

// A cardOutcome is what the issuer does with an AReq.
type cardOutcome struct {
	kind   string // "answer", "challenge", "decoupled", "silence"
	status string // of answer: transStatus
	reason string // of answer: transStatusReason
	how    string // of challenge and decoupled: how it ends
	info   string // cardholderInfo

	padded    bool // the CRes is padded base64url
	completed bool // the CRes has challengeCompletionInd
	tall      bool // the page of the challenge is taller than its frame

	eci      string // in place of what the scheme puts next to the status; "" means that
	hasValue bool   // it has an authentication value, whatever the status
}

// A rule is one line of the table.
type rule struct {
	pattern   scenario.Pattern
	absent    bool
	versions  []string
	method    string
	outcome   cardOutcome
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

// A section is one table of the text: the cards that it is for, and its lines.
type section struct {
	name  string
	cards []scenario.Pattern
	rules []*rule
}

// A lookup is all that the table says about one card number.
type lookup struct {
	absent   bool
	versions []string
	method   string
	outcomes []*rule
}

// listed says whether the table is complete for the card.
func (f lookup) listed() bool {
	return len(f.versions) > 0 && f.method != "" && len(f.outcomes) > 0
}

func (t cardTable) find(pan string) lookup {
	var f lookup
	for _, part := range t {
		if !slices.ContainsFunc(part.cards, func(p scenario.Pattern) bool { return p.Match(pan) }) {
			continue
		}
		for _, r := range part.rules {
			if !r.pattern.Match(pan) {
				continue
			}
			f.absent = f.absent || r.absent
			if f.versions == nil {
				f.versions = r.versions
			}
			if f.method == "" {
				f.method = r.method
			}
			if r.outcome.kind != "" {
				f.outcomes = append(f.outcomes, r)
			}
		}
		break
	}
	return f
}

// hasOutcome says whether the table has an outcome for the card, in some channel. In 3RI
// there is no 3DS Method, and nothing hangs on it.
func (f lookup) hasOutcome(threeRI bool) bool {
	return !f.absent && (f.listed() || threeRI && len(f.versions) > 0 && len(f.outcomes) > 0)
}

// outcome is what becomes of an AReq of an enrolled card; false when the table
// has nothing for it.
func (f lookup) outcome(pan string, threeRI bool) (cardOutcome, bool) {
	if !f.hasOutcome(threeRI) {
		return cardOutcome{}, false
	}
	for _, r := range f.outcomes {
		if r.holds(pan, threeRI) {
			return r.outcome, true
		}
	}
	return cardOutcome{}, false
}

// readCards reads a card table. It takes nothing for granted: what it does not
// understand is an error that names the line.
func readCards(text string) (cardTable, error) {
	var t cardTable
	if err := scenario.EachLine(text, t.readLine); err != nil {
		return t, err
	}
	return t, errors.Join(t.checkComplete()...)
}

// checkComplete finds tables that say nothing.
func (t cardTable) checkComplete() (faults []error) {
	if len(t) == 0 {
		return []error{errors.New("no table")}
	}
	for _, part := range t {
		if len(part.rules) == 0 {
			faults = append(faults, fmt.Errorf("table %s has no lines", part.name))
		}
	}
	return faults
}

func (t *cardTable) readLine(line string) error {
	if cards, ok := strings.CutPrefix(line, "table"); ok {
		return t.readTable(cards)
	}
	if len(*t) == 0 {
		return errors.New("a line before the first table")
	}
	r, err := readRule(line)
	if err != nil {
		return err
	}
	last := (*t)[len(*t)-1:]
	last[0].rules = append(last[0].rules, r)
	return nil
}

// readTable reads the cards after "table": patterns with stars, divided by spaces, or numbers
// without, divided by commas, in which spaces are for the eye.
func (t *cardTable) readTable(cards string) error {
	words := strings.Fields(cards)
	if !strings.Contains(cards, "*") {
		words = strings.Split(cards, ",")
	}
	part := section{name: strings.Join(words, " ")}
	for _, word := range words {
		p, err := scenario.ReadPattern(strings.Join(strings.Fields(word), ""))
		if err != nil {
			return err
		}
		part.cards = append(part.cards, p)
	}
	*t = append(*t, part)
	return nil
}

func readRule(line string) (*rule, error) {
	r := &rule{lastEight: -1}
	end := strings.IndexFunc(line, func(c rune) bool { return !strings.ContainsRune("0123456789.* \t", c) })
	if end < 0 {
		return nil, errors.New("a pattern that says nothing")
	}
	var err error
	if r.pattern, err = scenario.ReadPattern(strings.Join(strings.Fields(line[:end]), "")); err != nil {
		return nil, err
	}
	for statement := range strings.SplitSeq(line[end:], ";") {
		if err := r.read(strings.TrimSpace(statement)); err != nil {
			return nil, err
		}
	}
	o := r.outcome
	bound := r.only || r.not || r.lastEight >= 0 || o.info != "" || o.padded || o.completed || o.tall
	if bound && r.outcome.kind == "" {
		return nil, errors.New("conditions of an outcome without an outcome")
	}
	return r, nil
}

// read takes one statement.
func (r *rule) read(statement string) error {
	words := strings.Fields(statement)
	if len(words) == 0 {
		return errors.New("an empty statement")
	}
	rest := words[1:]
	one := func(allowed ...string) error {
		if len(rest) != 1 || !slices.Contains(allowed, rest[0]) {
			return fmt.Errorf("%q: want %s and one of %s", statement, words[0], strings.Join(allowed, ", "))
		}
		return nil
	}
	switch words[0] {
	case "versions":
		return r.readVersions(statement, rest)
	case "method":
		if r.method != "" {
			return errors.New("two methods")
		}
		r.method = strings.Join(rest, " ")
		return one("answers", "none", "silent")
	case "not":
		r.absent = r.absent || statement == "not enrolled"
		r.not = r.not || statement == "not 3RI"
		return one("enrolled", "3RI")
	case "only":
		r.only = true
		return one("3RI")
	case "last":
		return r.readBound(statement, rest)
	case "cres":
		r.outcome.padded = r.outcome.padded || statement == "cres padded"
		r.outcome.completed = r.outcome.completed || statement == "cres completed"
		return one("padded", "completed")
	case "page":
		r.outcome.tall = true
		return one("tall")
	case "info":
		r.outcome.info = strings.TrimSpace(strings.TrimPrefix(statement, "info"))
		if n := len([]rune(r.outcome.info)); n == 0 || n > 128 {
			return errors.New("info has 1-128 characters")
		}
		return nil
	case "answer", "challenge", "decoupled", "silence":
		return r.readOutcome(statement, words[0], rest)
	}
	return fmt.Errorf("unknown word %q", words[0])
}

func (r *rule) readVersions(statement string, rest []string) error {
	if r.versions != nil {
		return errors.New("versions twice")
	}
	for _, v := range rest {
		if !slices.Contains(peer.Versions(), v) {
			return fmt.Errorf("%q: no version %q", statement, v)
		}
	}
	if len(rest) == 0 || !slices.IsSorted(rest) {
		return fmt.Errorf("%q: want versions, ascending", statement)
	}
	r.versions = rest
	return nil
}

func (r *rule) readBound(statement string, rest []string) error {
	if len(rest) != 3 || rest[0] != "eight" || rest[1] != "<=" || !scenario.IsDigits(rest[2]) || len(rest[2]) > 8 {
		return fmt.Errorf("%q: want last eight <= and a number of up to eight digits", statement)
	}
	r.lastEight, _ = strconv.Atoi(rest[2])
	return nil
}

// waysToEnd are the words for how a challenge and a decoupled authentication end.
var waysToEnd = map[string][]string{
	"challenge": {"passes", "fails", "asks", "outside", "decoupled"},
	"decoupled": {"passes", "fails", "expires", "rejected"},
}

func (r *rule) readOutcome(statement, kind string, rest []string) error {
	if r.outcome.kind != "" {
		return errors.New("two outcomes")
	}
	r.outcome.kind = kind
	switch kind {
	case "challenge", "decoupled":
		if how := waysToEnd[kind]; len(rest) != 1 || !slices.Contains(how, rest[0]) {
			return fmt.Errorf("%q: want %s and one of %s", statement, kind, strings.Join(how, ", "))
		}
		r.outcome.how = rest[0]
		return nil
	case "silence":
		if len(rest) > 0 {
			return fmt.Errorf("%q: nothing comes after %s", statement, kind)
		}
		return nil
	}
	if len(rest) == 0 || !slices.Contains([]string{"Y", "N", "A", "R", "I", "U"}, rest[0]) {
		return fmt.Errorf("%q: want answer and Y, N, A, R, I or U", statement)
	}
	r.outcome.status = rest[0]
	needs := slices.Contains([]string{"N", "R", "U"}, rest[0])
	if len(rest) == 1 && !needs {
		return nil
	}
	var found bool
	if len(rest) == 2 {
		r.outcome.reason, found = strings.CutPrefix(rest[1], "reason=")
	}
	if !found || !needs || len(r.outcome.reason) != 2 || !scenario.IsDigits(r.outcome.reason) {
		return fmt.Errorf("%q: N, R and U, and no others, have reason= and two digits", statement)
	}
	return nil
}
