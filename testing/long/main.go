// Long runs what takes too long for make test, or needs a quiet machine or a registry: the long forms of kills,
// restarts, clusters and walks, measurements of a size, and checks with programs of others.
//
//	go -C testing run ./long              # the runs that there are
//	go -C testing run ./long cluster      # one of them
//	CRASH=100 go -C testing run ./long crash
//	go -C testing run ./long citus --url postgres://threeds@127.0.0.1:5432/threeds
//
// A variable of the environment wins over the value that a run has for it. docs/goals.md says what the figures mean.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// A run is a sequence of commands.
type run struct {
	name, about string
	set         string // variables of the environment, such as CRASH=2000, unless they are set; $ROOT is that of the repository
	commands    []command
}

// A variableFlag sets a variable of the environment for the commands of a run.
type variableFlag struct {
	name, variable, about string
	isRequired            bool
}

// A command is a call of the go command, or of a script.
type command struct {
	dir  string // from the root of the repository
	line string // words with blanks between them; the first is go, or the path of a script
}

// goTest is a call of go test in a folder.
func goTest(dir, line string) command { return command{dir, "go test -count=1 -v " + line} }

var runs = []run{
	{"restarts", "200 restarts under load, and not a failed request: a quarter of an hour", "RESTARTS=200", []command{
		goTest("testing", "-timeout=1h -run=^TestRestarts$ ./e2e/lifecycle"),
	}},
	{"reloads", "1,000 reloads under load, and not a failed request: ten minutes", "RELOADS=1000", []command{
		goTest("testing", "-timeout=1h -run=^TestReload$ ./e2e/lifecycle"),
	}},
	{"citus", "the contract of a store, linearizability and webhooks on a cluster of Citus that runs, how writes grow with " +
		"its workers, and what fails while a worker and the coordinator are away: ten minutes; see docs/design/citus.md",
		"LINEAR_CALLS=20000 HOOK_KILLS=20", []command{
			goTest(".", "-timeout=60m -run=^TestCitus ./internal/state/store/postgres"),
			goTest("testing", "-timeout=60m -run=^TestLinearCitus$ ./linear/postgres"),
			goTest("testing", "-timeout=60m -run=^TestW3NoEventIsLostWhenTheServerIsKilled$/^Citus$ ./e2e/crash"),
		}},
	{"linear", "100,000 calls on each store at random, while connections break and processes die, against a model of the " +
		"contract: six minutes; artifacts/ has a page for what no order of the calls explains", "LINEAR_CALLS=100000", []command{
		goTest("testing", "-timeout=30m -run=^TestLinear ./linear/..."),
	}},
	{"cluster", "three nodes on PostgreSQL with synchronous standbys: 400 kills, 20 failovers, and what nodes have to do " +
		"together: ten minutes; see docs/nodes.md", "CLUSTER=long", []command{
		goTest("testing", "-timeout=60m -run=^TestCluster|^TestF5 ./e2e/cluster ./e2e/lifecycle ./e2e/api"),
		goTest(".", "-run=^TestFailover$ ./internal/state/store/postgres"),
	}},
	{"patroni", "the primary of PostgreSQL under Patroni and etcd killed 20 times in each way, under load: half an hour; see " +
		"docs/operating/patroni.md", "PATRONI=20", []command{
		{".", ".ci/needs patroni"},
		goTest("testing", "-timeout=2h -run=^TestPatroniFailover$ ./e2e/cluster"),
	}},
	{"softhsm", "keys in an HSM, played by SoftHSM from Debian: the server starts, signs, rotates and is restored, and no file, " +
		"backup or core dump has a secret; a minute, and a module proxy for the helper", "SOFTHSM=1", []command{
		{".", ".ci/needs softhsm"},
		goTest("testing", "-timeout=20m -run=^TestSoftHSM ./e2e/operators"),
	}},
	{"outages", "six outages of one of two installations that a real Prometheus scrapes: the notice of the console, the right " +
		"alert in its time, and none for the other installation, with times that pass OUTAGES times faster than the rules have them: a quarter of an " +
		"hour, and a module proxy for Prometheus",
		"OUTAGES=15", []command{
			goTest("testing", "-timeout=2h -run=^TestSixOutages$ ./e2e/outages"),
		}},
	{"crash", "the server killed 2,000 times on each kind of store, the power of its disk lost 1,000 times, the disk full, " +
		"failing and damaged: an hour, as root", "CRASH=2000", []command{
		goTest("testing", "-timeout=4h -run=^TestCrash ./e2e/crash"),
	}},
	{"images", "what a crash leaves, out of a recording of 200 transactions: each call as the last one, and 100,000 times any " +
		"sectors of what was not synced: an hour", "IMAGES=100000", []command{
		goTest(".", "-timeout=4h -run=^TestCrashImages$ ./internal/state/store/sqlite"),
	}},
	{"webhook-kills", "200 kills on each kind of store between the commit of a result and the delivery of its event, and how " +
		"soon events arrive: three minutes", "HOOK_KILLS=200", []command{
		goTest("testing", "-timeout=20m -run=^TestW3NoEventIsLost ./e2e/crash"),
		{".", "go test -run=^$ -bench=ResultToDelivery -benchtime=500x ./client"},
	}},
	{"journal-kills", "200 kills under load: each result that was acknowledged is in the journal", "JOURNAL_KILLS=200", []command{
		goTest("testing", "-timeout=30m -run=^TestD125Nothing ./e2e/crash"),
	}},
	{"goals", "the other goals of docs/goals.md: a million records, 200 pauses, 100 backups, 10,000 records over an upgrade, " +
		"and SOAK of steady load: hours", "RECORDS=1000000 PAUSES=200 BACKUPS=100 UPGRADE_RECORDS=10000 SOAK=2h", []command{
		goTest("testing", "-timeout=24h -run=^TestCrashManyRecords$|^TestCrashPaused$|^TestD109BackupHasAllBefore$|"+
			"^TestD103ForwardAndBackUnderLoad$|^TestSoak$ ./e2e/crash ./e2e/cluster ./e2e/lifecycle"),
	}},
	{"seeded-faults", "more than a hundred faults put into the server, each noticed by the row of conformance that it breaks",
		"SEEDED=all", []command{goTest("testing", "-timeout=2h -run=^TestSeededFaults$ ./conformance")}},
	{"browsers", "what a shopper does, in Chromium, Firefox and WebKit, and a table of it in artifacts/", "BROWSERS=all", []command{
		{".", ".ci/needs browsers"},
		goTest("testing", "-timeout=20m -run=^TestB6LookingIntoFramesKeepsTheFocus$|^TestB6AKeyMayRemoveItsFrame$|"+
			"^TestD62ATabThatWaitsEnds$|^TestB6Grid$ ./browsertest ./browser/..."),
	}},
	{"axe", "what axe-core finds on the pages that people see: three minutes, and a registry of npm",
		"AXE=$ROOT/artifacts/axe/node_modules/axe-core/axe.min.js", []command{
			{".", ".ci/needs axe"},
			{".", ".ci/axe/install artifacts/axe"},
			goTest("testing", "-timeout=20m -run=Axe ./browser/..."),
		}},
	{"checker", "what the checker of the documentation and of the npm package says, against the commands, on every message of the tests",
		"CHECKER=node", []command{
			{".", "go run ./tools/checker"},
			{".", "go test -count=1 -run=^FuzzTheBrowserSaysWhatTheCommandSays$ ./internal/edge/docsite/checker"},
			goTest("testing", "-tags=checker -run=^TestCheckOfTheNpmPackage|^TestPageOfTheCheckerJudges ./e2e/npm ./browser/docs"),
		}},
	{"examples", "the programs of docs/quickstart.md in Go, Node, Python, PHP and Java", "EXAMPLES=found", []command{
		{".", ".ci/needs examples"},
		goTest(".", "-run=^TestQuickstart$ ./threedstest"),
	}},
	{"generators", "clients that three generators make of docs/openapi.yaml; they need a module proxy, and a registry of npm", "",
		[]command{{".", ".ci/generators"}}},
	{"journal-size", "searches by each field, and the end of a day, among RECORDS records of DAYS days in PostgreSQL",
		"JOURNAL_RECORDS=10000000 JOURNAL_DAYS=30", []command{
			{".", "go test -run=^$ -bench=SearchOfSize -benchtime=200x -timeout=6h -v ./internal/state/journal"},
		}},
	{"journal-size-files", "the same in files of SQLite", "JOURNAL_RECORDS=10000000 JOURNAL_DAYS=30", []command{
		{".", "go test -run=^$ -bench=FilesOfSize -benchtime=200x -timeout=6h -v ./internal/state/journal"},
	}},
	{"journal-fill", "fills JOURNAL_DATABASE, an empty database that stays for journal-size and console-size",
		"JOURNAL_RECORDS=10000000 JOURNAL_DAYS=30", []command{
			{".", "go test -run=^$ -bench=SearchOfSize/none -timeout=6h -v ./internal/state/journal"},
		}},
	{"console-size", "each page of the console that reads such a journal: a page has 100 ms and 60 KB",
		"JOURNAL_RECORDS=10000000 JOURNAL_DAYS=30", []command{
			{".", "go test -run=^$ -bench=PagesOfSize -benchtime=100x -timeout=6h -v ./internal/run/server"},
		}},
	{"ranges", "card ranges at 10 thousand, 200 thousand and 2 million: look-up, reading, updates, snapshots; six minutes", "", []command{
		{".", "go test -run=^$ -bench=Lookup|ReadPRes|Apply|Snapshot -benchmem ./internal/peers/ranges"},
		{"testing", "go run ./bench preauth ranges inplace"},
	}},
	{"timing", "whether the time of an answer tells that an id is another merchant's: ten seconds, on a quiet machine", "TIMING=1",
		[]command{goTest(".", "-run=^TestTimeTellsNothingOfForeignIDs$ ./internal/engine/auth")}},
	{"microbench", "the benchmarks of the packages, with allocations", "", []command{{".", "go test -run=^$ -bench=. -benchmem ./..."}}},
}

