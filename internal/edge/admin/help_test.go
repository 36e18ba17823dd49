package admin_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHelpOfNoticesIsThere: each notice, and the page of a console without a store, leads to what the manual says of an
// alert.
func TestHelpOfNoticesIsThere(t *testing.T) {
	manual := map[string]string{"alerts": "alerts.md", "state": "alerts-state.md", "alerts-state": "alerts-state.md"}
	for name, file := range manual {
		text, err := os.ReadFile("../../../docs/operating/" + file)
		if err != nil {
			t.Fatal(err)
		}
		manual[name] = strings.ToLower(string(text))
	}
	link := regexp.MustCompile(`(?:\b(alerts|state)Help ?\+ ?"|operating/(alerts-state|alerts)\.html#threeds)([a-z]+)"`)
	found := 0
	for _, pattern := range []string{"*.go", "../login/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range link.FindAllStringSubmatch(string(text), -1) {
				found++
				if !strings.Contains(manual[m[1]+m[2]], "\n### threeds"+m[3]+"\n") {
					t.Errorf("%s leads to %s, which is not in the manual", file, m[0])
				}
			}
		}
	}
	if found < 14 {
		t.Errorf("only %d links were found", found)
	}
}
