package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/api"
)

const (
	cardFinderStart = "<!-- finder: generated from sandbox/scenarios/cards.txt -->\n"
	cardFinderEnd   = "<!-- end of finder -->\n"
)

// finderBeginnings are the first twelve digits of the cards in the finder, by scheme.
var finderBeginnings = []struct{ scheme, digits string }{
	{"Visa", "400000000000"}, {"Mastercard", "510500000000"}, {"American Express", "340000000000"},
}

// cardFinder has the cards whose last four digits decide, ordered by the result: where each of them works, and its
// number for some schemes. Its cards have no 3DS Method.
func cardFinder(text []byte) (string, error) {
	type row struct {
		order int
		text  string
	}
	var rows []row
	var table string
	err := eachLine(text, func(line, _ string) error {
		if of, isTable := strings.CutPrefix(line, "table "); isTable {
			table = of
			return nil
		}
		pattern, statements := splitCard(line)
		last, isEnd := strings.CutPrefix(pattern, "*..")
		if table != "*" || !isEnd {
			return nil
		}
		does, err := cardWords(statements)
		if err != nil {
			return err
		}
		results, err := finderResults(statements)
		if err != nil {
			return err
		}
		for _, part := range []string{"in app and browser; ", "in 3RI; "} {
			does = strings.Replace(does, part, "", 1)
		}
		cells := []string{"`" + strings.Join(results, "` or `") + "`", does, finderChannels(statements)}
		for _, of := range finderBeginnings {
			cells = append(cells, "`"+grouped(of.digits+"01"+last)+"`")
		}
		order := slices.Index(api.Results(), api.Result(results[0]))
		rows = append(rows, row{order, "| " + strings.Join(cells, " | ") + " |"})
		return nil
	})
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.order, b.order) })
	head := "| `result` | What happens | Works in |"
	for _, of := range finderBeginnings {
		head += " " + of.scheme + " |"
	}
	var b strings.Builder
	b.WriteString(head + "\n" + divider(head))
	for _, r := range rows {
		b.WriteString(r.text + "\n")
	}
	return b.String() + "\n", err
}

// finderChannels says in which device channels a card of these statements does what they say.
func finderChannels(statements string) string {
	switch {
	case strings.Contains(statements, "only 3RI"):
		return "3RI"
	case strings.Contains(statements, "not 3RI"), strings.Contains(statements, "challenge"), strings.Contains(statements, "answer I"):
		return "browser, app"
	}
	return "browser, app, 3RI"
}

// decoupledEnds are the members of the RReq of a decoupled authentication, by its statement.
var decoupledEnds = map[string]map[string]string{
	"decoupled passes":   {"transStatus": "Y"},
	"decoupled fails":    {"transStatus": "N", "transStatusReason": "01"},
	"decoupled expires":  {"transStatus": "U", "transStatusReason": "24", "challengeCancel": "03"},
	"decoupled rejected": {"transStatus": "R", "transStatusReason": "11"},
}

// finderResults returns the results with which an authentication may end, if the requestor asks for what the card
// offers.
func finderResults(statements string) ([]string, error) {
	for statement, members := range decoupledEnds {
		if strings.Contains(statements, statement) {
			result, _, _ := strings.Cut(ending(api.StatusCompleted, members, 0), ":")
			return []string{result}, nil
		}
	}
	ends, err := endsOf(statements)
	var results []string
	for _, e := range ends {
		result, _, _ := strings.Cut(e.ends, ":")
		results = append(results, result)
	}
	if len(results) == 0 && err == nil {
		err = fmt.Errorf("no result of %q", statements)
	}
	return results, err
}
