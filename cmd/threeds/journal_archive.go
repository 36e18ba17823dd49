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

// archiveJournal moves days of the journal into files of a folder.
func archiveJournal(ctx context.Context, cmd *cmdline.Invocation) error {
	before := cmd.String("before", "", "the first day that stays, such as 2026-11-25; unset, as journal.keep_hot says")
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadExactly(1, "DIR is missing")
	if err != nil {
		return err
	}
	c, err := config.Read(*file)
	if err != nil {
		return err
	}
	now := time.Now()
	first := now.Add(-c.Journal.KeepHot)
	switch {
	case *before != "":
		if first, err = time.Parse(time.DateOnly, *before); err != nil {
			return cmdline.Usagef("journal archive: --before %q is no date such as 2026-11-25", *before)
		}
	case c.Journal.KeepHot == 0:
		return cmdline.Usagef("journal archive: want --before DATE, or journal.keep_hot in the configuration")
	}
	return local.WithJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		if err := local.RecordJournal(ctx, *file, "journal.archive", "",
			map[string]any{"before": first.UTC().Format(time.DateOnly)}); err != nil {
			return err
		}
		days, entries, faults := 0, int64(0), 0
		a := journal.Archiver{Store: st, Keys: keys, Dir: rest[0], Before: first, Now: now, By: local.Actor().Who}
		a.Report = func(r journal.DayReport) {
			if r.Why != "" {
				if r.IsFault {
					faults++
				}
				fmt.Fprintf(cmd.Stderr, "threeds: %s stays in the database: %s\n", r.Day, r.Why)
				return
			}
			days, entries = days+1, entries+r.File.Entries
			fmt.Fprintf(cmd.Stdout, "%s: %d entries, %d bytes\n", r.File.Name, r.File.Entries, r.Size)
		}
		if err := a.Run(ctx); err != nil {
			return err
		}
		fmt.Fprintf(cmd.Stdout, "archived: %s, %d entries\n", terminal.Count(days, "day"), entries)
		if faults > 0 {
			return errors.New("journal: days were not archived that somebody has to look at: the lines above say why")
		}
		return nil
	})
}

// verifyFolder says whether a folder has the files of all archived days. With a file of public keys it does not ask the
// journal, so that it does not know which files there must be.
func verifyFolder(ctx context.Context, cmd *cmdline.Invocation, dir, keyFile, configFile string) error {
	var got journal.FolderVerified
	var err error
	if keyFile != "" {
		signers, wrong := local.ReadSigners(keyFile, configFile)
		if wrong != nil {
			return wrong
		}
		got, err = journal.VerifyFolder(dir, signers...)
	} else {
		err = local.WithJournal(ctx, configFile, func(st journal.Store, keys *journal.Keys) (err error) {
			got, err = (&journal.Folder{Dir: dir, Keys: keys}).Verify(ctx, st)
			return err
		})
	}
	if err != nil {
		return err
	}
	for _, fault := range got.Faults {
		fmt.Fprintf(cmd.Stderr, "threeds: %s\n", fault)
	}
	if got.Old > 0 {
		fmt.Fprintf(cmd.Stderr, "threeds: %s of days that the journal does not keep any more\n",
			terminal.Count(got.Old, "file"))
	}
	for _, name := range got.Held {
		fmt.Fprintf(cmd.Stderr, "threeds: %s has to stay: a legal hold holds something in it\n", name)
	}
	if len(got.Faults) > 0 {
		return fmt.Errorf("journal: %s not as written", terminal.Count(len(got.Faults), "file"))
	}
	_, err = fmt.Fprintf(cmd.Stdout, "ok: %d files, %d records, %d erased\n", got.Files, got.Records, got.Erased)
	return err
}

// eraseFromFolder removes what belongs to a card or a merchant from the files of archived days.
func eraseFromFolder(ctx context.Context, cmd *cmdline.Invocation, st journal.Store, keys *journal.Keys, dir string,
	q journal.Query) error {
	done, err := (&journal.Folder{Dir: dir, Keys: keys}).Erase(ctx, st, q)
	for _, fault := range done.Faults {
		fmt.Fprintf(cmd.Stderr, "threeds: nothing was erased from %s\n", fault)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.Stdout, "erased from %s: %s\n", terminal.Count(done.Files, "file"),
		terminal.Count(done.Entries, "record"))
	printHeld(cmd, "stays in files", done.Held)
	printUnforgotten(cmd, done.Unforgotten)
	if len(done.Faults) > 0 {
		return fmt.Errorf("journal: %s could not be erased from", terminal.Count(len(done.Faults), "file"))
	}
	return nil
}

// printUnforgotten says of how many authentications an erasure has not forgotten the keys.
func printUnforgotten(cmd *cmdline.Invocation, n int) {
	if n > 0 {
		fmt.Fprintf(cmd.Stderr, "threeds: the keys of %s were not forgotten, for there are too many: "+
			"backups of the database that are older still have their text\n", terminal.Count(n, "authentication"))
	}
}

// printUnreached says which files of archived days an erasure in the database does not reach.
func printUnreached(cmd *cmdline.Invocation, files []string) {
	if len(files) > 0 {
		fmt.Fprintf(cmd.Stderr,
			"threeds: not reached: %s of archived days, from %s to %s; --archive DIR erases from them, too\n",
			terminal.Count(len(files), "file"), files[0], files[len(files)-1])
	}
}
