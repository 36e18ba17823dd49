package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/local"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

func exportJournal(ctx context.Context, cmd *cmdline.Invocation) error {
	var q journal.Query
	cmd.TimeFlag("from", "from the day of this time on", &q.From)
	cmd.TimeFlag("to", "until the day of this time", &q.To)
	cmd.StringVar(&q.Merchant, "merchant", "", "of this merchant alone")
	format := cmd.String("format", "jsonl", "jsonl, which can be verified, or csv, for spreadsheets")
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadArgs(1)
	if err != nil {
		return err
	}
	if *format != "jsonl" && *format != "csv" {
		return cmdline.Usagef("journal export: --format is neither jsonl nor csv")
	}
	if err := cmd.CheckSpan(q.From, q.To); err != nil {
		return err
	}
	return local.WithJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		if err := local.CheckSearched(ctx, *file, st, &q); err != nil {
			return fmt.Errorf("journal export: --%w", err)
		}
		if err := local.RecordJournal(ctx, *file, "journal.export", "", cmd.Given("config")); err != nil {
			return err
		}
		n, err := writeExport(rest, cmd.Stdout, func(to io.Writer) (int, error) {
			if *format == "csv" {
				defer warnOfFaults(cmd, st)
				return journal.WriteCSV(ctx, to, st, nil, q)
			}
			return journal.WriteJSONLines(ctx, to, st, keys, q)
		})
		if err == nil {
			_, err = fmt.Fprintf(cmd.Stderr, "threeds: exported %s\n", terminal.Count(n, "record"))
		}
		return err
	})
}

func verifyJournal(ctx context.Context, cmd *cmdline.Invocation) error {
	keyFile := cmd.String("key", "",
		"the public key that \"threeds journal key\" prints; unset, that of the configuration")
	dir := cmd.String("archive", "", "verify the files of archived days in this folder")
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadArgs(1)
	if err != nil {
		return err
	}
	if (*dir == "") == (len(rest) == 0) {
		return cmdline.Usagef("journal verify: want either FILE (- is standard input) or --archive DIR")
	}
	if *dir != "" {
		return verifyFolder(ctx, cmd, *dir, *keyFile, *file)
	}
	in, closeInput, err := cmdline.OpenInput(rest[0], cmd.Stdin)
	if err != nil {
		return err
	}
	defer func() { _ = closeInput() }() // only read
	from, err := journal.Decompressed(in)
	if err != nil {
		return err
	}
	signers, err := local.ReadSigners(*keyFile, *file)
	if err != nil {
		return err
	}
	got, err := journal.Verify(from, signers...)
	if err != nil {
		return nameFile(rest[0], err)
	}
	archived := ""
	if got.Archived > 0 {
		archived = fmt.Sprintf(", %d days archived in files", got.Archived)
	}
	if got.Forgotten > 0 {
		archived += fmt.Sprintf(", %d erased by the key alone", got.Forgotten)
	}
	if got.Holds > 0 {
		archived += fmt.Sprintf(", %s, %s kept by them", terminal.Count(got.Holds, "legal hold"),
			terminal.Count(got.Held, "day"))
	}
	_, err = fmt.Fprintf(cmd.Stdout, "ok: %d records, %d erased, %d days%s\n", got.Records, got.Erased, got.Days, archived)
	return err
}

// followEvery is how long a command that follows waits before it looks for more.
const followEvery = time.Second

// followWait returns how such a command waits; nil means that it ends when all has been printed.
func followWait(isOnce bool) func(context.Context) error {
	if isOnce {
		return nil
	}
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
			return nil
		}
	}
}

// followJournal prints entries as they come.
func followJournal(ctx context.Context, cmd *cmdline.Invocation) error {
	from := cmd.Int("from", 0, "go on behind this seal")
	isOnce := cmd.Bool("once", false, "end when all has been printed")
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	if *from < 0 {
		return cmdline.Usagef("journal follow: --from: want the number of a seal, or 0 for all entries")
	}
	err := local.WithJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		f := journal.Follower{Store: st, Keys: keys, From: int64(*from), To: cmd.Stdout, Wait: followWait(*isOnce)}
		return f.Run(ctx)
	})
	if errors.Is(err, context.Canceled) {
		return nil // The user has ended the command.
	}
	return err
}

// witnessJournal compares heads that were noted elsewhere with those that the journal and the audit trail have now.
func witnessJournal(ctx context.Context, cmd *cmdline.Invocation) error {
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadExactly(1, "FILE is missing (- is standard input)")
	if err != nil {
		return err
	}
	from, closeInput, err := cmdline.OpenInput(rest[0], cmd.Stdin)
	if err != nil {
		return err
	}
	defer func() { _ = closeInput() }() // only read
	return local.WithJournal(ctx, *file, func(st journal.Store, _ *journal.Keys) error {
		return local.WithKeys(ctx, *file, func(c *config.Config, db store.Store, ring *keyring.Ring) error {
			got, err := journal.Witness(ctx, from, st, local.NewTrail(c, db, ring).EachLink)
			if err != nil {
				return nameFile(rest[0], err)
			}
			_, err = fmt.Fprintf(cmd.Stdout, "ok: %d heads, %d older than what is kept\n", got.Heads, got.Older)
			return err
		})
	})
}

