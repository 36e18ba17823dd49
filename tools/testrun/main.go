// Testrun does what make test does: it checks the form of the code, builds the program once, and runs each test of both
// modules once, some of them under the race detector (race.txt). It prints a line for each step, with its seconds.
//
//	go run ./tools/testrun            # all steps of make test
//	go run ./tools/testrun vet race   # these steps alone
//	go run ./tools/testrun -all       # and those that take long: make test-all
//	go run ./tools/testrun -list      # the steps, and which packages each of them tests
//
// Everything that the steps print, and each event of each test, is in artifacts/. With TESTSLOW=4 in the environment
// all processes of the run get a quarter of the processor time that the machine has.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// A step is a part of the run. It writes what it says to log, which is shown if it fails.
type step struct {
	name  string
	about string
	do    func(ctx context.Context, r *runner, log io.Writer) error

	hasTests bool
	isPart   bool // of another step, for CI, which does the parts side by side
	isLong   bool // only for make test-all
}

// steps are in the order in which they are done.
var steps = []step{
	{name: "needs", about: "the programs that tests use are there", do: script(".ci/needs")},
	{name: "fmt", about: "gofmt finds nothing to change", do: checkFormat},
	{name: "vet", about: "go vet finds nothing", do: vet},
	{name: "lint", about: "staticcheck finds nothing", do: lint},
	{name: "build", about: "the program that end-to-end tests run", do: build},
	{name: "plain", about: "tests without the race detector", do: testPlain, hasTests: true},
	{name: "race", about: "tests under the race detector (race.txt)", do: testGroup(race), hasTests: true},
	{name: "outside", about: "stores and journal, the program from outside, and pages in a browser", do: testOutside, hasTests: true},
	{name: "database", about: "the part of outside that is stores and journal, on PostgreSQL and SQLite", do: testGroup(database), hasTests: true, isPart: true},
	{name: "e2e", about: "the part of outside that has no browser", do: testGroup(e2e), hasTests: true, isPart: true},
	{name: "browser", about: "the part of outside with a browser", do: testGroup(browser), hasTests: true, isPart: true},
	{name: "alerts", about: "alerts fire in their time, and only of the installation that is broken", do: alerts},
	{name: "race-all", about: "the tests of all other packages under the race detector", do: raceAll, hasTests: true, isLong: true},
	{name: "smoke", about: "each benchmark once", do: smoke, isLong: true},
	{name: "fuzz", about: "each fuzz target for a moment", do: script(".ci/fuzz", "8s"), isLong: true},
	{name: "helm", about: "the chart makes what deploy/kubernetes has, and refuses what cannot work", do: helm, isLong: true},
	{name: "outages", about: "six outages of one of two installations, with a real Prometheus", do: outages, isLong: true},
	{name: "mutants", about: "faults put into the code are noticed by its tests", do: mutants, isLong: true},
	{name: "long", about: "long forms: kills, upgrades, rotations, clusters, seeded faults, walks in three browsers", do: long, hasTests: true, isLong: true},
}

// A runner is one run of steps.
type runner struct {
	root      string // of the product's module
	artifacts string
	temporary string // a folder in memory for what tests write, or ""
	clusters  string // a folder where tests share database clusters, as new as initdb makes them
	slow      int    // how many times slower than the machine is, 1 usually
	raceList  *raceList
	groups    map[group][]testPackage
	tests     []result // of all packages that were tested
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("testrun", flag.ContinueOnError)
	flags.SetOutput(errs)
	list := flags.Bool("list", false, "print the steps and the packages of each, and do nothing")
	all := flags.Bool("all", false, "do the long steps, too")
	shard := flags.String("shard", "", "of each step test a part of the packages, such as 2/4 for the second of four parts")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	r, err := newRunner(ctx, *shard)
	if err == nil && *list {
		r.list(out)
		return 0
	}
	var chosen []step
	if err == nil {
		chosen, err = choose(flags.Args(), *all)
	}
	if err != nil {
		fmt.Fprintln(errs, "testrun:", err)
		return 2
	}
	if os.Getenv(slowed) == "" && r.slow > 1 {
		return runSlowly(ctx, r.slow, out, errs)
	}
	var remove func()
	r.temporary, remove = folderInMemory(r.root)
	defer remove()
	if r.clusters, err = os.MkdirTemp(r.temporary, "threeds-clusters-"); err != nil {
		fmt.Fprintln(errs, "testrun:", err)
		return 2
	}
	defer os.RemoveAll(r.clusters)
	return r.run(ctx, chosen, out)
}

