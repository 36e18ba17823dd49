package main

import (
	"context"
	"time"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/engine/verdict"
)

// runCheck prints the message of a file, masked, and on stderr all that is
// wrong with it.
func runCheck(_ context.Context, cmd *cmdline.Invocation) error {
	of := cmd.String("scheme", "", "hold it against what this card scheme asks for as well")
	asJSON := cmd.Bool("json", false, "print the result as JSON")
	text, o, err := readJudged(cmd, of, new(string))
	if err != nil {
		return err
	}
	o.IsJSON = *asJSON
	return verdict.Check(text, o, cmd.Stdout, cmd.Stderr)
}

// runExplain prints what /auth would make of a body, without a server: with the same function, but without card ranges
// and the profile of a merchant.
func runExplain(_ context.Context, cmd *cmdline.Invocation) error {
	of := cmd.String("scheme", "", "the card scheme whose directory server the AReq would go to")
	asOf := cmd.String("as-of", "", "the day whose rules of the scheme count, such as 2026-11-25")
	asJSON := cmd.Bool("json", false, "print what POST /explain answers")
	text, o, err := readJudged(cmd, of, asOf)
	if err != nil {
		return err
	}
	o.IsJSON = *asJSON
	return verdict.Explain(text, o, cmd.Stdout, cmd.Stderr)
}

// readJudged reads the command line of a command that judges the text of a file, and the file.
func readJudged(cmd *cmdline.Invocation, of, asOf *string) ([]byte, verdict.Options, error) {
	o := verdict.Options{Now: time.Now()}
	rest, err := cmd.ReadArgs(1)
	if err != nil {
		return nil, o, err
	}
	if err := verdict.FindScheme(*of); err != nil {
		return nil, o, cmdline.Usagef("%s: %s", cmd.Name(), err)
	}
	if *asOf != "" {
		if o.AsOf, err = time.Parse(time.DateOnly, *asOf); err != nil {
			return nil, o, cmdline.Usagef("%s: --as-of %q is no date such as 2026-11-25", cmd.Name(), *asOf)
		}
	}
	if len(rest) == 0 {
		return nil, o, cmdline.Usagef("%s: no file (- is standard input)", cmd.Name())
	}
	text, err := cmdline.ReadInput(rest[0], cmd.Stdin, verdict.MaxText+1)
	o.Name, o.Scheme = cmdline.InputName(rest[0]), *of
	return text, o, err
}
