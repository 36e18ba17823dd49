package main

import (
	"context"
	"fmt"
	"time"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/local"
)

// rangesRefresh requests that a directory server is asked as soon as possible.
func rangesRefresh(ctx context.Context, cmd *cmdline.Invocation) error {
	return withDirectory(ctx, cmd, func(s *local.Ranges, d config.Directory) error {
		status, err := s.RefreshStatus(ctx, d.Scheme)
		if err != nil {
			return err
		}
		if s.Keeper == nil {
			return fmt.Errorf("ranges refresh: nothing was served from %s yet; the first start asks anyway", s.Store.URL.Dir)
		}
		now := time.Now().UTC()
		if err := s.Acts().RefreshRanges(ctx, local.Actor(), d.Scheme); err != nil {
			return plainError(err)
		}
		at := status.Earliest
		if status.Next.Before(at) { // a retry may come before
			at = status.Next
		}
		if !at.After(now) {
			_, err = fmt.Fprintf(cmd.Stdout,
				"%s: its directory server is asked as soon as a node that serves sees this, within seconds\n", d.Scheme)
			return err
		}
		_, err = fmt.Fprintf(cmd.Stdout,
			"%s: its directory server was asked %s ago and may be asked again at %s, in %s; a node that serves does it then\n",
			d.Scheme, terminal.Span(now.Sub(status.Asked)), at.UTC().Format("2006-01-02 15:04:05 UTC"),
			terminal.Span(at.Sub(now)))
		return err
	})
}

// rangesAccept requests that the generation which is held back is used.
func rangesAccept(ctx context.Context, cmd *cmdline.Invocation) error {
	return withDirectory(ctx, cmd, func(s *local.Ranges, d config.Directory) error {
		status, err := s.RefreshStatus(ctx, d.Scheme)
		if err != nil {
			return err
		}
		if status.Held == 0 {
			return fmt.Errorf("ranges accept: nothing of %s is held back", d.Scheme)
		}
		if _, err := s.Acts().AcceptRanges(ctx, local.Actor(), d.Scheme, status.Held); err != nil {
			return plainError(err)
		}
		place := ""
		if status.Generation > 0 {
			place = fmt.Sprintf(", in place of generation %d with %s", status.Generation, terminal.Count(status.Ranges, "range"))
		}
		_, err = fmt.Fprintf(cmd.Stdout,
			"%s: accepted the generation held back under number %d, with %s%s; a node that serves takes it within seconds\n",
			d.Scheme, status.Held, terminal.Count(status.HeldRanges, "range"), place)
		return err
	})
}

// withDirectory reads a command line that names a scheme, and calls do with its directory.
func withDirectory(ctx context.Context, cmd *cmdline.Invocation, do func(*local.Ranges, config.Directory) error) error {
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadScheme()
	if err != nil {
		return err
	}
	return local.WithRanges(ctx, *file, func(s *local.Ranges) error {
		d, err := s.Directory(rest[0])
		if err != nil {
			return err
		}
		return do(s, d)
	})
}
