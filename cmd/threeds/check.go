package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/openthreeds/threeds/message"
)

// maxMessage is how much check reads: far more than any listener takes.
const maxMessage = 64 << 20

// runCheck prints the message of a file, masked, and on stderr all that is
// wrong with it.
func runCheck(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	rest, err := parse(flag.NewFlagSet("check", flag.ContinueOnError), args, 1)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return misused("check: no file (- is standard input)")
	}
	name, in := rest[0], stdin
	if name == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxMessage))
	if err != nil {
		return err
	}
	// No limits: what is asked is what is wrong, not whether to take it.
	m, err := message.Parse(data, message.Limits{Members: -1})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := m.Describe(stdout); err != nil {
		return err
	}
	problems := m.Check(message.Context{})
	if len(problems) == 0 {
		return nil
	}
	for _, p := range problems {
		fmt.Fprintf(stderr, "%s: %s: %s %s\n", name, p.Path, p.Code, explain(p))
	}
	return fmt.Errorf("%s: %s", name, count(len(problems), "fault"))
}

// explain says what a problem is, with what only it knows.
func explain(p message.Problem) string {
	if p.Note == "" {
		return p.Code.Description()
	}
	return fmt.Sprintf("%s (%s)", p.Code.Description(), p.Note)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
