package main

import (
	"context"
	"time"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/peers/rangequery"
	"github.com/openthreeds/threeds/internal/run/local"
)

func rangesStatus(ctx context.Context, cmd *cmdline.Invocation) error {
	asJSON := cmd.JSONFlag()
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	return local.WithRanges(ctx, *file, func(s *local.Ranges) error {
		now := time.Now()
		all := []rangequery.Status{}
		for _, d := range s.Directories {
			status, wish, err := s.Refresh(ctx, d.Scheme)
			if err != nil {
				return err
			}
			all = append(all, rangequery.NewStatus(d.Scheme, d.Versions, status, wish, now))
		}
		if *asJSON {
			return terminal.WriteJSON(cmd.Stdout, all)
		}
		return rangequery.WriteStatuses(cmd.Stdout, all, now, s.ConfigArgument())
	})
}
