package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRunsNameWhatIsThere: each run has a name of its own, and its commands name scripts, folders, tests and
// benchmarks that are there.
func TestRunsNameWhatIsThere(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range runs {
		if seen[r.name] || r.about == "" || len(r.commands) == 0 {
			t.Errorf("%s is there twice, or says nothing, or does nothing", r.name)
		}
		seen[r.name] = true
		for _, c := range r.commands {
			cmd := c.in(t.Context(), root, r.set)
			if cmd.Args[0] != "go" {
				if info, err := os.Stat(cmd.Args[0]); err != nil || info.Mode()&0o100 == 0 {
					t.Errorf("%s: %s is no script: %v", r.name, cmd.Args[0], err)
				}
				continue
			}
			code := ""
			for _, word := range cmd.Args {
				if dir, isDir := strings.CutPrefix(word, "./"); isDir {
					code += sourceOf(t, filepath.Join(cmd.Dir, strings.TrimSuffix(dir, "...")))
				}
			}
			for _, name := range named(cmd.Args) {
				if !strings.Contains(code, name) {
					t.Errorf("%s: nothing is called %s", r.name, name)
				}
			}
		}
	}
}

// named returns what the patterns of -run and -bench name.
func named(args []string) (names []string) {
	for _, arg := range args {
		if pattern, isPattern := strings.CutPrefix(arg, "-run="); isPattern {
			names = append(names, regexp.MustCompile(`[A-Z]\w+`).FindAllString(pattern, -1)...)
		} else if pattern, isPattern := strings.CutPrefix(arg, "-bench="); isPattern {
			pattern, _, _ = strings.Cut(pattern, "/")
			names = append(names, regexp.MustCompile(`[A-Z]\w+`).FindAllString(pattern, -1)...)
		}
	}
	return names
}

// sourceOf returns all tests of a folder and of those below it.
func sourceOf(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestWhatTheCallerSetsWins over the value that a run has.
func TestWhatTheCallerSetsWins(t *testing.T) {
	t.Setenv("LONG_TEST", "mine")
	out := filepath.Join(t.TempDir(), "out")
	cmd := command{"testing", "go env GOFLAGS"}.in(t.Context(), "..", "LONG_TEST=usual LONG_OTHER=usual")
	cmd.Path, cmd.Args, cmd.Dir = "/bin/sh", []string{"sh", "-c", "echo $LONG_TEST $LONG_OTHER >" + out}, "."
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if said, err := os.ReadFile(out); err != nil || string(said) != "mine usual\n" {
		t.Errorf("%q, %v", said, err)
	}
}

// TestListHasEachRun: without a name the runs are listed, and a name that nobody knows is refused.
func TestListHasEachRun(t *testing.T) {
	var out strings.Builder
	if err := do(t.Context(), nil, &out, &out); err != nil || strings.Count(out.String(), "\n") != len(runs) {
		t.Errorf("%v\n%s", err, out.String())
	}
	for _, names := range [][]string{{"clutser"}, {"cluster", "crash"}, {"cluster", "--url", "x"}, {"citus", "--ulr", "x"}} {
		if err := do(t.Context(), names, &out, &out); err == nil {
			t.Errorf("%v is taken", names)
		}
	}
}

// TestFlagsOfARunSetVariables for its commands; one that it needs has to be there.
func TestFlagsOfARunSetVariables(t *testing.T) {
	t.Setenv("CITUS", "")
	t.Setenv("CITUS_KILL_WORKER", "from the environment")
	if _, err := readFlags("citus", nil); err == nil || !strings.Contains(err.Error(), "--url is missing") {
		t.Errorf("without --url: %v", err)
	}
	got, err := readFlags("citus", []string{"--url", "postgres://here/db", "--start-worker=pg_ctl start"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CITUS=postgres://here/db", "CITUS_START_WORKER=pg_ctl start", "CITUS_KILL_WORKER=from the environment"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among %q", want, got)
		}
	}
}
