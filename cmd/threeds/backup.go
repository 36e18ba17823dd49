package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/local"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/backup"
	"github.com/openthreeds/threeds/internal/state/store"
)

// runBackup writes what the store keeps for long into a file, next to a running server or without one.
func runBackup(ctx context.Context, cmd *cmdline.Invocation) error {
	withAll := cmd.Bool("journal", false, "back up the journal, too")
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadExactly(1, "FILE is missing (- is standard output)")
	if err != nil {
		return err
	}
	warn := func(format string, args ...any) { fmt.Fprintf(cmd.Stderr, "threeds: warning: "+format+"\n", args...) }
	return local.WithArchive(ctx, *file, false, func(st store.Archive) error {
		var counts backup.Counts
		var j *backup.Journal
		if *withAll {
			if j, err = local.BackedUpJournal(*file); err != nil {
				return fmt.Errorf("backup: %w", err)
			}
			switch {
			case j == nil:
				return errors.New("backup: --journal: the journal is off in the configuration")
			case j.Keys == nil:
				return errors.New("backup: --journal: there is no journal-keys.json here (journal.keys), " +
					"so nobody could say whether the backup can be read: copy the file of a node")
			}
		}
		err := cmdline.WriteNewFile(rest, cmd.Stdout, func(to io.Writer) (err error) {
			counts, err = backup.Write(ctx, to, st, j, time.Now())
			return err
		})
		if err != nil {
			return fmt.Errorf("backup: %w", err)
		}
		further := "the key file too"
		if *withAll {
			further = "the key file and journal-keys.json too"
			j.WarnOfMissingDays(warn)
		}
		if c, err := config.Read(*file); err != nil {
			warn("it is not known whether the key file opens this backup: %v", err)
		} else {
			backup.WarnOfMissingSecrets(ctx, st, c.Vault(), c.Keys, warn)
		}
		_, err = fmt.Fprintf(cmd.Stderr, "threeds: backed up %s; back up %s, in another place\n", counts.Describe(), further)
		return err
	})
}

// runRestore loads a backup into the store.
func runRestore(ctx context.Context, cmd *cmdline.Invocation) error {
	replace := cmd.Bool("replace", false, "put the backup in the place of what the store has")
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadExactly(1, "FILE is missing (- is standard input)")
	if err != nil {
		return err
	}
	name, from := cmdline.InputName(rest[0]), (*os.File)(nil)
	if rest[0] != "-" {
		from, err = os.Open(rest[0])
	} else {
		from, err = backup.Spool(cmd.Stdin)
	}
	if err != nil {
		return err
	}
	defer from.Close() // only read
	return local.WithArchive(ctx, *file, true, func(st store.Archive) error {
		j, err := local.BackedUpJournal(*file)
		if err != nil {
			return fmt.Errorf("restore: %w", err)
		}
		if err := local.CheckTrail(*file); err != nil {
			return fmt.Errorf("restore: nothing was changed: %w", err)
		}
		report, err := backup.Restore(ctx, st, from, *replace, j)
		broken, isJournal := errors.AsType[*backup.JournalError](err)
		switch {
		case errors.Is(err, backup.ErrNotEmpty):
			return errors.New("restore: the store has API keys (or revoked ones) or card ranges already; nothing was changed " +
				"(--replace puts the backup in their place)")
		case err != nil && !isJournal:
			return fmt.Errorf("restore: %s: %w; nothing was changed", name, err)
		}
		if err := local.RecordRestore(ctx, *file, st, &report); err != nil {
			return fmt.Errorf("restore: done, but the audit trail does not say so: %w", err)
		}
		err = writeReport(cmd.Stdout, report)
		if isJournal {
			return fmt.Errorf(
				"restore: %s: the journal is restored in part: %w (run it again with --replace: what is there stays)", name, broken)
		}
		if err != nil {
			return err
		}
		c, err := config.Read(*file)
		if err == nil {
			err = backup.CheckKeyFile(ctx, st, c.Vault(), c.Keys)
		}
		if err != nil {
			return fmt.Errorf("restore: everything is restored, but %w", err)
		}
		return nil
	})
}

func writeReport(stdout io.Writer, report backup.Report) error {
	w := bufio.NewWriter(stdout)
	fmt.Fprintf(w, "restored: %s\n", report.Added.Describe())
	if len(report.Replaced) > 0 {
		fmt.Fprintf(w, "replaced: %s\n", report.Replaced.Describe())
	}
	if report.ReplacedTrail != nil {
		fmt.Fprintf(w, "replaced: the audit trail of another store, %s, the last link %x\n",
			terminal.Count(report.Replaced[store.AuditRows], "entry"),
			operator.LinkOf(report.ReplacedTrail))
	}
	for _, k := range report.Refused {
		fmt.Fprintf(w, "not brought back: API key %s of merchant %q, which this store knows as revoked\n",
			account.KeyID(k.Hash), terminal.OneLine(k.Merchant))
	}
	for _, k := range report.Revoked {
		fmt.Fprintf(w, "revoked: API key %s of merchant %q, at %s\n", account.KeyID(k.Hash), terminal.OneLine(k.Merchant),
			k.At.Format(time.RFC3339))
	}
	return w.Flush()
}

// revokedReport is one line of the list of revoked keys.
type revokedReport struct {
	Hash     string `json:"hash"` // its beginning
	Merchant string `json:"merchant"`
	Revoked  string `json:"revoked"`
}

// listRevokedKeys writes which keys were revoked, the oldest revocation first.
func listRevokedKeys(ctx context.Context, file string, asJSON bool, stdout io.Writer) error {
	return local.WithArchive(ctx, file, true, func(st store.Archive) error {
		keys, err := backup.Revoked(ctx, st)
		if err != nil {
			return err
		}
		all := []revokedReport{}
		for _, k := range keys {
			all = append(all, revokedReport{account.KeyID(k.Hash), terminal.OneLine(k.Merchant), k.At.Format(time.RFC3339)})
		}
		return terminal.WriteList(stdout, asJSON, all, "HASH\tREVOKED\tMERCHANT", func(k revokedReport) string {
			return fmt.Sprintf("%s\t%s\t%s", k.Hash, k.Revoked, k.Merchant)
		})
	})
}
