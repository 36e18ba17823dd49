// Command threeds-conform checks a 3DS Server against every obligation that EMV 3-D Secure has for one, and prints a
// report.
//
//	go run ./cmd/threeds-conform                          the server of this source tree
//	threeds-conform --server ./threeds                    a program, which is started with directory servers of ours
//	threeds-conform --api URL --key KEY --card NUMBER     the requestor's side of a server that runs already
//
// It is a program of its own, so that the server's binary carries no test suite.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/openthreeds/threeds/testing/conformance"
)

const usage = `Checks a 3DS Server against every obligation that EMV 3-D Secure has for one.

Usage:
    threeds-conform [--server FILE]
        start a server with directory servers of ours; without --server the server is built
        from the source tree that this directory belongs to
    threeds-conform --api URL --key KEY --card NUMBER
        check the requestor's side of the server at URL, with a card that is enrolled there
        (--key - reads the key from standard input)

    --rows PATTERN  run the checks of the rows that match alone: ^MC-1
    --json          print the report as JSON, with every message, masked

Exit status: 0 all rows hold, 1 a row is failing or the checks could not be made, 2 misused.
`

// errMisused is wrapped by the error of a command line that cannot be run.
var errMisused = errors.New("misused")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program without the process. It returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	if err == nil {
		err = runSuite(ctx, o, stdin, stdout)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	}
	fmt.Fprintf(stderr, "threeds-conform: %v\n", err)
	if errors.Is(err, errMisused) {
		fmt.Fprint(stderr, "Run \"threeds-conform --help\" for the flags.\n")
		return 2
	}
	return 1
}

// options are the flags.
type options struct {
	server, api, key, card string
	rows                   *regexp.Regexp
	asJSON                 bool
}

func parseOptions(args []string) (*options, error) {
	var o options
	flags := flag.NewFlagSet("threeds-conform", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error is enough
	flags.StringVar(&o.server, "server", "", "")
	flags.StringVar(&o.api, "api", "", "")
	flags.StringVar(&o.key, "key", "", "")
	flags.StringVar(&o.card, "card", "", "")
	flags.BoolVar(&o.asJSON, "json", false, "")
	rows := flags.String("rows", "", "")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", errMisused, err)
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("%w: unexpected argument %q", errMisused, flags.Arg(0))
	}
	var err error
	if o.rows, err = regexp.Compile(*rows); err != nil {
		return nil, fmt.Errorf("%w: --rows: %w", errMisused, err)
	}
	if !slices.ContainsFunc(conformance.Rows(), func(r conformance.Row) bool { return o.rows.MatchString(r.ID) }) {
		return nil, fmt.Errorf("%w: --rows: no row matches %q (they are called MC-01, VA-33 …)", errMisused, *rows)
	}
	if isRemote := o.api != ""; isRemote != (o.key != "") || isRemote != (o.card != "") {
		return nil, fmt.Errorf("%w: --api, --key and --card go together", errMisused)
	}
	if o.api != "" && o.server != "" {
		return nil, fmt.Errorf("%w: --api and --server exclude each other", errMisused)
	}
	return &o, nil
}

// runSuite runs the checks and prints the report.
func runSuite(ctx context.Context, o *options, stdin io.Reader, stdout io.Writer) error {
	suite := &conformance.Suite{Binary: o.server, API: o.api, Key: o.key, Card: o.card, Workers: 6}
	defer suite.Close()
	var err error
	switch {
	case o.key == "-":
		suite.Key, err = readKey(stdin)
	case o.api == "" && o.server == "":
		var remove func()
		suite.Binary, remove, err = buildServer(ctx)
		defer remove()
	}
	if err != nil {
		return err
	}
	results := suite.Run(ctx, o.rows.MatchString)
	report := conformance.NewReport(results)
	if o.api != "" {
		report = conformance.NewRequestorReport(results)
	}
	// A row that was not asked for was not checked, and does not belong to the answer.
	report.Verdicts = slices.DeleteFunc(report.Verdicts, func(v conformance.Verdict) bool {
		return !o.rows.MatchString(v.ID)
	})
	write := report.Text
	if o.asJSON {
		write = report.JSON
	}
	if err := write(stdout); err != nil {
		return err
	}
	if n := len(report.Failing()); n > 0 {
		return fmt.Errorf("%d rows failing", n)
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if len(report.Verdicts) == 0 {
		return errors.New("the requestor's side shows none of these rows")
	}
	return nil
}

// readKey reads an API key from a line.
func readKey(in io.Reader) (string, error) {
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if line = strings.TrimSpace(line); line == "" {
		return "", errors.New("no key on standard input")
	}
	return line, nil
}

// buildServer compiles the server of the source tree around the working directory. It returns the path of the program
// and a function that removes it.
func buildServer(ctx context.Context) (path string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "threeds-conform-")
	if err != nil {
		return "", func() {}, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	path = filepath.Join(dir, "threeds")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/openthreeds/threeds/cmd/threeds")
	out, err := build.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("--server names no program, and none can be built here: %w\n%s", err, out)
	}
	return path, remove, err
}
