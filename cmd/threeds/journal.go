package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// journalCommands read the journal, export it, erase from it, and verify exports.
var journalCommands = []command{
	{"search", searchJournal}, {"show", showJournal}, {"billing", printBilling}, {"export", exportJournal}, {"import", importJournal},
	{"erase", eraseJournal}, {"verify", verifyJournal}, {"key", printJournalKey}, {"generate", generateJournal},
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
	return recordCommand(ctx, st, nil, action, object, after)
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

func exportJournal(ctx context.Context, cmd *invocation) error {
	var q journal.Query
	timeFlag(cmd.FlagSet, "from", "from the day of this time on", &q.From)
	timeFlag(cmd.FlagSet, "to", "until the day of this time", &q.To)
	cmd.StringVar(&q.Merchant, "merchant", "", "of this merchant alone")
	format := cmd.String("format", "jsonl", "jsonl, which can be verified, or csv, for spreadsheets")
	file := cmd.configFlag()
	rest, err := cmd.parse(1)
	if err != nil {
		return err
	}
	if *format != "jsonl" && *format != "csv" {
		return usageErrorf("journal export: --format is neither jsonl nor csv")
	}
	if err := checkSpan("journal export", q.From, q.To); err != nil {
		return err
	}
	return withJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		if err := checkSearched(ctx, *file, st, &q); err != nil {
			return fmt.Errorf("journal export: --%w", err)
		}
		if err := recordJournal(ctx, *file, "journal.export", "", flagsOf(cmd.FlagSet, "config")); err != nil {
			return err
		}
		var n int
		err := writeNewFile(rest, cmd.stdout, func(to io.Writer) (err error) {
			if *format == "csv" {
				n, err = journal.WriteCSV(ctx, to, st, nil, q)
			} else {
				n, err = journal.WriteJSONLines(ctx, to, st, keys, q)
			}
			return err
		})
		if err == nil {
			_, err = fmt.Fprintf(cmd.stderr, "threeds: exported %s\n", countOf(n, "record"))
		}
		return err
	})
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

func verifyJournal(_ context.Context, cmd *invocation) error {
	keyFile := cmd.String("key", "", "the public key that \"threeds journal key\" prints; unset, that of the configuration")
	file := cmd.configFlag()
	rest, err := cmd.parseExactly(1, "FILE is missing (- is standard input)")
	if err != nil {
		return err
	}
	from, closeInput, err := openInput(rest[0], cmd.stdin)
	if err != nil {
		return err
	}
	defer func() { _ = closeInput() }() // only read
	signers, err := readSigners(*keyFile, *file)
	if err != nil {
		return err
	}
	got, err := journal.Verify(from, signers...)
	if wrong, ok := errors.AsType[*journal.LineError](err); ok {
		return fmt.Errorf("%s:%w", rest[0], wrong)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.stdout, "ok: %d records, %d erased, %d days\n", got.Records, got.Erased, got.Days)
	return err
}

