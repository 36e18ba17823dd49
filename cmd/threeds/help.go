package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/build"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// The last lines of help, and of each manual page.
const (
	configHelp = "FILE of --config is threeds.yaml unless given."
	statusHelp = "0 done, 1 failed, 2 misused."
)

// printUsage prints all commands.
func printUsage(_ context.Context, cmd *cmdline.Invocation) error {
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(cmd.Stdout, "%s\n%s\nExit status: %s\n", cmdline.Usage(commands()), configHelp, statusHelp)
	return err
}

// describeProgram returns all commands with their flags, and the words that flags and arguments may be.
func describeProgram(ctx context.Context) (cmdline.Description, error) {
	var types []string
	for _, t := range api.EventTypesFor(api.ForMerchant) {
		types = append(types, string(t))
	}
	return cmdline.Describe(ctx, commands(), cmdline.Words{
		"SCHEME": scheme.Names(), "STATUS": journal.Statuses(), "TYPE": types, "ACTION": ops.Actions(),
	})
}

// runCompletion prints the script by which a shell completes command lines.
func runCompletion(ctx context.Context, cmd *cmdline.Invocation) error {
	shells := cmdline.Shells()
	rest, err := cmd.ReadExactly(1, "the shell is missing: "+strings.Join(shells, ", "))
	if err != nil {
		return err
	}
	if !slices.Contains(shells, rest[0]) {
		return cmdline.Usagef("completion: no shell %q: want one of %s", rest[0], strings.Join(shells, ", "))
	}
	program, err := describeProgram(ctx)
	if err != nil {
		return err
	}
	var script bytes.Buffer
	if err := cmdline.Completion(&script, rest[0], &program); err != nil {
		return err
	}
	_, err = io.Copy(cmd.Stdout, &script)
	return err
}

// runMan writes manual pages into a directory. Those of an earlier version are replaced.
func runMan(ctx context.Context, cmd *cmdline.Invocation) error {
	rest, err := cmd.ReadExactly(1, "DIR is missing")
	if err != nil {
		return err
	}
	program, err := describeProgram(ctx)
	if err != nil {
		return err
	}
	b := build.Read(version)
	if b.Date.IsZero() {
		b.Date = time.Now().UTC() // a page has to have a date
	}
	manual := &cmdline.Manual{
		Version: b.Version, Date: b.Date.Format(time.DateOnly),
		About: "EMV 3-D Secure server with its tools", Status: statusHelp,
	}
	pages := manual.ManPages(&program)
	if err := os.MkdirAll(rest[0], 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		if err := os.WriteFile(filepath.Join(rest[0], name), []byte(pages[name]), 0o644); err != nil {
			return err
		}
	}
	return cmd.PrintResult(false, nil, "wrote %d manual pages into %s", len(pages), rest[0])
}
