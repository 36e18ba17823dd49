package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/protocol/inspect"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/message"
)

// maxMessage is how much check reads: far more than any listener takes.
const maxMessage = 64 << 20

// runCheck prints the message of a file, masked, and on stderr all that is
// wrong with it.
func runCheck(_ context.Context, cmd *cmdline.Invocation) error {
	of := cmd.String("scheme", "", "hold it against what this card scheme asks for as well")
	asJSON := cmd.Bool("json", false, "print the result as JSON")
	rest, err := cmd.ReadArgs(1)
	if err != nil {
		return err
	}
	if known := scheme.Names(); *of != "" && !slices.Contains(known, *of) {
		return cmdline.Usagef("check: no scheme %q%s", *of, hint.For(*of, known...))
	}
	name, data, err := readCheckFile("check", rest, cmd.Stdin)
	if err != nil {
		return err
	}
	input, ok := inspect.Read(data)
	if !ok {
		_, err := message.Parse(data, message.Limits{Members: -1})
		return unreadableError{fmt.Errorf("%s: %w%s", name, err, inspect.DescribeOther(data))}
	}
	report, err := inspect.Check(input, *of, time.Now())
	if err != nil {
		return unreadableError{fmt.Errorf("%s: %w%s", name, err, inspect.DescribeOther(data))}
	}
	if *asJSON {
		err = report.WriteJSON(cmd.Stdout)
	} else {
		err = report.Write(name, cmd.Stdout, cmd.Stderr)
	}
	if err == nil && report.Faults > 0 {
		err = fmt.Errorf("%s: %s", name, terminal.Count(report.Faults, "fault"))
	}
	return err
}

// readCheckFile reads the file that a command is given, and returns how to call it.
func readCheckFile(command string, rest []string, stdin io.Reader) (name string, data []byte, err error) {
	if len(rest) == 0 {
		return "", nil, cmdline.Usagef("%s: no file (- is standard input)", command)
	}
	if data, err = cmdline.ReadInput(rest[0], stdin, maxMessage+1); err != nil {
		return "", nil, err
	}
	name = cmdline.InputName(rest[0])
	if len(data) > maxMessage {
		return "", nil, fmt.Errorf("%s: longer than %d MiB, so it was not checked: no message is", name, maxMessage>>20)
	}
	return name, data, nil
}

// An unreadableError says that a text holds nothing that check can check. Its exit status is 2.
type unreadableError struct{ err error }

func (e unreadableError) Error() string { return e.err.Error() }

func (e unreadableError) Unwrap() error { return e.err }
