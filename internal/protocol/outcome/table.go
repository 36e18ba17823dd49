package outcome

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
)

//go:embed outcomes.txt
var tableText string

// noECI stands in a rule for an answer without an eci.
const noECI = "none"

// anything fits every value of a column of a rule.
const anything = "*"

// A Rule is one line of outcomes.txt: who is liable after some answers of a scheme. "*" fits every value.
type Rule struct {
	Scheme   string
	Category string // PA, NPA or 80
	Statuses string // transStatus values, one letter each
	ECI      string // "none": there is none
	Shifts   api.Shifts
	Since    time.Time // first day; zero: it always held
	Because  string
	Source   string // addresses of the public pages, with the day of reading; "" if there is none
}

// Rules returns the rules in their order: the first one that fits counts.
func Rules() []Rule { return slices.Clone(rules) }

var rules = mustReadRules(tableText)

func mustReadRules(text string) []Rule {
	all, err := readRules(text)
	if err != nil {
		panic("outcome: outcomes.txt: " + err.Error())
	}
	return all
}

// readRules reads a text of rules. Anything that it does not understand is an error that names the line.
func readRules(text string) ([]Rule, error) {
	var all []Rule
	var faults []error
	sources := make(map[string]string)
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		var err error
		if rest, ok := strings.CutPrefix(line, "source "); ok {
			err = readSource(sources, rest)
		} else {
			var r Rule
			r, err = readRule(line, sources)
			all = append(all, r)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", i+1, err))
		}
	}
	if len(all) == 0 || !all[len(all)-1].fitsEverything() {
		faults = append(faults, errors.New("the last rule must fit everything at all times: * * * *"))
	}
	return all, errors.Join(faults...)
}

// readSource adds "NAME URL DATE" to sources, as the text that an answer shows.
func readSource(sources map[string]string, line string) error {
	words := strings.Fields(line)
	if len(words) != 3 || !strings.HasPrefix(words[1], "https://") {
		return errors.New("want source NAME https://… DATE")
	}
	if _, err := time.Parse(time.DateOnly, words[2]); err != nil {
		return fmt.Errorf("%q is no date", words[2])
	}
	if sources[words[0]] != "" {
		return fmt.Errorf("source %s twice", words[0])
	}
	sources[words[0]] = words[1] + " (read " + words[2] + ")"
	return nil
}

func readRule(line string, sources map[string]string) (Rule, error) {
	head, rest, _ := strings.Cut(line, ";")
	names, because, _ := strings.Cut(rest, ";")
	words := strings.Fields(head)
	if len(words) != 5 && (len(words) != 7 || words[5] != "since") {
		return Rule{}, errors.New("want SCHEME CATEGORY STATUS ECI SHIFTS [since DATE] ; SOURCE ; BECAUSE")
	}
	r := Rule{
		Scheme: words[0], Category: words[1], Statuses: words[2], ECI: words[3],
		Shifts: api.Shifts(words[4]), Because: strings.TrimSpace(because),
	}
	if len(words) == 7 {
		since, err := time.Parse(time.DateOnly, words[6])
		if err != nil {
			return Rule{}, fmt.Errorf("%q is no date", words[6])
		}
		r.Since = since
	}
	switch {
	case !slices.Contains([]string{anything, "PA", withoutPayment, dataOnlyCategory}, r.Category):
		return Rule{}, fmt.Errorf("%q is no category", r.Category)
	case r.Statuses != anything && strings.Trim(r.Statuses, statuses) != "":
		return Rule{}, fmt.Errorf("%q is no row of transStatus values", r.Statuses)
	case r.Shifts != api.ShiftsYes && r.Shifts != api.ShiftsNo && r.Shifts != api.ShiftsUnknown:
		return Rule{}, fmt.Errorf("%q is not yes, no or unknown", r.Shifts)
	case r.Because == "":
		return Rule{}, errors.New("a rule that does not say why")
	}
	var addresses []string
	for _, name := range strings.Fields(names) {
		if name == "-" {
			continue
		}
		if sources[name] == "" {
			return Rule{}, fmt.Errorf("no source is called %q", name)
		}
		addresses = append(addresses, sources[name])
	}
	if isByLogic := r.Shifts == api.ShiftsNo && r.Category == withoutPayment; len(addresses) == 0 &&
		r.Shifts != api.ShiftsUnknown && !isByLogic {
		return Rule{}, errors.New("a rule without a source may say unknown only, or no where there is no payment")
	}
	r.Source = strings.Join(addresses, ", ")
	return r, nil
}

// fitsEverything reports whether the rule is about every answer on every day.
func (r *Rule) fitsEverything() bool {
	return r.Scheme+r.Category+r.Statuses+r.ECI == strings.Repeat(anything, 4) && r.Since.IsZero()
}

// fits reports whether the rule is about such an answer on a day.
func (r *Rule) fits(scheme, category, status, eci string, day time.Time) bool {
	if eci == "" {
		eci = noECI
	}
	return (r.Scheme == anything || r.Scheme == scheme) &&
		(r.Category == anything || r.Category == category) &&
		(r.Statuses == anything || strings.Contains(r.Statuses, status)) &&
		(r.ECI == anything || r.ECI == eci) &&
		!day.Before(r.Since)
}

// ruleOf returns the rule for an answer on a day.
func ruleOf(scheme, category, status, eci string, day time.Time) *Rule {
	for i := range rules {
		if rules[i].fits(scheme, category, status, eci, day) {
			return &rules[i]
		}
	}
	return &rules[len(rules)-1] // it fits everything
}
