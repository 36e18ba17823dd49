package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/local"
	"github.com/openthreeds/threeds/internal/state/cluster"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// runNodes lists the nodes of a store, and says below the table what needs attention.
func runNodes(ctx context.Context, cmd *cmdline.Invocation) error {
	asJSON, file := cmd.JSONFlag(), cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	return local.WithKeys(ctx, *file, func(_ *config.Config, st store.Store, _ *keyring.Ring) error {
		now := time.Now()
		all, err := cluster.Members(ctx, st, now)
		if err != nil {
			return err
		}
		err = terminal.WriteList(cmd.Stdout, *asJSON, all,
			"NAME\tSTATE\tRELEASE\tSINCE\tLAST WORD\tCONFIGURATION\tKEY FILE\tPROBLEMS",
			func(m cluster.Member) string {
				var parts []string
				for _, p := range m.Problems {
					parts = append(parts, p.Part)
				}
				return terminal.OneLine(m.Name) + "\t" + strings.Join([]string{
					m.State, orNone(m.Release), m.Since.Format(time.RFC3339), terminal.Span(now.Sub(m.Seen)) + " ago",
					orNone(m.Config), orNone(m.KeyFile), orNone(strings.Join(parts, ", ")),
				}, "\t")
			})
		if err != nil || *asJSON {
			return err
		}
		for _, m := range all {
			for _, p := range m.Problems {
				fmt.Fprintf(cmd.Stdout, "%s, since %s: %s: %s\n", terminal.OneLine(m.Name), p.Since.Format(time.RFC3339), p.Part,
					terminal.OneLine(p.Text))
			}
		}
		for _, f := range cluster.Compare(all, now) {
			fmt.Fprintf(cmd.Stdout, "%s.\n", terminal.OneLine(f.Text))
		}
		return nil
	})
}

// orNone returns a text for a cell of a table.
func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return terminal.OneLine(text)
}
