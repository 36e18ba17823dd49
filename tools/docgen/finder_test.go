package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/message"
)

// readPage returns a page below docs/.
func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestErrorFinderHasEveryError: each error code, each type of a problem, each rule, each limit and each time has a row
// in the finder that explains it.
func TestErrorFinderHasEveryError(t *testing.T) {
	page := readPage(t, "error-finder.md")
	var names []string
	for c := message.Code(100); c < 500; c++ {
		if c.Description() != message.Code(0).Description() {
			names = append(names, c.String())
		}
	}
	_, errors, _ := strings.Cut(readPage(t, "authentications.md"), "\n## Errors\n")
	_, rules, _ := strings.Cut(errors, "| `rule` | The value |")
	rules, _, _ = strings.Cut(rules, "\n\n")
	for row := range strings.Lines(rules) {
		if cells := cellsOf(row); len(cells) > 1 {
			for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(cells[0], -1) {
				names = append(names, m[1])
			}
		}
	}
	for _, from := range []struct{ text, pattern string }{
		{errors, "`(" + problemURN + "[a-z-]+)`"}, {readPage(t, "configuration.md"), "(?m)^\\| `((?:limits|timeouts)\\.[a-z_]+)` \\|"},
	} {
		for _, m := range regexp.MustCompile(from.pattern).FindAllStringSubmatch(from.text, -1) {
			names = append(names, m[1])
		}
	}
	for _, name := range names {
		row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(name) + "` \\|(.*)\\|$").FindStringSubmatch(page)
		if row == nil {
			t.Errorf("docs/error-finder.md has no row for %s", name)
		} else if cells := cellsOf(row[1]); len(cells[len(cells)-1]) < len("is missing") {
			t.Errorf("docs/error-finder.md explains nothing of %s: %q", name, row[0])
		}
	}
	if len(names) < 70 {
		t.Errorf("%d names, fewer than there must be", len(names))
	}
}

// TestCardFinderHasEveryEnd: each ending that the last four digits of a card decide is in the finder, with a number for
// each scheme of it, and says in which channels it works.
func TestCardFinderHasEveryEnd(t *testing.T) {
	_, table, _ := strings.Cut(readPage(t, "test-cards.md"), cardFinderStart)
	table, _, _ = strings.Cut(table, cardFinderEnd)
	cards, err := os.ReadFile(filepath.Join(root, "sandbox/scenarios/cards.txt"))
	if err != nil {
		t.Fatal(err)
	}
	ends := regexp.MustCompile(`(?m)^\*\.\.(\d\d) +(.*?) *(?:#.*)?$`).FindAllStringSubmatch(string(cards), -1)
	for _, end := range ends {
		channels := "browser, app, 3RI"
		if strings.Contains(end[2], "not 3RI") || strings.Contains(end[2], "challenge") || strings.Contains(end[2], "answer I") {
			channels = "browser, app"
		} else if strings.Contains(end[2], "only 3RI") {
			channels = "3RI"
		}
		want := "| " + channels + " | `4000 0000 0000 01" + end[1] + "` | `5105 0000 0000 01" + end[1] + "` | `3400 0000 0000 01" + end[1] + "` |\n"
		if !strings.Contains(table, want) {
			t.Errorf("the finder of cards has no row that ends with %q", want)
		}
	}
	if rows := strings.Count(table, " | `4000 "); len(ends) < 18 || rows != len(ends) {
		t.Errorf("%d endings and %d rows", len(ends), rows)
	}
}

// TestSchemesAtAGlanceHasEachScheme: each scheme is in the first table of the page, with all that it requires, or among
// those that no public source asks anything of.
func TestSchemesAtAGlanceHasEachScheme(t *testing.T) {
	_, glance, _ := strings.Cut(readPage(t, "schemes.md"), "\n## At a glance\n")
	glance, _, _ = strings.Cut(glance, "\n## ")
	for _, p := range scheme.Profiles() {
		link := "[" + p.Name + "](#" + anchor(p.Name) + ")"
		if scheme.IsName(p.Scheme) != strings.Contains(glance, link) {
			t.Errorf("%s is at a glance: %t, want %t", p.Name, !scheme.IsName(p.Scheme), scheme.IsName(p.Scheme))
		}
		for _, f := range p.Facts {
			if f.Kind == scheme.Require && scheme.IsName(p.Scheme) && !strings.Contains(glance, elements(f)) {
				t.Errorf("%s requires %s, which is not at a glance", p.Name, elements(f))
			}
		}
	}
}
