// Package mutants shows that the tests of packages notice faults: it puts each of mutants.txt into
// the code and runs them.
package mutants

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/testing/seed"
)

const root = "../.."

func readMutants(t *testing.T) []seed.Fault {
	t.Helper()
	all, err := seed.Read("mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestMutantsMatch: each fault can be put into the code as it is now. There are thirty at least, in ten packages.
func TestMutantsMatch(t *testing.T) {
	all := readMutants(t)
	var packages []string
	for _, m := range all {
		if _, err := m.Source(root); err != nil {
			t.Error(err)
		}
		packages = append(packages, m.Name)
	}
	slices.Sort(packages)
	if n := len(slices.Compact(packages)); len(all) < 30 || n < 10 {
		t.Errorf("%d faults in %d packages, want 30 in 10", len(all), n)
	}
}

// TestMutantsAreNoticed builds the tests of a package with each fault: they compile, and one of them fails. It takes
// minutes, so it is for MUTANTS=all, or for a pattern of packages, such as MUTANTS=internal/engine/auth.
func TestMutantsAreNoticed(t *testing.T) {
	pattern := os.Getenv("MUTANTS")
	if pattern == "" {
		t.Skip("each fault takes a build and a run: make test-all, or MUTANTS=all")
	}
	if pattern == "all" {
		pattern = ""
	}
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatalf("MUTANTS: %v", err)
	}
	for _, m := range readMutants(t) {
		if !wanted.MatchString(m.Name) {
			continue
		}
		t.Run(m.Name+" "+strings.TrimSpace(m.New), func(t *testing.T) {
			overlay, err := m.Overlay(root, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-failfast", overlay, "./"+m.Name)
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			failure := regexp.MustCompile(`(?m)^ *--- FAIL: \S+|^panic: `).FindString(string(out))
			switch {
			case err == nil:
				t.Error("no test fails")
			case failure == "":
				t.Errorf("no test fails, but something else:\n%s", out)
			default:
				t.Logf("noticed: %s", strings.TrimSpace(failure))
			}
		})
	}
}
