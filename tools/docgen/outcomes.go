package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/outcome"
)

const (
	outcomesStart = "<!-- outcomes: generated from internal/protocol/outcome/outcomes.txt -->\n"
	outcomesEnd   = "<!-- end of outcomes -->\n"
)

// outcomePage is docs/authorisation.md with a fresh table between its marks.
func outcomePage(root string) ([]byte, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs/authorisation.md"))
	if err != nil {
		return nil, err
	}
	return between(page, outcomesStart, outcomesEnd, liabilityTable(outcome.Rules()))
}

// liabilityTable has a row per rule, and under it the public pages that the rules come from.
func liabilityTable(rules []outcome.Rule) string {
	var b strings.Builder
	b.WriteString("| Scheme | Category | `transStatus` | `eci` | Since | Liability goes to the issuer | Why | Sources |\n" +
		"|" + strings.Repeat(" --- |", 8) + "\n")
	var sources []string
	number := func(source string) string {
		for i, s := range sources {
			if s == source {
				return fmt.Sprintf("[%d]", i+1)
			}
		}
		sources = append(sources, source)
		return fmt.Sprintf("[%d]", len(sources))
	}
	for _, r := range rules {
		var numbers []string
		if r.Source != "" {
			for _, source := range strings.Split(r.Source, ", ") {
				numbers = append(numbers, number(source))
			}
		}
		since := ""
		if !r.Since.IsZero() {
			since = r.Since.Format(time.DateOnly)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", anyOf(r.Scheme), anyOf(r.Category), anyOf(r.Statuses),
			anyOf(r.ECI), since, r.Shifts, r.Because, strings.Join(numbers, " "))
	}
	b.WriteString("\nSources:\n\n")
	for i, source := range sources {
		fmt.Fprintf(&b, "%d. %s\n", i+1, source)
	}
	b.WriteString("\n")
	return b.String()
}

// anyOf is a value of a rule for people: "any" for "*".
func anyOf(value string) string {
	if value == "*" {
		return "any"
	}
	return "`" + value + "`"
}