// readSigners returns the public keys in a file, or without one those of the journal of a configuration.
func readSigners(keyFile, configFile string) ([]ed25519.PublicKey, error) {
	var text []byte
	var err error
	if keyFile != "" {
		text, err = os.ReadFile(keyFile)
	} else {
		var c *config.Config
		var keys *journal.Keys
		if c, err = config.Read(configFile); err == nil {
			if keys, err = journal.LoadKeys(c.Journal.Keys); err == nil {
				text, err = keys.PEM()
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return journal.ParsePEM(text)
}

// importJournal adds the entries of an export. All of it is verified first, so it must be a file.
func importJournal(ctx context.Context, cmd *invocation) error {
	keyFile := cmd.String("key", "", "the public keys of the journal that the export is of; unset, those of the configuration")
	file := cmd.configFlag()
	rest, err := cmd.parse(1)
	if err != nil {
		return err
	}
	if len(rest) == 0 || rest[0] == "-" {
		return usageErrorf("journal import: FILE is missing (it is read twice, so standard input is none)")
	}
	f, err := os.Open(rest[0])
	if err != nil {
		return err
	}
	defer f.Close() // only read
	return withJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		signers, err := readSigners(*keyFile, *file)
		if err != nil {
			return err
		}
		if err := recordJournal(ctx, *file, "journal.import", filepath.Base(rest[0]), nil); err != nil {
			return err
		}
		done, err := journal.Import(ctx, st, keys, f, signers...)
		if wrong, ok := errors.AsType[*journal.LineError](err); ok {
			return fmt.Errorf("%s:%w", rest[0], wrong)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.stdout, "imported: %s, %d were there\n", countOf(done.Added, "record"), done.Present)
		return err
	})
}

func printJournalKey(ctx context.Context, cmd *invocation) error {
	file := cmd.configFlag()
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	return withJournal(ctx, *file, func(_ journal.Store, keys *journal.Keys) error {
		text, err := keys.PEM()
		if err == nil {
			_, err = cmd.stdout.Write(text)
		}
		return err
	})
}

// printBilling prints the counters of months.
func printBilling(ctx context.Context, cmd *invocation) error {
	from := cmd.String("from", "", "first month, such as 2026-10: the one before this one unless given")
	to := cmd.String("to", "", "last month: this one unless given")
	name := cmd.String("merchant", "", "of this merchant alone")
	asJSON := cmd.Bool("json", false, "print JSON")
	asCSV := cmd.Bool("csv", false, "print a table for spreadsheets")
	file := cmd.configFlag()
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	q, err := journal.ParseMonths(*from, *to, time.Now())
	if err != nil {
		return usageErrorf("journal billing: --%s", err)
	}
	if *asJSON && *asCSV {
		return usageErrorf("journal billing: want --json or --csv, not both")
	}
	q.Merchant = *name
	return withJournal(ctx, *file, func(st journal.Store, _ *journal.Keys) error {
		counts, err := st.Billing(ctx, q)
		if err == nil && len(counts) == 0 {
			if err := checkSearched(ctx, *file, st, &journal.Query{Merchant: *name}); err != nil {
				return fmt.Errorf("journal billing: --%w", err)
			}
		}
		switch {
		case err != nil:
			return err
		case *asJSON:
			return writeJSON(cmd.stdout, map[string]any{"data": counts})
		case *asCSV:
			return journal.WriteBillingCSV(cmd.stdout, counts)
		}
		w := newTable(cmd.stdout, "MONTH\tMERCHANT\tAPI\tCHANNEL\tCATEGORY\tKIND\tCOUNT")
		for _, c := range counts {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n", c.Month, oneLine(c.Merchant), c.API, cmp.Or(c.DeviceChannel, "-"),
				cmp.Or(c.MessageCategory, "-"), c.Kind, c.Count)
		}
		return w.Flush()
	})
}

// generateJournal fills an empty journal, to try out searches.
func generateJournal(ctx context.Context, cmd *invocation) error {
	g := journal.Generation{}
	cmd.IntVar(&g.Authentications, "authentications", 10000, "how many")
	cmd.IntVar(&g.Days, "days", 30, "over how many days, up to now, they are spread")
	cmd.IntVar(&g.Merchants, "merchants", 50, "of how many merchants they are")
	cmd.Uint64Var(&g.Seed, "seed", 1, "the same one makes the same records")
	file := cmd.configFlag()
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	if g.Authentications < 1 || g.Days < 1 || g.Merchants < 1 {
		return usageErrorf("journal generate: want a number from 1 for --authentications, --days and --merchants")
	}
	return withJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		if err := recordJournal(ctx, *file, "journal.generate", "", nil); err != nil {
			return err
		}
		err := journal.Generate(ctx, st, keys, g, time.Now(), func(n int) {
			if n%100_000 == 0 {
				fmt.Fprintf(cmd.stderr, "threeds: %d written\n", n)
			}
		})
		if err == nil {
			_, err = fmt.Fprintf(cmd.stdout, "generated: %s\n", countOf(g.Authentications, "authentication"))
		}
		return err
	})
}