// flags are those of a run, by its name.
var flags = map[string][]variableFlag{"citus": {
	{"url", "CITUS", "a database on the coordinator, whose user is a superuser", true},
	{"kill-worker", "CITUS_KILL_WORKER", "a command that kills a worker", false},
	{"start-worker", "CITUS_START_WORKER", "one that starts it again and waits for it", false},
	{"kill-coordinator", "CITUS_KILL_COORDINATOR", "a command that kills the coordinator", false},
	{"start-coordinator", "CITUS_START_COORDINATOR", "one that starts it again and waits for it", false},
}}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := do(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "long:", err)
		os.Exit(1)
	}
}

// do does the run that is named, with the flags behind its name, or lists all.
func do(ctx context.Context, words []string, out, errs io.Writer) error {
	if len(words) == 0 {
		for _, r := range runs {
			fmt.Fprintf(out, "%-20s%s\n", r.name, r.about)
		}
		return nil
	}
	i := slices.IndexFunc(runs, func(r run) bool { return r.name == words[0] })
	if i < 0 {
		return fmt.Errorf("want one of the names that are listed without any, not %q", words[0])
	}
	given, err := readFlags(words[0], words[1:])
	if err != nil {
		return err
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	for _, c := range runs[i].commands {
		cmd := c.in(ctx, root, runs[i].set)
		cmd.Env = append(cmd.Env, given...)
		cmd.Stdout, cmd.Stderr = out, errs
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %s: %w", runs[i].name, c.line, err)
		}
	}
	return nil
}

