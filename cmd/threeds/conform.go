package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"

	"github.com/openthreeds/threeds/conformance"
)

// runConform runs the conformance suite: against this program, which it starts
// beside itself, or against the requestor's side of another server.
func runConform(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	fs := flag.NewFlagSet("conform", flag.ContinueOnError)
	asJSON := fs.Bool("json", false, "print the report as JSON, with every message, masked")
	rows := fs.String("rows", "", "run the checks of the rows that match `PATTERN` alone: ^MC-1")
	api := fs.String("api", "", "check the server at `URL`, the requestor's side alone")
	key := fs.String("key", "", "an API `KEY` of that server; - reads it from standard input")
	card := fs.String("card", "", "a card `NUMBER` that is enrolled there")
	if _, err := parse(fs, args, 0); err != nil {
		return err
	}
	only, err := regexp.Compile(*rows)
	if err != nil {
		return misused("conform: --rows: %v", err)
	}
	if !slices.ContainsFunc(conformance.Rows(), func(r conformance.Row) bool { return only.MatchString(r.ID) }) {
		return misused("conform: --rows: no row matches %q (they are called MC-01, VA-33 …)", *rows)
	}
	if (*api == "") != (*key == "") || (*api == "") != (*card == "") {
		return misused("conform: --api, --key and --card go together")
	}
	if *key, err = given(*key, stdin); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	suite := &conformance.Suite{Binary: self, API: *api, Key: *key, Card: *card, Workers: 6}
	defer suite.Close()
	results := suite.Run(ctx, only.MatchString)
	report := conformance.NewReport(results)
	if *api != "" {
		report = conformance.NewRequestorReport(results)
	}
	// A row that was not asked for was not checked, and is no part of the answer.
	report.Verdicts = slices.DeleteFunc(report.Verdicts, func(v conformance.Verdict) bool { return !only.MatchString(v.ID) })
	write := report.Text
	if *asJSON {
		write = report.JSON
	}
	if err := write(stdout); err != nil {
		return err
	}
	if n := len(report.Failing()); n > 0 {
		return fmt.Errorf("conform: %d rows failing", n)
	}
	if ctx.Err() != nil {
		return errors.New("conform: interrupted")
	}
	if len(report.Verdicts) == 0 {
		return errors.New("conform: the requestor's side shows none of these rows")
	}
	return nil
}

// given is a key of the command line, or the one on standard input.
func given(key string, stdin io.Reader) (string, error) {
	if key != "-" {
		return key, nil
	}
	key, err := readLine(stdin)
	if err == nil && key == "" {
		err = errors.New("conform: no key on standard input")
	}
	return key, err
}
