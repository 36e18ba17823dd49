package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/run/local"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// maxSearch is how many records a search prints at most; the next ones follow with --cursor.
const maxSearch = 1000

func searchJournal(ctx context.Context, cmd *cmdline.Invocation) error {
	var q journal.Query
	for _, f := range []struct {
		name, usage string
		into        *string
	}{
		{"id", "id of the 3DS Server, the directory server or the ACS, or an X-Request-Id", &q.ID},
		{"reference", "X-Reference", &q.Reference}, {"last4", "last four digits of the card", &q.Last4},
		{"merchant", "merchant", &q.Merchant}, {"scheme", "scheme", &q.Scheme}, {"acs", "acsReferenceNumber", &q.ACS},
		{"status", "status: " + strings.Join(journal.Statuses(), ", "), &q.Status},
		{"result", "result of the outcome, such as authenticated", &q.Result},
		{"reason", "transStatusReason", &q.Reason}, {"cursor", "where the page before ended", &q.Cursor},
	} {
		cmd.StringVar(f.into, f.name, "", f.usage)
	}
	card := cmd.String("card", "", "- reads the whole card number from standard input")
	cmd.TimeFlag("from", "from then on", &q.From)
	cmd.TimeFlag("to", "before then", &q.To)
	cmd.IntVar(&q.Limit, "limit", 50, "how many at most")
	asJSON := cmd.Bool("json", false, "print JSON")
	dir := cmd.String("archive", "", "search in the files of this folder, not in the database")
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	switch {
	case q.Cursor != "" && !journal.ValidCursor(q.Cursor):
		return cmdline.Usagef("journal search: --cursor is not one that a search printed")
	case q.Last4 != "" && (len(q.Last4) != 4 || !isDigits(q.Last4)):
		return cmdline.Usagef(
			"journal search: --last4: want the last four digits of a card (a whole number is read by --card -)")
	case q.Limit < 1 || q.Limit > maxSearch:
		return cmdline.Usagef("journal search: --limit: want a number from 1 to %d", maxSearch)
	}
	err := cmd.CheckSpan(q.From, q.To)
	if err != nil {
		return err
	}
	if err := q.Check(); err != nil {
		return cmdline.Usagef("journal search: --%v", err)
	}
	if q.Card, err = readTypedCard(*card, cmd.Stdin); err != nil {
		return err
	}
	return local.WithJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		query := cmd.Given("card", "config", "json", "archive")
		for name, text := range query {
			if cardnumber.MayBe(text) { // typed into another field than its own
				query[name] = "***"
			}
		}
		if err := local.RecordJournal(ctx, *file, "record.search", "",
			map[string]any{"query": query, "byCard": q.Card != ""}); err != nil {
			return err
		}
		search := st.Search
		if *dir != "" {
			search = func(ctx context.Context, q journal.Query) (journal.Page, error) {
				return (&journal.Folder{Dir: *dir, Keys: keys}).Search(ctx, st, q)
			}
		}
		page, err := search(ctx, q)
		if err != nil {
			return err
		}
		if len(page.Records) == 0 && *dir == "" {
			if err := local.CheckSearched(ctx, *file, st, &q); err != nil {
				return fmt.Errorf("journal search: --%w", err)
			}
		}
		if *asJSON {
			data := page.Records
			if data == nil {
				data = []journal.Record{}
			}
			return terminal.WriteJSON(cmd.Stdout, map[string]any{"data": data, "next": page.Next})
		}
		w := terminal.NewTable(cmd.Stdout, "CREATED\tID\tMERCHANT\tREFERENCE\tCARD\tSTATUS\tTRANS\tREASON\tERROR")
		for _, r := range page.Records {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s %s\t%s\t%s\t%s\t%s\n", r.Created.Format(time.RFC3339), r.ID,
				terminal.OneLine(r.Merchant),
				terminal.OneLine(r.Reference), r.Card.Scheme, r.Card.Last4, r.Status, r.TransStatus, r.TransStatusReason,
				strings.TrimSuffix(r.ErrorCode+" "+cmp.Or(strings.Join(r.Elements, ","), terminal.OneLine(r.ErrorDetail)), " "))
		}
		if page.Next != "" {
			fmt.Fprintf(w, "more: --cursor %s\n", page.Next)
		}
		if len(page.Records) == 0 {
			fmt.Fprintln(cmd.Stderr, "threeds: no record fits")
		}
		return w.Flush()
	})
}

func showJournal(ctx context.Context, cmd *cmdline.Invocation) error {
	asJSON := cmd.Bool("json", false, "print JSON")
	dir := cmd.String("archive", "", "look into the files of this folder, not into the database")
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadExactly(1, "ID is missing")
	if err != nil {
		return err
	}
	return local.WithJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		show := st.Show
		if *dir != "" {
			show = func(ctx context.Context, id string) (journal.Detail, error) {
				return (&journal.Folder{Dir: *dir, Keys: keys}).Show(ctx, st, id)
			}
		}
		d, err := show(ctx, rest[0])
		if errors.Is(err, journal.ErrNotFound) {
			return errors.New("journal: no record has this id")
		}
		if err != nil {
			return err
		}
		if err := local.RecordJournal(ctx, *file, "record.view", d.ID, nil); err != nil {
			return err
		}
		ended := d.Outcome(scheme.Public(d.Card.Scheme))
		if *asJSON {
			return terminal.WriteJSON(cmd.Stdout, struct {
				*journal.Detail
				Outcome any `json:"outcome"`
			}{&d, ended})
		}
		w := bufio.NewWriter(cmd.Stdout)
		fmt.Fprintf(w, "%s %s, merchant %q, card %s %s…%s: %s %s\n", d.ID, d.API, terminal.OneLine(d.Merchant),
			d.Card.Scheme, d.Card.BIN,
			d.Card.Last4, d.Status, d.TransStatus)
		if d.NamedID != "" {
			fmt.Fprintf(w, "named %s\n", d.NamedID)
		}
		if ended != nil && ended.Result != "" {
			fmt.Fprintf(w, "%s, %s: %s\n", ended.Result, ended.Next.Action, ended.Next.Because)
		}
		if ended != nil && ended.Error != nil {
			e := ended.Error
			fmt.Fprintf(w, "error %s of %s: %s %s\n", e.Code, e.Component, terminal.OneLine(e.Description),
				terminal.OneLine(e.Detail))
		} else if d.ErrorCode != "" {
			fmt.Fprintln(w, strings.TrimSuffix("error "+d.ErrorCode+" "+
				cmp.Or(strings.Join(d.Elements, ", "), terminal.OneLine(d.ErrorDetail)), " "))
		}
		for _, s := range d.Steps {
			fmt.Fprintf(w, "%s %+6d ms  %-10s %s\n", s.At.Format("2006-01-02 15:04:05.000"), s.MS, s.Step,
				terminal.OneLine(string(s.Message)))
			if len(s.Personal) > 0 {
				fmt.Fprintf(w, "%45s personal %s\n", "", terminal.OneLine(string(s.Personal)))
			}
			for _, f := range s.Findings {
				fmt.Fprintf(w, "%45s %s\n", "", terminal.OneLine(f))
			}
		}
		return w.Flush()
	})
}