// nameFile puts the name of a file before an error that says which of its lines is wrong. Other errors stay as they
// are.
func nameFile(name string, err error) error {
	if wrong, ok := errors.AsType[*journal.LineError](err); ok {
		return fmt.Errorf("%s:%w", name, wrong)
	}
	return err
}

// importJournal adds the entries of an export. All of it is verified first, so it must be a file.
func importJournal(ctx context.Context, cmd *cmdline.Invocation) error {
	keyFile := cmd.String("key", "",
		"the public keys of the journal that the export is of; unset, those of the configuration")
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadArgs(1)
	if err != nil {
		return err
	}
	if len(rest) == 0 || rest[0] == "-" {
		return cmdline.Usagef("journal import: FILE is missing (it is read twice, so standard input is none)")
	}
	f, err := journal.OpenExport(rest[0])
	if err != nil {
		return err
	}
	defer f.Close() // only read
	return local.WithJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		signers, err := local.ReadSigners(*keyFile, *file)
		if err != nil {
			return err
		}
		if err := local.RecordJournal(ctx, *file, "journal.import", filepath.Base(rest[0]), nil); err != nil {
			return err
		}
		done, err := journal.Import(ctx, st, keys, f, signers...)
		if _, isLeftOut := errors.AsType[*journal.ForgottenDaysError](err); err != nil && !isLeftOut {
			return nameFile(rest[0], err)
		}
		err = errors.Join(err, st.Sign(ctx, time.Now())) // its days are over
		leftOut := ""
		if done.LeftOut > 0 {
			leftOut = fmt.Sprintf(", %d were left out", done.LeftOut)
		}
		fmt.Fprintf(cmd.Stdout, "imported: %s, %d were there%s\n", terminal.Count(done.Added, "record"), done.Present,
			leftOut)
		return err
	})
}

func printJournalKey(ctx context.Context, cmd *cmdline.Invocation) error {
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	return local.WithJournal(ctx, *file, func(_ journal.Store, keys *journal.Keys) error {
		text, err := keys.PEM()
		if err == nil {
			_, err = cmd.Stdout.Write(text)
		}
		return err
	})
}

// printBilling prints the counters of months.
func printBilling(ctx context.Context, cmd *cmdline.Invocation) error {
	from := cmd.String("from", "", "first month, such as 2026-10: the one before this one unless given")
	to := cmd.String("to", "", "last month: this one unless given")
	name := cmd.String("merchant", "", "of this merchant alone")
	asJSON := cmd.Bool("json", false, "print JSON")
	asCSV := cmd.Bool("csv", false, "print a table for spreadsheets")
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	q, err := journal.ParseMonths(*from, *to, time.Now())
	if err != nil {
		return cmdline.Usagef("journal billing: --%s", err)
	}
	if *asJSON && *asCSV {
		return cmdline.Usagef("journal billing: want --json or --csv, not both")
	}
	q.Merchant = *name
	return local.WithJournal(ctx, *file, func(st journal.Store, _ *journal.Keys) error {
		counts, err := st.Billing(ctx, q)
		if err == nil && len(counts) == 0 {
			if err := local.CheckSearched(ctx, *file, st, &journal.Query{Merchant: *name}); err != nil {
				return fmt.Errorf("journal billing: --%w", err)
			}
		}
		switch {
		case err != nil:
			return err
		case *asJSON:
			return terminal.WriteJSON(cmd.Stdout, map[string]any{"data": counts})
		case *asCSV:
			return journal.WriteBillingCSV(cmd.Stdout, counts)
		}
		w := terminal.NewTable(cmd.Stdout, "MONTH\tMERCHANT\tAPI\tCHANNEL\tCATEGORY\tKIND\tCOUNT")
		for _, c := range counts {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Month, terminal.OneLine(c.Merchant), c.API,
				cmp.Or(c.DeviceChannel, "-"),
				cmp.Or(c.MessageCategory, "-"), c.Kind, c.CountText())
		}
		return w.Flush()
	})
}

// generateJournal fills an empty journal, to try out searches.
func generateJournal(ctx context.Context, cmd *cmdline.Invocation) error {
	g := journal.Generation{}
	cmd.IntVar(&g.Authentications, "authentications", 10000, "how many")
	cmd.IntVar(&g.Days, "days", 30, "over how many days, up to now, they are spread")
	cmd.IntVar(&g.Merchants, "merchants", 50, "of how many merchants they are")
	cmd.Uint64Var(&g.Seed, "seed", 1, "the same one makes the same records")
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	if g.Authentications < 1 || g.Days < 1 || g.Merchants < 1 {
		return cmdline.Usagef("journal generate: want a number from 1 for --authentications, --days and --merchants")
	}
	return local.WithJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		if err := local.RecordJournal(ctx, *file, "journal.generate", "", nil); err != nil {
			return err
		}
		err := journal.Generate(ctx, st, keys, g, time.Now(), func(n int) {
			if n%100_000 == 0 {
				fmt.Fprintf(cmd.Stderr, "threeds: %d written\n", n)
			}
		})
		if err == nil {
			_, err = fmt.Fprintf(cmd.Stdout, "generated: %s\n", terminal.Count(g.Authentications, "authentication"))
		}
		return err
	})
}
