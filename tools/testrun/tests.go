package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// packageTime is how long the tests of a package may take, on a machine of usual speed. It is the only limit of a test
// that waits in vain.
const packageTime = 20 * time.Minute

// withoutRace keeps the race detector out of the transpiled SQLite, where it finds nothing and costs a third. It must
// not be kept out of packages with generic functions: the linker keeps one copy of each for all packages, and with one
// that is not watched the detector sees races where there are none.
const withoutRace = "-gcflags=modernc.org/sqlite/lib=-race=false"

// A result is what the tests of one package came to.
type result struct {
	path                    string
	took                    time.Duration
	passed, failed, skipped int
	tests                   []testTime // at the top: no subtests
}

type testTime struct {
	name string
	took time.Duration
}

// testGroup tests the packages of a group.
func testGroup(g group) func(context.Context, *runner, io.Writer) error {
	return func(ctx context.Context, r *runner, log io.Writer) error {
		return r.testAll(ctx, log, string(g), r.flags(g), r.groups[g])
	}
}

// testPlain tests the packages that are not tested under the race detector, and those tests of others that are not.
func testPlain(ctx context.Context, r *runner, log io.Writer) error {
	err := r.testAll(ctx, log, string(plain), r.flags(plain), r.groups[plain])
	var some []testPackage
	for _, p := range r.groups[race] {
		if r.raceList.hasException(p.path) {
			some = append(some, p)
		}
	}
	return errors.Join(err, r.testAll(ctx, log, "plain-race", append(r.flags(plain), "-run="+r.raceList.pattern()), some))
}

// testOutside tests the stores, and the program from outside, with a browser and without. All wait much, so
// they are tested together.
func testOutside(ctx context.Context, r *runner, log io.Writer) error {
	all := slices.Concat(r.groups[browser], r.groups[e2e], r.groups[database])
	slices.SortStableFunc(all, func(a, b testPackage) int { return cmp.Compare(turn(a.path), turn(b.path)) })
	return r.testAll(ctx, log, "outside", r.flags(e2e), all)
}

// longest are the packages of [testOutside] that take longest. They begin first, so that none of
// them is alone at the end.
var longest = []string{
	"testing/browser/sandbox", "testing/browser/hosted", "testing/conformance", "testing/e2e/crash", "testing/e2e/browser",
	"testing/e2e/cluster", "testing/e2e/lifecycle", "testing/e2e/operators", "testing/browser/docs", "testing/browser/console",
	"testing/e2e/ranges", "testing/e2e/api",
}

// turn is the place of a package in longest, or the one after it.
func turn(path string) int {
	if i := slices.Index(longest, path); i >= 0 {
		return i
	}
	return len(longest)
}

// testAll tests packages, those of each module with one call of the go command, all at once. It leaves the events and
// the count of the step in artifacts/.
func (r *runner) testAll(ctx context.Context, log io.Writer, step string, flags []string, packages []testPackage) error {
	events, err := os.Create(filepath.Join(r.artifacts, step+".json"))
	if err != nil {
		return err
	}
	defer events.Close()
	errs := make([]error, len(modules))
	results := make([][]result, len(modules))
	var running sync.WaitGroup
	for i, module := range modules {
		var paths []string
		for _, p := range packages {
			if p.module == module {
				paths = append(paths, p.inside)
			}
		}
		if len(paths) > 0 {
			running.Go(func() { results[i], errs[i] = r.test(ctx, log, events, module, flags, paths) })
		}
	}
	running.Wait()
	counted := slices.Concat(results...)
	r.tests = append(r.tests, counted...)
	return errors.Join(append(errs, r.writeCount(step, counted))...)
}

// flags are those of go test for a group. What vet says was said before. End-to-end tests depend on a program that the
// test cache does not know. Tests that wait much are of more packages at once than there are processors.
func (r *runner) flags(g group) []string {
	flags := []string{"-vet=off", "-parallel=8", "-timeout=" + (packageTime * time.Duration(r.slow)).String()}
	switch g {
	case plain:
		flags = append(flags, fmt.Sprintf("-p=%d", runtime.NumCPU()+1))
	case race:
		flags = append(flags, fmt.Sprintf("-p=%d", runtime.NumCPU()+1), "-race", withoutRace, "-shuffle=on", "-skip="+r.raceList.pattern())
	case database, e2e, browser:
		flags = append(flags, fmt.Sprintf("-p=%d", runtime.NumCPU()+3), "-count=1")
	}
	return flags
}

