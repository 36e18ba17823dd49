package main

import (
	"context"
	"fmt"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/peers/rangequery"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/run/local"
)

func rangesExport(ctx context.Context, cmd *cmdline.Invocation) error {
	word := cmd.String("generation", "", "this one instead of the one in use: a number, or held")
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadScheme()
	if err != nil {
		return err
	}
	if *word != "" {
		if err := local.CheckGeneration(*word); err != nil {
			return cmdline.Usagef("ranges export: --generation: %v", err)
		}
	}
	return local.WithRanges(ctx, *file, func(s *local.Ranges) error {
		d, err := s.Directory(rest[0])
		if err != nil {
			return err
		}
		var g *ranges.Generation
		if *word != "" {
			g, err = s.Generation(ctx, d.Scheme, *word)
		} else if g, _, err = s.InUse(ctx, d.Scheme, cmd.Stderr); err == nil && g == nil {
			err = fmt.Errorf("%s has no card ranges yet", d.Scheme)
		}
		if err != nil {
			return err
		}
		return rangequery.WriteCSV(ctx, terminal.Exact(cmd.Stdout), g)
	})
}
