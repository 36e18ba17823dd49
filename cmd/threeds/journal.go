package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/local"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// journalCommands read the journal, export it, erase from it, and verify exports.
var journalCommands = []cmdline.Command{
	{
		Name: "search", Run: searchJournal,
		Takes: `[--id ID] [--reference R] [--card -] [--last4 N] [--merchant NAME] [--scheme SCHEME] [--acs REF]
			[--status STATUS] [--result R] [--reason N] [--from T] [--to T] [--limit N] [--cursor C] [--json]
			[--archive DIR] [--config FILE]`,
		Does: `find authentications and refused requests, the newest first; a card number is read from standard
			input; T is RFC 3339 or a span back such as 24h or 30d; with --archive in the files of archived days`,
	},
	{
		Name: "show", Run: showJournal,
		Takes: `[--json] [--archive DIR] [--config FILE] ID`,
		Does:  `show one of them with each of its steps, messages masked`,
	},
	{
		Name: "billing", Run: printBilling,
		Takes: `[--from MONTH] [--to MONTH] [--merchant NAME] [--json | --csv] [--config FILE]`,
		Does: `count what is billed, for each merchant and month, also of records that have gone; MONTH is 2026-11,
			in UTC; without one the last month and this one`,
	},
	{
		Name: "export", Run: exportJournal,
		Takes: `[--from T] [--to T] [--merchant NAME] [--format jsonl|csv] [--config FILE] [FILE]`,
		Does:  `write days of the journal; only JSON lines can be verified`,
	},
	{
		Name: "follow", Run: followJournal,
		Takes: `[--from SEAL] [--once] [--config FILE]`,
		Does: `print entries as they come, as lines of an export: first those that a seal is about, then the seal;
			--from is the number of the last seal that the reader has; --once ends when all has been printed`,
	},
	{
		Name: "import", Run: importJournal,
		Takes: `[--key FILE] [--config FILE] FILE`,
		Does: `add what an export of another journal has and this one lacks, if the export is as it was written;
			--key is that of the other journal`,
	},
	{
		Name: "archive", Run: archiveJournal,
		Takes: `[--before DATE] [--config FILE] DIR`,
		Does: `write each day that is older than journal.keep_hot, or is before DATE, into a file of the folder DIR. The
			file is an export of that day, which leaves the database; reports and billing still count it`,
	},
	{
		Name: "erase", Run: eraseJournal,
		Takes: `(--card - | --merchant NAME) [--yes] [--archive DIR] [--write FILE] [--config FILE]`,
		Does: `say what would be removed of a card or a merchant; with --yes remove it for good, and say how much
			that was; with --archive from the files of archived days, too. With --write, make a file of keys that does
			not open what was erased, for machines whose journal-keys.json cannot be replaced`,
		Other: []cmdline.Form{{
			Takes: `--write FILE [--config FILE]`,
			Does:  `make such a file after what was erased elsewhere, and erase nothing`,
		}},
	},
	{
		Name: "forget", Run: forgetKeys,
		Takes: `--before DAY [--yes] [--config FILE]`,
		Does: `say how many erased authentications of days before DAY take room in journal-keys.json; with --yes forget all
			keys of these days. They must be over their time, and the journal must have nothing of them`,
	},
	{Name: "hold", Commands: holdCommands, Does: "legal holds, which erasure and retention leave out"},
	{
		Name: "verify", Run: verifyJournal,
		Takes: `[--key FILE] [--config FILE] FILE`,
		Does:  `say whether an export of the journal or the audit trail is as it was written (- is standard input)`,
		Other: []cmdline.Form{{
			Takes: `--archive DIR [--key FILE] [--config FILE]`,
			Does: `say whether the folder has all files of archived days, and whether they are as they were written; with
				--key only the latter`,
		}},
	},
	{
		Name: "witness", Run: witnessJournal,
		Takes: `[--config FILE] FILE`,
		Does: `compare heads that were noted elsewhere with those of the journal and the audit trail: a log, a page of
			/metrics or an export (- is standard input)`,
	},
	{
		Name: "key", Run: printJournalKey,
		Takes: `[--config FILE]`,
		Does:  `print the public keys by which exports are verified, the one in use first`,
	},
	{
		Name: "generate", Run: generateJournal,
		Takes: `[--authentications N] [--days N] [--merchants N] [--seed N] [--config FILE]`,
		Does:  `fill an empty journal with made-up records, to try out searches`,
	},
}

// readTypedCard returns the card number of --card: - is standard input, for a command line is seen by others.
func readTypedCard(flag string, stdin io.Reader) (string, error) {
	switch flag {
	case "":
		return "", nil
	case "-":
	default:
		return "",
			cmdline.Usagef("journal: --card takes - only: the number is read from standard input, where nobody else sees it")
	}
	line, err := cmdline.ReadLine(stdin)
	if err != nil {
		return "", err
	}
	card := strings.NewReplacer(" ", "", "-", "").Replace(line)
	if len(card) < 13 || len(card) > 19 || strings.Trim(card, "0123456789") != "" {
		return "", errors.New("journal: standard input has no card number of 13 to 19 digits")
	}
	return card, nil
}

