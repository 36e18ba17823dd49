package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestGoalsNameTests: each test that docs/goals.md names is there, and so is each target of make.
func TestGoalsNameTests(t *testing.T) {
	page, err := os.ReadFile("../../docs/goals.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| [A-Z]{2}[0-9]+: .*\\| (.*) \\| `(.*)` \\|$").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 10 {
		t.Fatalf("docs/goals.md has %d goals, want 10 at least", len(rows))
	}
	for _, row := range rows {
		if test := row[2]; strings.HasPrefix(test, "Test") {
			if out, err := exec.Command("grep", "-rlE", "--include=*_test.go", "^func "+test+`\(`, "../..").Output(); err != nil {
				t.Errorf("docs/goals.md names %s, and no such test is there: %s", test, out)
			}
		}
		for _, target := range regexp.MustCompile("make ([a-z-]+)").FindAllStringSubmatch(row[0], -1) {
			if !strings.Contains(string(makefile), "\n"+target[1]+":") {
				t.Errorf("docs/goals.md names make %s, and the Makefile has no such target", target[1])
			}
		}
	}
}
