package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/openthreeds/threeds/internal/config"
	"github.com/openthreeds/threeds/internal/journal"
	"github.com/openthreeds/threeds/internal/keyring"
	"github.com/openthreeds/threeds/internal/server"
	"github.com/openthreeds/threeds/internal/store"
)

// journalCommands are what "threeds journal" does.
var journalCommands = []string{"search", "show", "export", "import", "erase", "verify", "key", "generate"}

// runJournal reads the journal, exports it, erases from it, and verifies exports.
func runJournal(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usageErrorf("journal: no command (%s)", strings.Join(journalCommands, ", "))
	}
	rest := args[1:]
	switch args[0] {
	case "search":
		return searchJournal(ctx, rest, stdin, stdout)
	case "show":
		return showJournal(ctx, rest, stdout)
	case "export":
		return exportJournal(ctx, rest, stdout, stderr)
	case "import":
		return importJournal(ctx, rest, stdout)
	case "erase":
		return eraseJournal(ctx, rest, stdin, stdout, stderr)
	case "verify":
		return verifyJournal(rest, stdin, stdout)
	case "key":
		return printJournalKey(ctx, rest, stdout)
	case "generate":
		return generateJournal(ctx, rest, stdout, stderr)
	}
	return usageErrorf("journal: unknown command %q%s", args[0], config.Hint(args[0], journalCommands...))
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

// flagsOf returns the flags that were given and their texts, but for some.
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
	fs.Var((*timeValue)(into), name, usage+", RFC 3339 or a span back such as 24h")
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
	span, err := time.ParseDuration(text)
	if err != nil || span < 0 {
		return errors.New("want a time such as 2026-11-26T14:00:00Z, or a span back such as 24h")
	}
	*v = timeValue(time.Now().Add(-span))
	return nil
}

func searchJournal(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	fs := flag.NewFlagSet("journal search", flag.ContinueOnError)
	var q journal.Query
	for _, f := range []struct {
		name, usage string
		into        *string
	}{
		{"id", "id of the 3DS Server, the directory server or the ACS, or an X-Request-Id", &q.ID},
		{"reference", "X-Reference", &q.Reference}, {"last4", "last four digits of the card", &q.Last4},
		{"merchant", "merchant", &q.Merchant}, {"scheme", "scheme", &q.Scheme}, {"acs", "acsReferenceNumber", &q.ACS},
		{"status", "status", &q.Status}, {"reason", "transStatusReason", &q.Reason}, {"cursor", "where the page before ended", &q.Cursor},
	} {
		fs.StringVar(f.into, f.name, "", f.usage)
	}
	card := fs.String("card", "", "- reads the whole card number from standard input")
	timeFlag(fs, "from", "from then on", &q.From)
	timeFlag(fs, "to", "before then", &q.To)
	fs.IntVar(&q.Limit, "limit", 50, "how many at most")
	asJSON := fs.Bool("json", false, "print JSON")
	file := configFlag(fs)
	if _, err := parseFlags(fs, args, 0); err != nil {
		return err
	}
	if q.Cursor != "" && !journal.ValidCursor(q.Cursor) {
		return usageErrorf("journal search: --cursor is not one that a search printed")
	}
	var err error
	if q.Card, err = readTypedCard(*card, stdin); err != nil {
		return err
	}
	return withJournal(ctx, *file, func(st journal.Store, _ *journal.Keys) error {
		if err := recordJournal(ctx, *file, "record.search", "", map[string]any{"query": flagsOf(fs, "card", "config", "json"), "byCard": q.Card != ""}); err != nil {
			return err
		}
		page, err := st.Search(ctx, q)
		if err != nil {
			return err
		}
		if *asJSON {
			data := page.Records
			if data == nil {
				data = []journal.Record{}
			}
			return writeJSON(stdout, map[string]any{"data": data, "next": page.Next})
		}
		w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "CREATED\tID\tMERCHANT\tREFERENCE\tCARD\tSTATUS\tTRANS\tREASON")
		for _, r := range page.Records {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s %s\t%s\t%s\t%s\n", r.Created.Format(time.RFC3339), r.ID, oneLine(r.Merchant),
				oneLine(r.Reference), r.Card.Scheme, r.Card.Last4, r.Status, r.TransStatus, r.TransStatusReason)
		}
		if page.Next != "" {
			fmt.Fprintf(w, "more: --cursor %s\n", page.Next)
		}
		return w.Flush()
	})
}

func showJournal(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("journal show", flag.ContinueOnError)
	asJSON := fs.Bool("json", false, "print JSON")
	file := configFlag(fs)
	rest, err := parseFlags(fs, args, 1)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return usageErrorf("journal show: ID is missing")
	}
	return withJournal(ctx, *file, func(st journal.Store, _ *journal.Keys) error {
		if err := recordJournal(ctx, *file, "record.view", rest[0], nil); err != nil {
			return err
		}
		d, err := st.Show(ctx, rest[0])
		if errors.Is(err, journal.ErrNotFound) {
			return errors.New("journal: no record has this id")
		}
		if err != nil {
			return err
		}
		if *asJSON {
			return writeJSON(stdout, d)
		}
		w := bufio.NewWriter(stdout)
		fmt.Fprintf(w, "%s %s, merchant %q, card %s %s…%s: %s %s\n", d.ID, d.API, oneLine(d.Merchant), d.Card.Scheme, d.Card.BIN,
			d.Card.Last4, d.Status, d.TransStatus)
		for _, s := range d.Steps {
			fmt.Fprintf(w, "%s %+6d ms  %-10s %s\n", s.At.Format("2006-01-02 15:04:05.000"), s.MS, s.Step, oneLine(string(s.Message)))
			for _, f := range s.Findings {
				fmt.Fprintf(w, "%45s %s\n", "", oneLine(f))
			}
		}
		return w.Flush()
	})
}