// newRunner finds the root of the module, and which packages there are.
func newRunner(ctx context.Context, shard string) (*runner, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	r := &runner{root: root, artifacts: filepath.Join(root, "artifacts"), slow: 1}
	if text := os.Getenv("TESTSLOW"); text != "" {
		if r.slow, err = strconv.Atoi(text); err != nil || r.slow < 1 || r.slow > 100 {
			return nil, fmt.Errorf("TESTSLOW=%s: want a whole number from 1 to 100, such as 4 for a quarter of the processor time", text)
		}
	}
	if err := os.MkdirAll(r.artifacts, 0o755); err != nil {
		return nil, err
	}
	if err := r.writeWorkspace(); err != nil {
		return nil, err
	}
	if r.raceList, err = readRaceList(raceText); err != nil {
		return nil, err
	}
	r.groups, err = groupPackages(ctx, root, shard, r.raceList)
	return r, err
}

// findRoot returns the folder that has the product's go.mod, which is that of the working directory or above it.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "tools", "testrun", "race.txt")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("call it in the repository of threeds")
		}
		dir = filepath.Dir(dir)
	}
}

// choose returns the steps that are named; without names all of them, the long ones only if wanted.
func choose(names []string, withLong bool) ([]step, error) {
	if len(names) == 0 {
		return slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.isPart || s.isLong && !withLong }), nil
	}
	var chosen []step
	for _, name := range names {
		i := slices.IndexFunc(steps, func(s step) bool { return s.name == name })
		if i < 0 {
			var all []string
			for _, s := range steps {
				all = append(all, s.name)
			}
			return nil, fmt.Errorf("there is no step %s; steps are %s", name, strings.Join(all, ", "))
		}
		chosen = append(chosen, steps[i])
	}
	return chosen, nil
}

func (r *runner) list(out io.Writer) {
	for _, s := range steps {
		fmt.Fprintf(out, "%-10s%s\n", s.name, s.about)
		for _, p := range r.groups[group(s.name)] {
			fmt.Fprintf(out, "            %s\n", p.path)
		}
	}
}

// run does the steps, one after the other. A step of tests that fails does not keep the next ones from being done; a
// step before them does, since what does not compile need not be tested.
func (r *runner) run(ctx context.Context, chosen []step, out io.Writer) int {
	start, failed := time.Now(), []string{}
	for _, s := range chosen {
		if err := r.do(ctx, s, out); err != nil {
			failed = append(failed, s.name)
			if !s.hasTests && !s.isLong {
				break
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	r.report(out)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(out, "interrupted")
		return 1
	case len(failed) > 0:
		fmt.Fprintf(out, "FAILED after %s: %s. Logs are in %s\n", seconds(time.Since(start)), strings.Join(failed, ", "), r.artifacts)
		return 1
	}
	fmt.Fprintf(out, "all good after %s\n", seconds(time.Since(start)))
	return 0
}

// do does one step and prints its line.
func (r *runner) do(ctx context.Context, s step, out io.Writer) error {
	path := filepath.Join(r.artifacts, s.name+".log")
	log, err := os.Create(path)
	if err != nil {
		return err
	}
	defer log.Close()
	start, used := time.Now(), processorTime()
	counted := len(r.tests)
	fmt.Fprintf(out, "%-10s", s.name)
	err = s.do(ctx, r, log)
	fmt.Fprintf(out, "%8s %8s of processor  %s\n", seconds(time.Since(start)), seconds(processorTime()-used), countOf(r.tests[counted:], s))
	if err != nil {
		said, _ := os.ReadFile(path)
		fmt.Fprintf(out, "\n%s\n%s: %v. This is in %s\n\n", strings.TrimRight(string(said), "\n"), s.name, err, path)
	}
	return err
}

// countOf says what a step of tests has counted, and what another step has done.
func countOf(results []result, s step) string {
	if !s.hasTests {
		return s.about
	}
	var passed, failed, skipped int
	for _, p := range results {
		passed, failed, skipped = passed+p.passed, failed+p.failed, skipped+p.skipped
	}
	text := fmt.Sprintf("%d packages, %d tests passed", len(results), passed)
	if failed > 0 {
		text += fmt.Sprintf(", %d FAILED", failed)
	}
	if skipped > 0 {
		text += fmt.Sprintf(", %d skipped", skipped)
	}
	return text
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 0, 64) + " s" }

// processorTime is what all processes used that this one has started and that have ended.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
