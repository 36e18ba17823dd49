package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/local"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// forgetKeys has the file of keys forget all keys of old days, so that it gets small again. Without --yes it says of
// which.
func forgetKeys(ctx context.Context, cmd *cmdline.Invocation) error {
	before := cmd.String("before", "", "the first day whose keys stay, such as 2026-11-28")
	isSure := cmd.Bool("yes", false, "do it: what is forgotten cannot be brought back")
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	if _, err := time.Parse(time.DateOnly, *before); err != nil {
		return cmdline.Usagef("journal forget: --before: want a day such as 2026-11-28")
	}
	c, err := config.Read(*file)
	if err != nil {
		return err
	}
	if c.Journal.Keep == 0 {
		return errors.New("journal forget: the journal is off; want journal.keep in the configuration: older days may go")
	}
	over := time.Now().Add(-c.Journal.Keep).UTC().Format(time.DateOnly)
	return local.WithJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		f, err := journal.FindForgettable(ctx, st, keys, *before, over)
		warnOfFaults(cmd, st)
		if err != nil {
			return err
		}
		sayKept(cmd, f.Kept)
		says := "%s of %s would go from the file, and %d stay; --yes forgets all keys of these days\n"
		if *isSure && len(f.Days) > 0 {
			if err := local.RecordJournal(ctx, *file, "journal.forget", "", map[string]any{"before": *before}); err != nil {
				return err
			}
			if err := keys.ForgetDays(f); err != nil {
				return err
			}
			says = "%s of %s are gone from the file, and %d stay\n"
		}
		fmt.Fprintf(cmd.Stdout, says, terminal.Count(f.Keys, "erased authentication"), terminal.Count(len(f.Days), "day"),
			f.Left)
		if len(f.Days) > 0 {
			fmt.Fprintln(cmd.Stderr, "threeds: this cannot be undone, and nothing can be written for these days any more; "+
				"put this journal-keys.json in the place of that of all other nodes, or run the same there")
		}
		if len(f.Kept) > 0 {
			return errors.New("journal: some days keep their keys: the lines above say why")
		}
		return nil
	})
}

// sayKept says which days keep their keys, and why: those that follow each other for the same reason in one line.
func sayKept(cmd *cmdline.Invocation, kept []journal.KeptDay) {
	for i := 0; i < len(kept); {
		first := i
		for i < len(kept) && kept[i].Why == kept[first].Why {
			i++
		}
		days := kept[first].Day
		if i-first > 1 {
			days += " to " + kept[i-1].Day
		}
		fmt.Fprintf(cmd.Stderr, "threeds: %s keep their keys: %s: %s\n", terminal.Count(i-first, "day"), days,
			kept[first].Why)
	}
}
