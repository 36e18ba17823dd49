// Bench measures the figures that the server promises (README.md here says
// what each one means) and prints them beside their targets.
//
// It is no test: its verdicts hold on a quiet machine only. What is measured is
// the program itself, in a process of its own; load and directory server are
// this program again, in further processes, so that their work is not counted.
// Everything happens on loopback addresses and in one temporary directory.
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
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

const usage = `Usage: bench [flags] [FIGURE...]

Figures, all of them unless some are named:
    start     from the start of the sandbox to its ready file
    preauth   /preauth against a constant handler in the same process
    ranges    memory, and /preauth, while two million card ranges load
    inplace   how long such a load takes, and what it does to the handler of /preauth in the same process
    auth      time that /auth adds to the directory server's own
    memory    memory of an /auth in flight
    rreq      time and throughput of results
    cost      what POST /authentications takes of a processor, against /preauth and /auth
    journal   what the journal costs of a processor, and of the time of /auth, also with a directory that takes 2 s
    away      what it does to the time of /auth that the journal's database is away
    postgres  both of them, and what they cost, with PostgreSQL
    pgjournal the journal's costs with PostgreSQL
    keys      what API keys cost a node that rests, and its database
    overload  what a whole authentication takes of a processor; what is served when five times as much comes, and with slow connections
    waiters   whether others are served while one shopper, or one API key, holds all connections with requests that wait

Flags:
`

// A row is one line of the table. Without a target it is for comparison.
type row struct {
	what, target, measured string
	good                   bool
	note                   string
}

// A figure measures one thing. Its context bounds it in time.
type figure struct {
	name string
	most time.Duration
	run  func(ctx context.Context, b *bench) ([]row, error)
}

var figures = []figure{
	{"start", time.Minute, coldStart},
	{"preauth", 3 * time.Minute, preauth},
	{"ranges", 6 * time.Minute, reloads},
	{"inplace", 4 * time.Minute, inPlace},
	{"auth", 2 * time.Minute, addedTime},
	{"memory", 4 * time.Minute, inFlightMemory},
	{"rreq", 5 * time.Minute, resultTime},
	{"cost", 5 * time.Minute, costOfAuthentications},
	{"journal", 12 * time.Minute, journalCost},
	{"away", 5 * time.Minute, journalAway},
	{"postgres", 6 * time.Minute, onPostgres},
	{"pgjournal", 5 * time.Minute, journalOnPostgres},
	{"keys", 5 * time.Minute, restingKeys},
	{"overload", 5 * time.Minute, overload},
	{"waiters", 20 * time.Minute, waiting},
}

// bench is what the figures share.
type bench struct {
	plan     plan
	threeds  string // the program under test
	dir      string // gone at the end
	profile  string // where preauth leaves a CPU profile; empty: nowhere
	progress io.Writer
}

func (b *bench) printf(format string, args ...any) {
	fmt.Fprintf(b.progress, "bench: "+format+"\n", args...)
}

func main() {
	if isChild() {
		runChild()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is the program without the process. A figure that misses its target is
// no error; one that could not be measured is.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, usage)
		fs.PrintDefaults()
	}
	threeds := fs.String("threeds", "", "the program under `PATH` instead of one built now")
	parent := fs.String("dir", "", "work in a new directory under `DIR`, on the disk to be measured; default: the system's temporary one")
	profile := fs.String("cpuprofile", "", "write a CPU profile of preauth to `FILE`")
	quick := fs.Bool("quick", false, "everything for a moment only: shows that it runs, the figures mean nothing")
	if err := fs.Parse(args); err != nil {
		return err
	}
	wanted, err := choose(fs.Args())
	if err != nil {
		return err
	}
	b := &bench{plan: fullPlan, threeds: *threeds, profile: *profile, progress: stderr}
	if *quick {
		b.plan = quickPlan
	}
	if b.dir, err = os.MkdirTemp(*parent, "threeds-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if err := b.build(ctx); err != nil {
		return err
	}
	rows, failed := b.all(ctx, wanted)
	return errors.Join(table(stdout, rows), failed)
}

// all measures the wanted figures. One that cannot be measured does not end the others.
func (b *bench) all(ctx context.Context, wanted []figure) (rows []row, failed error) {
	for _, f := range wanted {
		b.printf("%s", f.name)
		got, err := b.measure(ctx, f)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", f.name, err))
		}
		rows = append(rows, got...)
		if ctx.Err() != nil {
			break
		}
	}
	return rows, failed
}

func (b *bench) measure(ctx context.Context, f figure) ([]row, error) {
	ctx, cancel := context.WithTimeout(ctx, f.most)
	defer cancel()
	return f.run(ctx, b)
}

// choose returns the figures of the given names, all when there are none.
func choose(names []string) ([]figure, error) {
	if len(names) == 0 {
		return figures, nil
	}
	var wanted []figure
	for _, name := range names {
		i := slices.IndexFunc(figures, func(f figure) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no figure %q", name)
		}
		wanted = append(wanted, figures[i])
	}
	return wanted, nil
}

// build makes the program under test, with more flags for the go command if need
// be, unless one was given.
func (b *bench) build(ctx context.Context, flags ...string) (err error) {
	if b.threeds != "" {
		b.threeds, err = filepath.Abs(b.threeds)
		return err
	}
	b.threeds = filepath.Join(b.dir, "threeds")
	args := append([]string{"build", "-ldflags=-s -w", "-o", b.threeds}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "github.com/openthreeds/threeds/cmd/threeds")...)
	cmd.Stderr = b.progress
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the program under test: %w", err)
	}
	return nil
}

// table prints the rows.
func table(out io.Writer, rows []row) error {
	fmt.Fprintf(out, "%s, %s/%s, %d processors\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t")) }
	line("figure", "target", "measured", "", "")
	for _, r := range rows {
		verdict := "PASS"
		switch {
		case r.target == "":
			verdict = ""
		case !r.good:
			verdict = "MISS"
		}
		line(r.what, r.target, r.measured, verdict, r.note)
	}
	return w.Flush()
}
