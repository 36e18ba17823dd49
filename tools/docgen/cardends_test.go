package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestF11EveryCardHasItsEnd: the table of docs/browser.md has a card of each line of the sandbox's text that a browser
// can meet, and each card that docs/test-cards.md gives to paste.
func TestF11EveryCardHasItsEnd(t *testing.T) {
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	page, err := browserPage(root)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), endsStart)
	listed := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `([0-9 ]+)` ").FindAllStringSubmatch(table, -1) {
		listed[strings.ReplaceAll(m[1], " ", "")] = true
	}

	lines := 0
	var of string
	err = eachLine([]byte(read("sandbox/scenarios/cards.txt")), func(line, _ string) error {
		if named, ok := strings.CutPrefix(line, "table "); ok {
			of = strings.ReplaceAll(named, " ", "")
			return nil
		}
		pattern, statements := splitCard(line)
		if pattern = strings.ReplaceAll(pattern, " ", ""); strings.Contains(statements, "only 3RI") {
			return nil
		}
		if pattern == "*" && !strings.Contains(of, "*") {
			pattern = strings.Split(of, ",")[0] // a table of whole numbers
		}
		lines++
		form := regexp.MustCompile("^" + strings.ReplaceAll(pattern, "*", ".*") + "$")
		for card := range listed {
			if form.MatchString(card) {
				return nil
			}
		}
		t.Errorf("no card of the table is one of %q", line)
		return nil
	})
	if err != nil || lines < 40 {
		t.Errorf("%d lines of cards.txt, %v, want 40 at least", lines, err)
	}

	_, few, _ := strings.Cut(read("docs/test-cards.md"), "A few to paste")
	few, _, _ = strings.Cut(few, "\n\nRules beside")
	pasted := 0
	for _, m := range regexp.MustCompile("`(…?[0-9 ]{4,19})`").FindAllStringSubmatch(few, -1) {
		card := strings.ReplaceAll(strings.Replace(m[1], "…", "400000000000", 1), " ", "")
		if pasted++; !listed[card] {
			t.Errorf("%s is a card to paste, and has no end in docs/browser.md", card)
		}
	}
	if pasted < 25 {
		t.Errorf("%d cards to paste, want 25 at least", pasted)
	}
}

// TestF11EndsFollowTheStatements: the end of a card is that of its statements, by the table of outcomes.
func TestF11EndsFollowTheStatements(t *testing.T) {
	for statements, want := range map[string]string{
		"method none; answer Y":             " authenticated: authorise",
		"answer N reason=01":                " not_authenticated: do_not_authorise",
		"answer A":                          " attempted: authorise",
		"answer R reason=11":                " rejected: do_not_authorise",
		"answer I":                          " informational: authorise",
		"answer U reason=03":                " unavailable: authorise_without_authentication",
		"answer N reason=01; info Call us.": "continue not_authenticated: do_not_authorise",
		"silence":                           " error: retry_later",
		"challenge asks":                    "submit authenticated: authorise|cancel abandoned: do_not_authorise",
		"challenge outside":                 "approve authenticated: authorise|decline not_authenticated: do_not_authorise",
		"challenge fails; cres padded":      " not_authenticated: do_not_authorise",
		"not 3RI; challenge decoupled":      " error: do_not_authorise",
		"decoupled passes":                  " error: do_not_authorise",
		"not enrolled":                      " not_enrolled: authorise_without_authentication",
	} {
		ends, err := endsOf(statements)
		var got []string
		for _, e := range ends {
			got = append(got, e.press+" "+e.ends)
		}
		if strings.Join(got, "|") != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", statements, got, err, want)
		}
	}
	if ends, err := endsOf("answers something new"); err == nil {
		t.Errorf("%+v", ends)
	}
}