// eraseJournal removes what belongs to a card or a merchant. Without --yes it says what would go.
func eraseJournal(ctx context.Context, cmd *cmdline.Invocation) error {
	card := cmd.String("card", "", "- reads the whole card number from standard input")
	name := cmd.String("merchant", "", "all of this merchant")
	isSure := cmd.Bool("yes", false, "do it: what is erased cannot be brought back")
	dir := cmd.String("archive", "", "erase from the files of archived days in this folder, too")
	write := cmd.String("write", "", "make this file of keys, which does not open what was erased")
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	if *write != "" {
		if err := keyfile.CheckCreateNew(*write); err != nil {
			return fmt.Errorf("journal erase: --write: %w", err)
		}
		if *card == "" && *name == "" && *dir == "" && !*isSure {
			return local.WithJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
				return writeForgotten(ctx, cmd, st, keys, *write)
			})
		}
	}
	if (*card == "") == (*name == "") {
		return cmdline.Usagef("journal erase: want either --card - or --merchant NAME")
	}
	if cardnumber.MayBe(*name) {
		return cmdline.Usagef(
			"journal erase: --merchant: that may be a whole card number, and names stand in the audit trail; --card - reads one")
	}
	number, err := readTypedCard(*card, cmd.Stdin)
	if err != nil {
		return err
	}
	object := "merchant " + *name
	if number != "" {
		object = "card"
	}
	if !*isSure {
		return showErasable(ctx, cmd, *file, object, *dir != "",
			journal.Query{Card: number, Merchant: *name, Limit: maxSearch})
	}
	return local.WithJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		return local.WithKeys(ctx, *file, func(c *config.Config, db store.Store, ring *keyring.Ring) error {
			acts := local.NewActs(c, db, ring)
			acts.Erase = func(ctx context.Context, q journal.Query) (ops.Erased, error) {
				return server.EraseFromJournal(ctx, st, keys, db, ring, q)
			}
			done, err := acts.EraseJournal(ctx, local.Actor(), number, *name)
			warnOfFaults(cmd, st)
			if err != nil {
				return plainError(err)
			}
			fmt.Fprintf(cmd.Stderr, "threeds: erased %s, %s\n", terminal.Count(done.Events, "event"),
				terminal.Count(done.Answers, "kept answer"))
			fmt.Fprintf(cmd.Stdout, "erased: %s, %s\n", terminal.Count(done.Authentications, "authentication"),
				terminal.Count(done.Records, "record"))
			printHeld(cmd, "stays", done.Held)
			printUnforgotten(cmd, done.Unforgotten)
			if *dir == "" {
				printUnreached(cmd, done.Unreached)
			} else {
				err = eraseFromFolder(ctx, cmd, st, keys, *dir,
					journal.Query{Card: number, Merchant: *name, By: local.Actor().Who})
			}
			if notice := keys.LimitNotice(); notice != "" {
				fmt.Fprintf(cmd.Stderr, "threeds: %s\n", notice)
			}
			if *write != "" { // last, for the files of archived days have keys, too
				return errors.Join(err, writeForgotten(ctx, cmd, st, keys, *write))
			}
			if problem := keys.FileProblem(); problem != "" {
				fmt.Fprintf(cmd.Stderr, "threeds: %s\n", problem)
			}
			return err
		})
	})
}

// writeForgotten makes a file of keys that does not open what was erased here or elsewhere.
func writeForgotten(ctx context.Context, cmd *cmdline.Invocation, st journal.Store, keys *journal.Keys,
	path string) error {
	if _, err := st.Holds(ctx); err != nil { // which reads what others have erased
		return err
	}
	if err := keys.CreateFile(path); err != nil {
		return fmt.Errorf("journal erase: --write: %w", err)
	}
	_, err := fmt.Fprintf(cmd.Stderr,
		"threeds: %s does not open what was erased: put it in the place of journal-keys.json\n", path)
	return err
}

// warnOfFaults says what a command found that was changed in the store.
func warnOfFaults(cmd *cmdline.Invocation, st journal.Store) {
	for _, fault := range st.Faults() {
		fmt.Fprintf(cmd.Stderr, "threeds: warning: changed in the store: %s\n", fault)
	}
}

// showErasable prints what an erasure would remove of a card or a merchant, and changes nothing. The audit trail says
// that somebody has looked.
func showErasable(ctx context.Context, cmd *cmdline.Invocation, file, object string, hasFolder bool,
	q journal.Query) error {
	return local.WithJournal(ctx, file, func(st journal.Store, keys *journal.Keys) error {
		query := map[string]string{}
		if q.Merchant != "" {
			query["merchant"] = q.Merchant
		}
		if err := local.RecordJournal(ctx, file, "record.search", "",
			map[string]any{"query": query, "byCard": q.Card != ""}); err != nil {
			return err
		}
		page, err := st.Search(ctx, q)
		if err != nil {
			return err
		}
		found, newest := terminal.Count(len(page.Records), "authentication"), ""
		if page.Next != "" {
			found = "more than " + found
		}
		if len(page.Records) > 0 {
			newest = ", the newest of " + page.Records[0].Created.Format(time.RFC3339)
		}
		_, err = fmt.Fprintf(cmd.Stdout,
			"%s in the journal%s; --yes erases what belongs to the %s, events for webhooks and kept answers too\n",
			found, newest, object)
		if err != nil {
			return err
		}
		held, err := st.CountHeld(ctx, q)
		if err != nil {
			return err
		}
		printHeld(cmd, "would stay", held)
		if hasFolder {
			return nil
		}
		files, err := journal.ArchivedFiles(ctx, st, keys)
		var names []string
		for _, f := range files {
			names = append(names, f.Name)
		}
		printUnreached(cmd, names)
		return err
	})
}
