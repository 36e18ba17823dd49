package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/peers/rangequery"
	"github.com/openthreeds/threeds/internal/run/local"
	"github.com/openthreeds/threeds/internal/state/store"
)

// rangesImport reads a PRes or a file of card ranges, and makes it the newest generation of a scheme.
func rangesImport(ctx context.Context, cmd *cmdline.Invocation) error {
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadScheme("FILE")
	if err != nil {
		return err
	}
	return local.OpenRanges(ctx, *file, true, func(s *local.Ranges) error {
		d, err := s.Directory(rest[0])
		if err != nil {
			return err
		}
		used, number, err := s.InUse(ctx, d.Scheme, cmd.Stderr)
		if err != nil && !errors.Is(err, local.ErrNoneWhole) { // an import is the way out of that
			return err
		}
		before, err := s.RefreshStatus(ctx, d.Scheme)
		if err != nil {
			return err
		}
		if number == before.Generation && before.From != "" && before.From != d.PReqURL {
			used = nil // its versions and addresses are those of another directory server
		}
		in, closeInput, err := cmdline.OpenInput(rest[1], cmd.Stdin)
		if err != nil {
			return err
		}
		defer func() { _ = closeInput() }() // only read
		set := &rangequery.File{Name: cmdline.InputName(rest[1]), In: in, Versions: d.MessageVersions(), Used: used}
		g, err := set.Read(ctx, cmd.Stderr)
		if err != nil {
			return err
		}
		g.From = d.PReqURL // should that change, its serial number means nothing there
		number, before, err = s.Acts().ImportRanges(ctx, local.Actor(), d.Scheme, g)
		if errors.Is(err, store.ErrHeld) {
			return fmt.Errorf("%s: a node is asking the directory server just now; try again when it is done", d.Scheme)
		}
		if err != nil {
			return err
		}
		serial := ""
		if g.Serial != "" {
			serial = ", serial number " + terminal.OneLine(g.Serial)
		}
		place := ""
		if before.Generation > 0 {
			place = fmt.Sprintf(", in place of generation %d with %s", before.Generation, terminal.Count(before.Ranges, "range"))
		}
		_, err = fmt.Fprintf(cmd.Stdout, "%s: generation %d with %s%s%s; nodes that serve take it within seconds\n",
			d.Scheme, number, terminal.Count(g.Len(), "range"), serial, place)
		return err
	})
}