func exportJournal(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("journal export", flag.ContinueOnError)
	var q journal.Query
	timeFlag(fs, "from", "from the day of this time on", &q.From)
	timeFlag(fs, "to", "until the day of this time", &q.To)
	fs.StringVar(&q.Merchant, "merchant", "", "of this merchant alone")
	format := fs.String("format", "jsonl", "jsonl, which can be verified, or csv, for spreadsheets")
	file := configFlag(fs)
	rest, err := parseFlags(fs, args, 1)
	if err != nil {
		return err
	}
	if *format != "jsonl" && *format != "csv" {
		return usageErrorf("journal export: --format is neither jsonl nor csv")
	}
	return withJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		if err := recordJournal(ctx, *file, "journal.export", "", flagsOf(fs, "config")); err != nil {
			return err
		}
		var n int
		err := writeNewFile(rest, stdout, func(to io.Writer) (err error) {
			if *format == "csv" {
				n, err = journal.WriteCSV(ctx, to, st, q)
			} else {
				n, err = journal.WriteJSONLines(ctx, to, st, keys, q)
			}
			return err
		})
		if err == nil {
			_, err = fmt.Fprintf(stderr, "threeds: exported %s\n", countOf(n, "record"))
		}
		return err
	})
}

func eraseJournal(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("journal erase", flag.ContinueOnError)
	card := fs.String("card", "", "- reads the whole card number from standard input")
	merchant := fs.String("merchant", "", "all of this merchant")
	isSure := fs.Bool("yes", false, "do it: what is erased cannot be brought back")
	file := configFlag(fs)
	if _, err := parseFlags(fs, args, 0); err != nil {
		return err
	}
	if (*card == "") == (*merchant == "") {
		return usageErrorf("journal erase: want either --card - or --merchant NAME")
	}
	if !*isSure {
		return usageErrorf("journal erase: add --yes: what is erased cannot be brought back")
	}
	number, err := readTypedCard(*card, stdin)
	if err != nil {
		return err
	}
	object := "merchant " + *merchant
	if number != "" {
		object = "card"
	}
	return withJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		return withKeys(ctx, *file, func(_ *config.Config, db store.Store, ring *keyring.Ring) error {
			if err := recordCommand(ctx, db, ring, "journal.erase", object, nil); err != nil {
				return err
			}
			done, err := server.EraseFromJournal(ctx, st, keys, db, ring, journal.Query{Card: number, Merchant: *merchant})
			if err != nil {
				return err
			}
			fmt.Fprintf(stderr, "threeds: erased %s, %s\n", countOf(done.Events, "event"), countOf(done.Answers, "kept answer"))
			_, err = fmt.Fprintf(stdout, "erased: %s, %s\n", countOf(done.Authentications, "authentication"), countOf(done.Records, "record"))
			return err
		})
	})
}

func verifyJournal(args []string, stdin io.Reader, stdout io.Writer) error {
	fs := flag.NewFlagSet("journal verify", flag.ContinueOnError)
	keyFile := fs.String("key", "", "the public key that \"threeds journal key\" prints; unset, that of the configuration")
	file := configFlag(fs)
	rest, err := parseFlags(fs, args, 1)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return usageErrorf("journal verify: FILE is missing (- is standard input)")
	}
	from := stdin
	if rest[0] != "-" {
		f, err := os.Open(rest[0])
		if err != nil {
			return err
		}
		defer f.Close() // only read
		from = f
	}
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
	_, err = fmt.Fprintf(stdout, "ok: %d records, %d erased, %d days\n", got.Records, got.Erased, got.Days)
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
func importJournal(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("journal import", flag.ContinueOnError)
	keyFile := fs.String("key", "", "the public keys of the journal that the export is of; unset, those of the configuration")
	file := configFlag(fs)
	rest, err := parseFlags(fs, args, 1)
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
		_, err = fmt.Fprintf(stdout, "imported: %s, %d were there\n", countOf(done.Added, "record"), done.Present)
		return err
	})
}

func printJournalKey(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("journal key", flag.ContinueOnError)
	file := configFlag(fs)
	if _, err := parseFlags(fs, args, 0); err != nil {
		return err
	}
	return withJournal(ctx, *file, func(_ journal.Store, keys *journal.Keys) error {
		text, err := keys.PEM()
		if err == nil {
			_, err = stdout.Write(text)
		}
		return err
	})
}

// generateJournal fills an empty journal, to try out searches.
func generateJournal(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("journal generate", flag.ContinueOnError)
	g := journal.Generation{}
	fs.IntVar(&g.Authentications, "authentications", 10000, "how many")
	fs.IntVar(&g.Days, "days", 30, "over how many days, up to now, they are spread")
	fs.IntVar(&g.Merchants, "merchants", 50, "of how many merchants they are")
	fs.Uint64Var(&g.Seed, "seed", 1, "the same one makes the same records")
	file := configFlag(fs)
	if _, err := parseFlags(fs, args, 0); err != nil {
		return err
	}
	if g.Authentications < 1 || g.Days < 1 || g.Merchants < 1 {
		return usageErrorf("journal generate: want a number from 1 for --authentications, --days and --merchants")
	}
	return withJournal(ctx, *file, func(st journal.Store, keys *journal.Keys) error {
		err := journal.Generate(ctx, st, keys, g, time.Now(), func(n int) {
			if n%100_000 == 0 {
				fmt.Fprintf(stderr, "threeds: %d written\n", n)
			}
		})
		if err == nil {
			_, err = fmt.Fprintf(stdout, "generated: %s\n", countOf(g.Authentications, "authentication"))
		}
		return err
	})
}
