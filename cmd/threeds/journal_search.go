package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// timeFlag adds a flag that is a time of RFC 3339, or a span back from now.
func timeFlag(fs *flag.FlagSet, name, usage string, into *time.Time) {
	fs.Var((*timeValue)(into), name, usage+", RFC 3339 or a span back such as 24h or 30d")
}

// checkSpan refuses a span of time that ends before it begins.
func checkSpan(command string, from, to time.Time) error {
	if !from.IsZero() && !to.IsZero() && to.Before(from) {
		return usageErrorf("%s: --to: want a time that is not before --from", command)
	}
	return nil
}

// A timeValue is the value of a timeFlag.
type timeValue time.Time

func (v *timeValue) String() string {
	if v == nil || time.Time(*v).IsZero() {
		return ""
	}
	return time.Time(*v).UTC().Format(time.RFC3339)
}

func (v *timeValue) Set(text string) error {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		*v = timeValue(at)
		return nil
	}
	span, err := parseSpan(text)
	if err != nil || span < 0 {
		return errors.New("want a time such as 2026-11-26T14:00:00Z, or a span back such as 24h or 30d")
	}
	*v = timeValue(time.Now().Add(-span))
	return nil
}

// maxDays is the longest span in days that fits into a duration.
const maxDays = 100_000

// parseSpan reads a duration as Go writes it, or a whole number of days such as 30d.
func parseSpan(text string) (time.Duration, error) {
	days, isDays := strings.CutSuffix(text, "d")
	if !isDays {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil || n > maxDays {
		return 0, errors.New("not a number of days")
	}
	return time.Duration(n) * 24 * time.Hour, nil
}

// maxSearch is how many records a search prints at most; the next ones follow with --cursor.
const maxSearch = 1000

func searchJournal(ctx context.Context, cmd *invocation) error {
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
	timeFlag(cmd.FlagSet, "from", "from then on", &q.From)
	timeFlag(cmd.FlagSet, "to", "before then", &q.To)
	cmd.IntVar(&q.Limit, "limit", 50, "how many at most")
	asJSON := cmd.Bool("json", false, "print JSON")
	file := cmd.configFlag()
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	switch {
	case q.Cursor != "" && !journal.ValidCursor(q.Cursor):
		return usageErrorf("journal search: --cursor is not one that a search printed")
	case q.Last4 != "" && (len(q.Last4) != 4 || !isDigits(q.Last4)):
		return usageErrorf("journal search: --last4: want the last four digits of a card (a whole number is read by --card -)")
	case q.Limit < 1 || q.Limit > maxSearch:
		return usageErrorf("journal search: --limit: want a number from 1 to %d", maxSearch)
	}
	err := checkSpan("journal search", q.From, q.To)
	if err != nil {
		return err
	}
	if err := q.Check(); err != nil {
		return usageErrorf("journal search: --%v", err)
	}
	if q.Card, err = readTypedCard(*card, cmd.stdin); err != nil {
		return err
	}
	return withJournal(ctx, *file, func(st journal.Store, _ *journal.Keys) error {
		query := flagsOf(cmd.FlagSet, "card", "config", "json")
		for name, text := range query {
			if cardnumber.MayBe(text) { // typed into another field than its own
				query[name] = "***"
			}
		}
		if err := recordJournal(ctx, *file, "record.search", "", map[string]any{"query": query, "byCard": q.Card != ""}); err != nil {
			return err
		}
		page, err := st.Search(ctx, q)
		if err != nil {
			return err
		}
		if len(page.Records) == 0 {
			if err := checkSearched(ctx, *file, st, &q); err != nil {
				return fmt.Errorf("journal search: --%w", err)
			}
		}
		if *asJSON {
			data := page.Records
			if data == nil {
				data = []journal.Record{}
			}
			return writeJSON(cmd.stdout, map[string]any{"data": data, "next": page.Next})
		}
		w := newTable(cmd.stdout, "CREATED\tID\tMERCHANT\tREFERENCE\tCARD\tSTATUS\tTRANS\tREASON\tERROR")
		for _, r := range page.Records {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s %s\t%s\t%s\t%s\t%s\n", r.Created.Format(time.RFC3339), r.ID, oneLine(r.Merchant),
				oneLine(r.Reference), r.Card.Scheme, r.Card.Last4, r.Status, r.TransStatus, r.TransStatusReason,
				strings.TrimSuffix(r.ErrorCode+" "+strings.Join(r.Elements, ","), " "))
		}
		if page.Next != "" {
			fmt.Fprintf(w, "more: --cursor %s\n", page.Next)
		}
		if len(page.Records) == 0 {
			fmt.Fprintln(cmd.stderr, "threeds: no record fits")
		}
		return w.Flush()
	})
}

