// Threeds is an EMV 3-D Secure server with its tools: the production server,
// a sandbox of directory servers and issuers to develop against, API keys,
// card ranges, and a checker for messages.
//
// This package reads the command line and runs the commands. The server is package
// internal/run/server, its configuration internal/run/config.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/coredump"
	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/engine/verdict"
	"github.com/openthreeds/threeds/internal/state/store/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	warnings := obs.NewLogger(obs.NonBlocking(os.Stderr), slog.LevelWarn)
	protectProcess(warnings)
	log.SetFlags(0)
	log.SetOutput(obs.Libraries(warnings))
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// catchBrokenPipe turns output into a closed pipe into an error, until the function that it returns is called.
// Otherwise the system ends the process when the reader of its output or log has ended.
func catchBrokenPipe() (stop func()) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}

// protectProcess keeps what this process has in memory out of core dumps, and variables of libpq from changing where
// the store is. What fails, or has no effect, is logged.
func protectProcess(log *slog.Logger) {
	if err := coredump.Disable(); err != nil {
		log.Warn("core dumps are not off", "err", err)
	}
	if dropped := postgres.DropEnvironment(); len(dropped) > 0 {
		log.Warn("variables of libpq are ignored: the URL of the store says all", "variables", dropped)
	}
}

// run is the program without the process: tests call it, and main exits with the status
// that it returns.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "serve" {
		stderr = obs.NonBlocking(stderr) // so that the server does not wait for the reader of its log
	}
	// A terminal may be behind either, and what others wrote is in much of what a command prints.
	stdout, stderr = terminal.Writer{To: stdout}, terminal.Writer{To: stderr}
	err := dispatch(ctx, args, stdin, stdout, stderr)
	if err == nil {
		return 0
	}
	if help, ok := errors.AsType[cmdline.HelpRequest](err); ok {
		fmt.Fprintln(stdout, help.Text)
		return 0
	}
	// which may quote what was typed in the wrong place, such as a card number
	if _, ok := errors.AsType[cmdline.UsageError](err); ok {
		fmt.Fprintf(stderr, "threeds: %s\nRun \"threeds help\" for the commands and their flags.\n",
			cardnumber.Mask(err.Error()))
		return 2
	}
	// Each line of an error begins with the name of the program, so that each of many
	// faults can be found by it.
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "threeds: %s\n", strings.TrimSuffix(line, "\n"))
	}
	return verdict.Status(err)
}

// dispatch runs the command that args begin with.
func dispatch(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return cmdline.Usagef("no command")
	}
	name := args[0]
	switch name {
	case "-version", "--version":
		name = "version"
	case "-h", "-help", "--help":
		name = "help"
	}
	all := commands()
	c := cmdline.Find(all, name)
	if c == nil {
		return cmdline.Usagef("unknown command %q%s", name, hint.For(name, cmdline.Names(all)...))
	}
	return c.Call(ctx, cmdline.New(name, args[1:], stdin, stdout, stderr))
}
