package conformance

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var rows = flag.String("rows", "", "run the checks of the rows that match this alone, such as MC-1 or ^VG")

// programs are the paths of the programs that the tests build.
type programs struct{ server, conform string }

// buildPrograms compiles the server and the conformance suite into a directory.
func buildPrograms(dir string, flags ...string) (programs, error) {
	flags = append(flags, "../../cmd/threeds", "../cmd/threeds-conform")
	return programs{filepath.Join(dir, "threeds"), filepath.Join(dir, "threeds-conform")}, goBuild(dir, flags...)
}

// goBuild compiles programs into a directory.
func goBuild(dir string, args ...string) error {
	cmd := exec.Command("go", slices.Concat([]string{"build", "-ldflags=-s -w", "-o", dir}, args)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// buildDir is where buildOnce puts the programs.
var buildDir string

// buildOnce makes the programs of this tree for all tests. If THREEDS_BINARY names the server, that one is used.
var buildOnce = sync.OnceValues(func() (programs, error) {
	if server := os.Getenv("THREEDS_BINARY"); server != "" {
		return programs{server, filepath.Join(buildDir, "threeds-conform")}, goBuild(buildDir, "../cmd/threeds-conform")
	}
	return buildPrograms(buildDir)
})

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "threeds-conformance"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(buildDir)
	os.Exit(code)
}

// build returns the programs of this tree.
func build(t *testing.T) programs {
	t.Helper()
	binaries, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	// The result of a test is cached until a file changes that the test itself has looked
	// at: what the go command reads does not count.
	err = filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err == nil && generated(e) {
			return filepath.SkipDir
		}
		if err == nil && !e.IsDir() {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return binaries
}

// generated reports whether e is a directory that is not part of the source, to which
// others may write meanwhile.
func generated(e fs.DirEntry) bool {
	return e.IsDir() && (e.Name() == ".git" || e.Name() == "artifacts")
}

// TestConformance runs every check against a build of this tree and prints the
// table of the groups.
func TestConformance(t *testing.T) {
	binaries := build(t)
	suite := &Suite{Binary: binaries.server, Workers: 6}
	defer suite.Close()
	only := regexp.MustCompile(*rows)
	results := suite.Run(t.Context(), only.MatchString)
	for _, got := range results {
		t.Run(got.ID, func(t *testing.T) { judge(t, got) })
	}
	t.Run("command", func(t *testing.T) { checkCommand(t, binaries) })
	if *rows == "" {
		page(t, NewReport(results))
	}
	var table bytes.Buffer
	if err := NewReport(results).Text(&table); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

// judge fails the test if the check has found faults.
func judge(t *testing.T, got Result) {
	t.Helper()
	if got.Took > 3*time.Second {
		t.Logf("took %v", got.Took)
	}
	open := slices.ContainsFunc(Rows(), func(r Row) bool { return r.ID == got.ID && r.How == Open })
	switch {
	case open && len(got.Faults) == 0:
		t.Error("the check of an open row passes: write box into rows.txt")
	case open:
		t.Skipf("open: %s", strings.Join(got.Faults, "\n"))
	case len(got.Faults) == 0:
		return
	}
	t.Error(strings.Join(got.Faults, "\n"))
	for _, e := range got.Exchanges[max(0, len(got.Exchanges)-12):] {
		t.Logf("%s: %s", e.Leg, e.Text)
	}
}

// checkCommand runs the suite as a program: on a server that it starts, and on one that runs already.
func checkCommand(t *testing.T, binaries programs) {
	t.Helper()
	l, err := newLab(binaries.server, plan{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for name, args := range map[string][]string{
		"started": {"--server", binaries.server, "--rows", "^MC-1[34]$", "--json"},
		"other":   {"--json", "--api", l.api, "--key", "-", "--card", "4000001234567899"},
	} {
		cmd := exec.Command(binaries.conform, args...)
		cmd.Stdin = strings.NewReader(l.key + "\n")
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var report Report
		if err := json.Unmarshal(out, &report); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, v := range report.Failing() {
			t.Errorf("%s: %s: %s", name, v.ID, strings.Join(v.Faults, "\n"))
		}
		seen := slices.DeleteFunc(report.Verdicts, func(v Verdict) bool { return len(v.Exchanges) == 0 })
		want := map[string]int{"started": 2, "other": 45}[name]
		if len(seen) < want || bytes.Contains(out, []byte("4000001234567899")) {
			t.Errorf("%s: %d rows with exchanges, want %d at least; a card number is shown: %t", name, len(seen), want,
				bytes.Contains(out, []byte("4000001234567899")))
		}
		// MC-23 goes over a map: it must not end at the first entry that needs a lab.
		for _, row := range []string{"MC-23", "PR-27"} {
			if name == "other" && !slices.ContainsFunc(seen, func(v Verdict) bool { return v.ID == row }) {
				t.Errorf("%s: no %s", name, row)
			}
		}
	}
}

// page holds docs/conformance.md equal to what a run says.
func page(t *testing.T, r *Report) {
	t.Helper()
	const file = "../../docs/conformance.md"
	var want bytes.Buffer
	if err := r.Page(&want); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not what this run says (%v); go test ./conformance -update", file, err)
	}
}
