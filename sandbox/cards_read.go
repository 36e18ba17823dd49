package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// readCards reads a card table. It takes nothing for granted: what it does not
// understand is an error that names the line.
func readCards(text string) (cardTable, error) {
	var t cardTable
	if err := eachLine(text, t.readLine); err != nil {
		return t, err
	}
	return t, errors.Join(t.holes()...)
}

// holes finds tables that say nothing.
func (t cardTable) holes() (faults []error) {
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

// readTable reads the cards after "table": several patterns, or one with
// spaces in it, which begins no pattern of its own when it has neither star.
func (t *cardTable) readTable(cards string) error {
	words := strings.Fields(cards)
	if !strings.Contains(cards, "*") {
		words = []string{strings.Join(words, "")}
	}
	part := section{name: strings.Join(words, " ")}
	for _, word := range words {
		p, err := readPattern(word)
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
	if r.pattern, err = readPattern(strings.Join(strings.Fields(line[:end]), "")); err != nil {
		return nil, err
	}
	for statement := range strings.SplitSeq(line[end:], ";") {
		if err := r.read(strings.TrimSpace(statement)); err != nil {
			return nil, err
		}
	}
	bound := r.only || r.not || r.lastEight >= 0 || r.deed.info != "" || r.deed.padded
	if bound && r.deed.kind == "" {
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
		r.deed.padded = true
		return one("padded")
	case "info":
		r.deed.info = strings.TrimSpace(strings.TrimPrefix(statement, "info"))
		if n := len([]rune(r.deed.info)); n == 0 || n > 128 {
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
		if !slices.Contains(versions(), v) {
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
	if len(rest) != 3 || rest[0] != "eight" || rest[1] != "<=" || !digits(rest[2]) || len(rest[2]) > 8 {
		return fmt.Errorf("%q: want last eight <= and a number of up to eight digits", statement)
	}
	r.lastEight, _ = strconv.Atoi(rest[2])
	return nil
}

func (r *rule) readOutcome(statement, kind string, rest []string) error {
	if r.deed.kind != "" {
		return errors.New("two outcomes")
	}
	r.deed.kind = kind
	switch kind {
	case "challenge":
		if len(rest) != 1 || !slices.Contains([]string{"passes", "fails", "asks"}, rest[0]) {
			return fmt.Errorf("%q: want challenge and passes, fails or asks", statement)
		}
		r.deed.how = rest[0]
		return nil
	case "decoupled", "silence":
		if len(rest) > 0 {
			return fmt.Errorf("%q: nothing comes after %s", statement, kind)
		}
		return nil
	}
	if len(rest) == 0 || !slices.Contains([]string{"Y", "N", "A", "R", "I", "U"}, rest[0]) {
		return fmt.Errorf("%q: want answer and Y, N, A, R, I or U", statement)
	}
	r.deed.status = rest[0]
	needs := slices.Contains([]string{"N", "R", "U"}, rest[0])
	if len(rest) == 1 && !needs {
		return nil
	}
	var found bool
	if len(rest) == 2 {
		r.deed.reason, found = strings.CutPrefix(rest[1], "reason=")
	}
	if !found || !needs || len(r.deed.reason) != 2 || !digits(r.deed.reason) {
		return fmt.Errorf("%q: N, R and U, and no others, have reason= and two digits", statement)
	}
	return nil
}