// checkSearched returns an error if a search can find nothing because its merchant or scheme is unknown. It names the
// flag. A merchant is also known if the journal has records of it.
func checkSearched(ctx context.Context, file string, st journal.Store, q *journal.Query) error {
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	var words []string
	for _, d := range c.Directories {
		words = append(words, d.Scheme)
	}
	if err := journal.CheckScheme(q.Scheme, words...); err != nil || q.Merchant == "" {
		return err
	}
	page, err := st.Search(ctx, journal.Query{Merchant: q.Merchant, Limit: 1})
	if err != nil || len(page.Records) > 0 {
		return err
	}
	return withKeys(ctx, file, func(c *config.Config, db store.Store, ring *keyring.Ring) error {
		if err := c.Registry(db, ring).CheckKnown(ctx, q.Merchant); err != nil {
			return fmt.Errorf("merchant: %w", err)
		}
		return nil
	})
}

func showJournal(ctx context.Context, cmd *invocation) error {
	asJSON := cmd.Bool("json", false, "print JSON")
	file := cmd.configFlag()
	rest, err := cmd.parseExactly(1, "ID is missing")
	if err != nil {
		return err
	}
	return withJournal(ctx, *file, func(st journal.Store, _ *journal.Keys) error {
		d, err := st.Show(ctx, rest[0])
		if errors.Is(err, journal.ErrNotFound) {
			return errors.New("journal: no record has this id")
		}
		if err != nil {
			return err
		}
		if err := recordJournal(ctx, *file, "record.view", d.ID, nil); err != nil {
			return err
		}
		ended := d.Outcome(scheme.Public(d.Card.Scheme))
		if *asJSON {
			return writeJSON(cmd.stdout, struct {
				*journal.Detail
				Outcome any `json:"outcome"`
			}{&d, ended})
		}
		w := bufio.NewWriter(cmd.stdout)
		fmt.Fprintf(w, "%s %s, merchant %q, card %s %s…%s: %s %s\n", d.ID, d.API, oneLine(d.Merchant), d.Card.Scheme, d.Card.BIN,
			d.Card.Last4, d.Status, d.TransStatus)
		if d.NamedID != "" {
			fmt.Fprintf(w, "named %s\n", d.NamedID)
		}
		if ended != nil && ended.Result != "" {
			fmt.Fprintf(w, "%s, %s: %s\n", ended.Result, ended.Next.Action, ended.Next.Because)
		}
		if ended != nil && ended.Error != nil {
			e := ended.Error
			fmt.Fprintf(w, "error %s of %s: %s %s\n", e.Code, e.Component, oneLine(e.Description), oneLine(e.Detail))
		} else if d.ErrorCode != "" {
			fmt.Fprintln(w, strings.TrimSuffix("error "+d.ErrorCode+" "+strings.Join(d.Elements, ", "), " "))
		}
		for _, s := range d.Steps {
			fmt.Fprintf(w, "%s %+6d ms  %-10s %s\n", s.At.Format("2006-01-02 15:04:05.000"), s.MS, s.Step, oneLine(string(s.Message)))
			if len(s.Personal) > 0 {
				fmt.Fprintf(w, "%45s personal %s\n", "", oneLine(string(s.Personal)))
			}
			for _, f := range s.Findings {
				fmt.Fprintf(w, "%45s %s\n", "", oneLine(f))
			}
		}
		return w.Flush()
	})
}
