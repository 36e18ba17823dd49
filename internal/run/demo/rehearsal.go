package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/openthreeds/threeds/internal/run/playground"
)

// Rehearse runs directory servers and issuers for a 3DS Server of its own process, until ctx ends. It says on standard
// output what there is.
func Rehearse(ctx context.Context, r playground.Rehearsal, stdout io.Writer) (err error) {
	ready := &ReadyFile{Path: filepath.Join(r.Dir, "ready")}
	if err := ready.RemoveStale(); err != nil {
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
	if _, err := fmt.Fprintf(stdout, `The directory servers and issuers of the sandbox are ready. Nothing here is real.

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
