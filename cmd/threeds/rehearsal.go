package main

import (
	"context"
	"flag"
	"log/slog"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/run/demo"
	"github.com/openthreeds/threeds/internal/run/playground"
)

// newRehearsal returns the rehearsal that the flags of "threeds sandbox" ask for.
func newRehearsal(cmd *cmdline.Invocation) (r playground.Rehearsal, err error) {
	r.Log = obs.NewLogger(cmd.Stderr, slog.LevelWarn)
	wrong := ""
	cmd.Visit(func(f *flag.Flag) {
		value := f.Value.String()
		switch f.Name {
		case "directories":
			r.Dir = value
		case "results-ca":
			r.ResultsCA = value
		case "listen":
			r.PagesListen = value
		case "strict":
			r.Strict = value == "true"
		case "directories-listen":
			r.DirectoriesListen = value
		default:
			wrong = f.Name
		}
	})
	switch {
	case wrong != "":
		err = cmdline.Usagef("sandbox: --%s and --directories exclude each other", wrong)
	case r.Dir == "":
		err = cmdline.Usagef("sandbox: --results-ca %s: want --directories DIR with it", r.ResultsCA)
	}
	return r, err
}

// runRehearsal runs directory servers and issuers for a 3DS Server of its own process, until ctx ends.
func runRehearsal(ctx context.Context, cmd *cmdline.Invocation) error {
	r, err := newRehearsal(cmd)
	if err != nil {
		return err
	}
	return demo.Rehearse(ctx, r, cmd.Stdout)
}
