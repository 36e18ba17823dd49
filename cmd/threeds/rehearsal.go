package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/run/playground"
)

// newRehearsal returns the rehearsal that the flags of "threeds sandbox" ask for.
func newRehearsal(cmd *invocation) (r playground.Rehearsal, err error) {
	r.Log = obs.NewLogger(cmd.stderr, slog.LevelWarn)
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
		err = usageErrorf("sandbox: --%s and --directories exclude each other", wrong)
	case r.Dir == "":
		err = usageErrorf("sandbox: --results-ca %s: want --directories DIR with it", r.ResultsCA)
	}
	return r, err
}

// runRehearsal runs directory servers and issuers for a 3DS Server of its own process, until ctx ends.
func runRehearsal(ctx context.Context, cmd *invocation) (err error) {
	r, err := newRehearsal(cmd)
	if err != nil {
		return err
	}
	ready := &readyFile{path: filepath.Join(r.Dir, "ready")}
	if err := ready.removeStale(); err != nil {
		return err
	}
	s, err := r.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ready.remove(), s.Close()) }()
	ds := make(map[string]string)
	for _, d := range s.Directories() {
		ds[d.Scheme] = d.URL
	}
	if err := ready.publish(map[string]any{
		"acs": s.ACSURL(), "ds": ds, "directories": s.DirectoriesURL(), "control": s.ControlURL(),
		"ca": filepath.Join(r.Dir, "ca.pem"),
	}); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(cmd.stdout, `The directory servers and issuers of the sandbox are ready. Nothing here is real.

  Directory servers  %s, with mutual TLS
  Issuers' pages     %s
  Peers saw          %s

Now a server, in another terminal:

  threeds serve --config %s

For another 3DS Server, see %s. Ctrl-C ends this.
`, s.DirectoriesURL(), s.ACSURL(), s.ControlURL(), filepath.Join(r.Dir, "threeds.yaml"),
		filepath.Join(r.Dir, "foreign.json")); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