// readFlags returns the variables of the environment that the flags of a run set.
func readFlags(name string, args []string) (variables []string, err error) {
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard) // the error is enough
	for _, f := range flags[name] {
		set.String(f.name, os.Getenv(f.variable), f.about)
	}
	if err := set.Parse(args); err != nil {
		return nil, fmt.Errorf("%s: %w%s", name, err, describeFlags(name))
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("%s: unexpected %q%s", name, set.Arg(0), describeFlags(name))
	}
	for _, f := range flags[name] {
		value := set.Lookup(f.name).Value.String()
		if value == "" && f.isRequired {
			return nil, fmt.Errorf("%s: --%s is missing%s", name, f.name, describeFlags(name))
		}
		variables = append(variables, f.variable+"="+value)
	}
	return variables, nil
}

// describeFlags returns a line for each flag of a run.
func describeFlags(name string) string {
	var text strings.Builder
	for _, f := range flags[name] {
		fmt.Fprintf(&text, "\n    --%-18s %s", f.name, f.about)
	}
	return text.String()
}

// in returns the command as it is run, with the variables that the caller has not set.
func (c command) in(ctx context.Context, root, set string) *exec.Cmd {
	words := strings.Fields(c.line)
	if words[0] != "go" {
		words[0] = filepath.Join(root, words[0])
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = filepath.Join(root, c.dir)
	set = strings.ReplaceAll(set, "$ROOT", root)
	cmd.Env = append(strings.Fields("CGO_ENABLED=0 "+set), os.Environ()...) // a variable that is set in the environment wins
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd
}

// findRoot returns the folder of the product's module: the working directory, or one above it.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "testing", "long")); missing == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("call it in the repository of threeds")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}
