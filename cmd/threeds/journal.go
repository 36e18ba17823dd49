package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// journalCommands read the journal, export it, erase from it, and verify exports.
var journalCommands = []command{
	{"search", searchJournal}, {"show", showJournal}, {"billing", printBilling}, {"export", exportJournal}, {"import", importJournal},
	{"erase", eraseJournal}, {"verify", verifyJournal}, {"witness", witnessJournal}, {"key", printJournalKey}, {"generate", generateJournal},
}

// withJournal opens the journal of a configuration, calls do, and closes it.
func withJournal(ctx context.Context, file string, do func(journal.Store, *journal.Keys) error) (err error) {
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	if !c.HasJournal() {
		return errors.New("journal: is off in the configuration")
	}
	st, keys, err := server.OpenJournal(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return do(st, keys)
}

// recordJournal adds a look at the journal, or a change of it, to the audit trail. When that fails, the command does nothing.
func recordJournal(ctx context.Context, file, action, object string, after any) (err error) {
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	st, err := server.OpenStore(ctx, c.Store.URL)
	if err != nil {
		return fmt.Errorf("audit trail: %w", err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return recordCommand(ctx, c, st, action, object, after)
}

// flagsOf returns the flags that were given and their texts, except some.
func flagsOf(fs *flag.FlagSet, but ...string) map[string]string {
	given := map[string]string{}
	fs.Visit(func(f *flag.Flag) {
		if !slices.Contains(but, f.Name) {
			given[f.Name] = f.Value.String()
		}
	})
	return given
}

// readTypedCard returns the card number of --card: - is standard input, for a command line is seen by others.
func readTypedCard(flag string, stdin io.Reader) (string, error) {
	switch flag {
	case "":
		return "", nil
	case "-":
	default:
		return "", usageErrorf("journal: --card takes - only: the number is read from standard input, where nobody else sees it")
	}
	line, err := bufio.NewReader(io.LimitReader(stdin, 100)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	card := strings.NewReplacer(" ", "", "-", "").Replace(strings.TrimSpace(line))
	if len(card) < 13 || len(card) > 19 || strings.Trim(card, "0123456789") != "" {
		return "", errors.New("journal: standard input has no card number of 13 to 19 digits")
	}
	return card, nil
}

// eraseJournal removes what belongs to a card or a merchant. Without --yes it says what would go.
func eraseJournal(ctx context.Context, cmd *invocation) error {
	card := cmd.String("card", "", "- reads the whole card number from standard input")
	name := cmd.String("merchant", "", "all of this merchant")
	isSure := cmd.Bool("yes", false, "do it: what is erased cannot be brought back")
	file := cmd.configFlag()
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	if (*card == "") == (*name == "") {
		return usageErrorf("journal erase: want either --card - or --merchant NAME")
	}
	if cardnumber.MayBe(*name) {
		return usageErrorf("journal erase: --merchant: that may be a whole card number, and names stand in the audit trail; --card - reads one")
	}
	number, err := readTypedCard(*card, cmd.stdin)
	if err != nil {
		return err
	}
	object := "merchant " + *name
	if number != "" {
		object = "card"
	}
	if !*isSure {
		return showErasable(ctx, cmd, *file, object, journal.Query{Card: number, Merchant: *name, Limit: maxSearch})
	}
	return withJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		return withKeys(ctx, *file, func(c *config.Config, db store.Store, ring *keyring.Ring) error {
			acts := newActs(c, db, ring)
			acts.Erase = func(ctx context.Context, q journal.Query) (ops.Erased, error) {
				return server.EraseFromJournal(ctx, st, keys, db, ring, q)
			}
			done, err := acts.EraseJournal(ctx, commandActor(), number, *name)
			if err != nil {
				return plainError(err)
			}
			fmt.Fprintf(cmd.stderr, "threeds: erased %s, %s\n", countOf(done.Events, "event"), countOf(done.Answers, "kept answer"))
			_, err = fmt.Fprintf(cmd.stdout, "erased: %s, %s\n", countOf(done.Authentications, "authentication"), countOf(done.Records, "record"))
			return err
		})
	})
}

// showErasable prints what an erasure would remove of a card or a merchant, and changes nothing. The audit trail says that
// somebody has looked.
func showErasable(ctx context.Context, cmd *invocation, file, object string, q journal.Query) error {
	return withJournal(ctx, file, func(st journal.Store, _ *journal.Keys) error {
		query := map[string]string{}
		if q.Merchant != "" {
			query["merchant"] = q.Merchant
		}
		if err := recordJournal(ctx, file, "record.search", "", map[string]any{"query": query, "byCard": q.Card != ""}); err != nil {
			return err
		}
		page, err := st.Search(ctx, q)
		if err != nil {
			return err
		}
		found, newest := countOf(len(page.Records), "authentication"), ""
		if page.Next != "" {
			found = "more than " + found
		}
		if len(page.Records) > 0 {
			newest = ", the newest of " + page.Records[0].Created.Format(time.RFC3339)
		}
		_, err = fmt.Fprintf(cmd.stdout, "%s in the journal%s; --yes erases what belongs to the %s, events for webhooks and kept answers too\n",
			found, newest, object)
		return err
	})
}
