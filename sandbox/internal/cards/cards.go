// Package cards says what is known of a card number: the [Scheme] that it belongs to, see [SchemeOf], and what its
// issuer does, which a [Table] has. It is data and no network: directory servers and issuers ask it.
package cards

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/sandbox/internal/peer"
	"github.com/openthreeds/threeds/sandbox/internal/scenario"
)

// An Outcome is what the issuer does with an AReq.
type Outcome struct {
	Kind   string // "answer", "challenge", "decoupled", "silence"
	Status string // of answer: transStatus
	Reason string // of answer: transStatusReason
	How    string // of challenge and decoupled: how it ends
	Info   string // cardholderInfo

	Padded    bool // the CRes is padded base64url
	Completed bool // the CRes has challengeCompletionInd
	Tall      bool // the page of the challenge is taller than its frame

	ECI      string // in place of what the scheme puts next to the status; "" means that
	HasValue bool   // it has an authentication value, whatever the status
}

// A rule is one line of the table.
type rule struct {
	pattern   scenario.Pattern
	absent    bool
	versions  []string
	method    string
	outcome   Outcome
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

// A Table is the tables of the text, in its order.
type Table []section

// A section is one table of the text: the cards that it is for, and its lines.
type section struct {
	name  string
	cards []scenario.Pattern
	rules []*rule
}

// A Lookup is all that the table says about one card number.
type Lookup struct {
	Absent   bool
	Versions []string
	Method   string
	outcomes []*rule
}

// Listed says whether the table is complete for the card.
func (f Lookup) Listed() bool {
	return len(f.Versions) > 0 && f.Method != "" && len(f.outcomes) > 0
}

// Find returns what the table says about a card number.
func (t Table) Find(pan string) Lookup {
	var f Lookup
	for _, part := range t {
		if !slices.ContainsFunc(part.cards, func(p scenario.Pattern) bool { return p.Match(pan) }) {
			continue
		}
		for _, r := range part.rules {
			if !r.pattern.Match(pan) {
				continue
			}
			f.Absent = f.Absent || r.absent
			if f.Versions == nil {
				f.Versions = r.versions
			}
			if f.Method == "" {
				f.Method = r.method
			}
			if r.outcome.Kind != "" {
				f.outcomes = append(f.outcomes, r)
			}
		}
		break
	}
	return f
}

// HasOutcome says whether the table has an outcome for the card, in some channel. In 3RI
// there is no 3DS Method, and nothing hangs on it.
func (f Lookup) HasOutcome(threeRI bool) bool {
	return !f.Absent && (f.Listed() || threeRI && len(f.Versions) > 0 && len(f.outcomes) > 0)
}

// Outcome is what becomes of an AReq of an enrolled card; false when the table
// has nothing for it.
func (f Lookup) Outcome(pan string, threeRI bool) (Outcome, bool) {
	if !f.HasOutcome(threeRI) {
		return Outcome{}, false
	}
	for _, r := range f.outcomes {
		if r.holds(pan, threeRI) {
			return r.outcome, true
		}
	}
	return Outcome{}, false
}

// Read reads a card table. It takes nothing for granted: what it does not
// understand is an error that names the line.
func Read(text string) (Table, error) {
	var t Table
	if err := scenario.EachLine(text, t.readLine); err != nil {
		return t, err
	}
	return t, errors.Join(t.checkComplete()...)
}

// checkComplete finds tables that say nothing.
func (t Table) checkComplete() (faults []error) {
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

func (t *Table) readLine(line string) error {
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
func (t *Table) readTable(cards string) error {
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
	bound := r.only || r.not || r.lastEight >= 0 || o.Info != "" || o.Padded || o.Completed || o.Tall
	if bound && r.outcome.Kind == "" {
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
		r.outcome.Padded = r.outcome.Padded || statement == "cres padded"
		r.outcome.Completed = r.outcome.Completed || statement == "cres completed"
		return one("padded", "completed")
	case "page":
		r.outcome.Tall = true
		return one("tall")
	case "info":
		r.outcome.Info = strings.TrimSpace(strings.TrimPrefix(statement, "info"))
		if n := len([]rune(r.outcome.Info)); n == 0 || n > 128 {
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
	if r.outcome.Kind != "" {
		return errors.New("two outcomes")
	}
	r.outcome.Kind = kind
	switch kind {
	case "challenge", "decoupled":
		if how := waysToEnd[kind]; len(rest) != 1 || !slices.Contains(how, rest[0]) {
			return fmt.Errorf("%q: want %s and one of %s", statement, kind, strings.Join(how, ", "))
		}
		r.outcome.How = rest[0]
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
	r.outcome.Status = rest[0]
	needs := slices.Contains([]string{"N", "R", "U"}, rest[0])
	if len(rest) == 1 && !needs {
		return nil
	}
	var found bool
	if len(rest) == 2 {
		r.outcome.Reason, found = strings.CutPrefix(rest[1], "reason=")
	}
	if !found || !needs || len(r.outcome.Reason) != 2 || !scenario.IsDigits(r.outcome.Reason) {
		return fmt.Errorf("%q: N, R and U, and no others, have reason= and two digits", statement)
	}
	return nil
}

// HasPerson says whether a challenge waits for a person to decide it.
func (o Outcome) HasPerson() bool { return o.How == "asks" || o.How == "outside" }
