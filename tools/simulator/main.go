// Simulator plays a fleet of nodes with their databases and directories, event by
// event, to show what happens where no test bench is large enough: steady load,
// lost nodes, sick directories, a cold start and a failover. docs/scale.md rests
// on it.
//
// It is a model. Its figures are as good as its parameters, which it prints with
// where each comes from; what it leaves out is said there. Equal seeds and
// parameters give equal output.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
)

const usage = `Usage: simulator [flags] [SCENARIO...]

Scenarios, all of them unless some are named:
    steady     the plan on a usual day
    node       nodes lost
    directory  one directory slow or silent
    cold       100 nodes start at once
    database   the primary of the database fails over

Flags:
`

func main() {
	debug.SetGCPercent(400) // millions of small things that live for a moment
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "simulator:", err)
		os.Exit(1)
	}
}

// run is the program without the process.
func run(args []string, stdout, stderr io.Writer) error {
	p := newParams()
	fs := flag.NewFlagSet("simulator", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, usage)
		fs.PrintDefaults()
	}
	seed := fs.Uint64("seed", 1, "of all chance")
	list := fs.Bool("list", false, "show the parameters and play nothing")
	fs.Func("set", "`NAME=VALUE` of a parameter; as often as you like", p.set)
	fs.Func("params", "read parameters from `FILE`, one NAME VALUE per line", func(name string) error {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(p.read(file), file.Close())
	})
	if err := fs.Parse(args); err != nil {
		return err
	}
	wanted, err := choose(fs.Args())
	if err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "seed %d\n\n", *seed)
	if err := p.print(stdout); err != nil || *list {
		return err
	}
	for _, s := range wanted {
		r, fleets := s.play(*seed, *p)
		for _, f := range fleets {
			if n := f.balance(); n != 0 {
				return fmt.Errorf("%s: %d requests are not accounted for", s.name, n)
			}
		}
		if err := r.print(stdout); err != nil {
			return err
		}
	}
	return nil
}

// choose returns the scenarios of the given names, all when there are none.
func choose(names []string) ([]scenario, error) {
	if len(names) == 0 {
		return scenarios, nil
	}
	var wanted []scenario
	for _, name := range names {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no scenario %q", name)
		}
		wanted = append(wanted, scenarios[i])
	}
	return wanted, nil
}

func (r *report) print(out io.Writer) error {
	fmt.Fprintf(out, "\n%s\n%s\n\n", r.title, r.about)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{r.head}, r.rows...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, note := range r.notes {
		fmt.Fprintln(out, note)
	}
	return nil
}
