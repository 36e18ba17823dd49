package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/message"
)

// TestD12EveryElementHasItsCures: each element that a requestor may send has a row in each version that has it, with a
// rule of the closed list and a cure.
func TestD12EveryElementHasItsCures(t *testing.T) {
	rules := []string{
		"type", "required", "length", "pattern", "unknown-code", "condition", "version", "range", "address",
	}
	row := regexp.MustCompile("^\\| (?:`(\\w+)`)? \\| (\\d{3}) \\| `([a-z-]+)` \\| (.+) \\|$")
	page := string(curesPage())
	for _, v := range message.Versions() {
		_, section, found := strings.Cut(page, "\n## "+v.String()+"\n")
		if !found {
			t.Fatalf("there is no section for %s", v)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		named := make(map[string]bool)
		for _, line := range strings.Split(strings.TrimSpace(section), "\n")[2:] {
			m := row.FindStringSubmatch(line)
			if m == nil || !slices.Contains(rules, m[3]) || !strings.HasPrefix(m[4], "Send ") && !strings.HasPrefix(m[4], "Leave ") {
				t.Errorf("%s: %s", v, line)
				continue
			}
			named[m[1]] = true
		}
		for _, f := range message.TableOf(message.AReq, v).Fields {
			isOurs := slices.Contains(serverOwned, f.Name) || slices.Contains(sources, f.Name)
			if !named[f.Name] && !isOurs {
				t.Errorf("%s: %s has no cure", v, f.Name)
			}
		}
	}
}
