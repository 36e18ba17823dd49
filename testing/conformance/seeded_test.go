package conformance

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/testing/seed"
)

// root is the repository, from the folder of the suite.
const root = "../.."

// seededFaults reads testdata/faults.txt: changes of the server's source that the check of a row has to notice. The
// name of each is its row.
func seededFaults(t *testing.T) []seed.Fault {
	t.Helper()
	all, err := seed.Read("testdata/faults.txt")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// buildWith makes the programs with a fault.
func buildWith(f *seed.Fault, dir string) (programs, error) {
	overlay, err := f.Overlay(root, dir)
	if err != nil {
		return programs{}, err
	}
	return buildPrograms(dir, overlay)
}

// TestSeededFaultsMatch: each fault can be put into the source as it is now, and is there once.
func TestSeededFaultsMatch(t *testing.T) {
	faults := seededFaults(t)
	if len(faults) < 100 {
		t.Errorf("%d faults, want 100 at least", len(faults))
	}
	for _, f := range faults {
		if _, err := f.Source(root); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

// TestSeededFaults puts faults into the server, one at a time: the check of the right row notices each. With every
// build it takes minutes, so that all of them are for SEEDED=all, and one for every day: it is in a package that few
// others import, so that little has to be compiled. SEEDED may also be a pattern, such as ^PR-0, for the faults of some
// rows.
func TestSeededFaults(t *testing.T) {
	pattern := cmp.Or(os.Getenv("SEEDED"), "^HT-10$")
	if pattern == "all" {
		pattern = ""
	}
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatalf("SEEDED: %v", err)
	}
	noticed := 0
	for _, f := range seededFaults(t) {
		if !wanted.MatchString(f.Name) {
			continue
		}
		t.Run(f.Name+" "+f.File, func(t *testing.T) {
			binaries, err := buildWith(&f, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			// The suite is built with the fault, too: the shop, which some rows look at, has to be that with the fault.
			args := []string{"--server", binaries.server, "--rows", "^" + f.Name + "$", "--json"}
			out, _ := exec.CommandContext(t.Context(), binaries.conform, args...).Output()
			var report Report
			if err := json.Unmarshal(out, &report); err != nil {
				t.Fatalf("threeds-conform: %v\n%s", err, out)
			}
			switch got := report.Failing(); {
			case len(got) != 1 || got[0].ID != f.Name:
				t.Errorf("%d rows fail, want %s alone, with this in place:\n%s", len(got), f.Name, f.New)
			case strings.HasPrefix(got[0].Faults[0], "lab: "):
				t.Errorf("the server does not even start: %s", got[0].Faults[0])
			default:
				noticed++
			}
		})
	}
	t.Logf("%d faults noticed by their rows", noticed)
}