func (r *runner) test(ctx context.Context, log io.Writer, events io.Writer, module string, flags, paths []string) ([]result, error) {
	args := slices.Concat([]string{"test", "-json"}, flags, paths)
	cmd := r.command(ctx, log, module, "go", args...)
	cmd.Env = append(cmd.Env, "THREEDS_BINARY="+r.binary(), "PGTEST_CLUSTERS="+r.clusters)
	if slices.Contains(flags, "-race") {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	results := readEvents(out, events, log)
	if err := cmd.Wait(); err != nil {
		return results, fmt.Errorf("go test in %s: %w", module, err)
	}
	return results, nil
}

// An event is one of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// readEvents counts the tests of each package, and copies each event to events. To log it writes what each test that
// failed has said, why tests were skipped, and everything that a package said which did not compile or ended in the
// middle of a test. Each write is of whole lines, for others write to both.
func readEvents(in io.Reader, events, log io.Writer) []result {
	byPath := map[string]*result{}
	said := map[string]*strings.Builder{}
	running := map[string][]string{}
	write := func(key, text string) {
		if said[key] == nil {
			said[key] = new(strings.Builder)
		}
		said[key].WriteString(text)
	}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) != nil {
			fmt.Fprintf(log, "%s", line)
		} else {
			_, _ = events.Write(line) // who reads them later sees that one is missing
			e.Package = cmp.Or(e.Package, e.ImportPath)
			key := e.Package + " " + e.Test
			p := byPath[e.Package]
			if p == nil && e.Test != "" {
				p = &result{path: e.Package}
				byPath[e.Package] = p
			}
			switch e.Action {
			case "output", "build-output":
				write(key, e.Output)
			case "build-fail":
				fmt.Fprintf(log, "=== %s does not compile\n%s", e.Package, said[key])
			case "run":
				running[e.Package] = append(running[e.Package], e.Test)
			case "pass", "fail", "skip":
				count(byPath, p, e, log, said, running)
			}
		}
		if err != nil {
			break
		}
	}
	var results []result
	for _, p := range byPath {
		results = append(results, *p)
	}
	slices.SortFunc(results, func(a, b result) int { return cmp.Compare(a.path, b.path) })
	return results
}

// count notes how a test, or a package, has ended.
func count(byPath map[string]*result, p *result, e event, log io.Writer, said map[string]*strings.Builder, running map[string][]string) {
	key, took := e.Package+" "+e.Test, time.Duration(e.Elapsed*float64(time.Second))
	if e.Test == "" {
		if e.Action == "fail" && (p == nil || p.failed == 0) { // it ended in the middle of tests, or did not compile
			if p == nil {
				p = &result{path: e.Package}
				byPath[e.Package] = p
			}
			p.failed++
			fmt.Fprintf(log, "=== %s\n%s", e.Package, said[key])
			for _, test := range running[e.Package] {
				fmt.Fprintf(log, "--- not finished: %s of %s\n%s", test, e.Package, said[e.Package+" "+test])
			}
		}
		if p != nil {
			p.took = took
		}
		return
	}
	running[e.Package] = slices.DeleteFunc(running[e.Package], func(test string) bool { return test == e.Test })
	switch e.Action {
	case "pass":
		p.passed++
	case "skip":
		p.skipped++
		fmt.Fprintf(log, "skipped: %s\n%s", key, said[key])
	case "fail":
		p.failed++
		fmt.Fprintf(log, "=== %s\n%s", key, said[key])
	}
	if !strings.Contains(e.Test, "/") {
		p.tests = append(p.tests, testTime{e.Test, took})
	}
	delete(said, key)
}

// writeCount writes how many tests of a step passed and failed, for .ci/run.
func (r *runner) writeCount(step string, results []result) error {
	passed, failed := 0, 0
	for _, p := range results {
		passed, failed = passed+p.passed, failed+p.failed
	}
	return os.WriteFile(filepath.Join(r.artifacts, step+".count"), fmt.Appendf(nil, "%d %d\n", passed, failed), 0o644)
}

// report prints the slowest packages, and writes the slowest tests to a file.
func (r *runner) report(out io.Writer) {
	if len(r.tests) == 0 {
		return
	}
	slowest := slices.SortedFunc(slices.Values(r.tests), func(a, b result) int { return cmp.Compare(b.took, a.took) })
	fmt.Fprint(out, "slowest packages:")
	for i, p := range slowest[:min(10, len(slowest))] {
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, " %s %s", strings.TrimPrefix(p.path, "github.com/openthreeds/threeds/"), seconds(p.took))
	}
	fmt.Fprintln(out)
	var rows []string
	type row struct {
		pkg string
		testTime
	}
	var all []row
	for _, p := range r.tests {
		for _, test := range p.tests {
			all = append(all, row{strings.TrimPrefix(p.path, "github.com/openthreeds/threeds/"), test})
		}
	}
	slices.SortFunc(all, func(a, b row) int { return cmp.Compare(b.took, a.took) })
	for _, t := range all[:min(40, len(all))] {
		rows = append(rows, fmt.Sprintf("%7.1f s  %s  %s\n", t.took.Seconds(), t.pkg, t.name))
	}
	path := filepath.Join(r.artifacts, "slowest.txt")
	if err := os.WriteFile(path, []byte(strings.Join(rows, "")), 0o644); err == nil {
		fmt.Fprintf(out, "the 40 slowest tests are in %s\n", path)
	}
}
