package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A seededFault is a change of the server's source that the check of a row has to notice.
type seededFault struct {
	row, file string
	old, new  string
}

// seededFaults reads testdata/faults.txt.
func seededFaults(t *testing.T) []seededFault {
	t.Helper()
	data, err := os.ReadFile("testdata/faults.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []seededFault
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case line[0] == '-':
			f := &all[len(all)-1]
			f.old += line[1:] + "\n"
		case line[0] == '+':
			f := &all[len(all)-1]
			f.new += line[1:] + "\n"
		default:
			row, file, ok := strings.Cut(line, " ")
			if !ok {
				t.Fatalf("faults.txt: %s", line)
			}
			all = append(all, seededFault{row: row, file: file})
		}
	}
	return all
}

// seeded is the source of the file with the fault.
func (f *seededFault) seeded() (string, error) {
	source, err := os.ReadFile(filepath.Join("../..", f.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), f.old); n != 1 {
		return "", fmt.Errorf("%s has these lines %d times, want once:\n%s", f.file, n, f.old)
	}
	return strings.Replace(string(source), f.old, f.new, 1), nil
}

// buildWith makes the programs with a fault: the compiler reads a changed copy in place of one file, and the tree stays
// as it is.
func (f *seededFault) buildWith(dir string) (programs, error) {
	path, err := filepath.Abs(filepath.Join("../..", f.file))
	if err != nil {
		return programs{}, err
	}
	source, err := f.seeded()
	if err != nil {
		return programs{}, err
	}
	changed, overlay := filepath.Join(dir, filepath.Base(f.file)), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, []byte(source), 0o600); err != nil {
		return programs{}, err
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return programs{}, err
	}
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return programs{}, err
	}
	return buildPrograms(dir, "-overlay", overlay)
}

// TestSeededFaultsMatch: each fault can be put into the source as it is now, and is there once.
func TestSeededFaultsMatch(t *testing.T) {
	faults := seededFaults(t)
	if len(faults) < 100 {
		t.Errorf("%d faults, want 100 at least", len(faults))
	}
	for _, f := range faults {
		if _, err := f.seeded(); err != nil {
			t.Errorf("%s: %v", f.row, err)
		}
	}
}

// TestSeededFaults puts faults into the server, one at a time: the check of the right row notices each. With every
// build it takes minutes, so that all of them are for SEEDED=all, and one for every day. SEEDED may also be a pattern,
// such as ^PR-0, for the faults of some rows.
func TestSeededFaults(t *testing.T) {
	pattern := cmp.Or(os.Getenv("SEEDED"), "^VR-07$")
	if pattern == "all" {
		pattern = ""
	}
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatalf("SEEDED: %v", err)
	}
	noticed := 0
	for _, f := range seededFaults(t) {
		if !wanted.MatchString(f.row) {
			continue
		}
		t.Run(f.row+" "+f.file, func(t *testing.T) {
			binaries, err := f.buildWith(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			// The suite is built with the fault, too: the shop, which some rows look at, has to be that with the fault.
			args := []string{"--server", binaries.server, "--rows", "^" + f.row + "$", "--json"}
			out, _ := exec.CommandContext(t.Context(), binaries.conform, args...).Output()
			var report Report
			if err := json.Unmarshal(out, &report); err != nil {
				t.Fatalf("threeds-conform: %v\n%s", err, out)
			}
			switch got := report.Failing(); {
			case len(got) != 1 || got[0].ID != f.row:
				t.Errorf("%d rows fail, want %s alone, with this in place:\n%s", len(got), f.row, f.new)
			case strings.HasPrefix(got[0].Faults[0], "lab: "):
				t.Errorf("the server does not even start: %s", got[0].Faults[0])
			default:
				noticed++
			}
		})
	}
	t.Logf("%d faults noticed by their rows", noticed)
}
