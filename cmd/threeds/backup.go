package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/backup"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/rotation"
	"github.com/openthreeds/threeds/internal/state/store"
)

// runBackup writes what the store keeps for long into a file, next to a running server or without one.
func runBackup(ctx context.Context, cmd *invocation) error {
	withAll := cmd.Bool("journal", false, "back up the journal, too")
	file := cmd.configFlag()
	rest, err := cmd.parseExactly(1, "FILE is missing (- is standard output)")
	if err != nil {
		return err
	}
	return withArchive(ctx, *file, false, func(st store.Archive) error {
		var counts backup.Counts
		var j *backup.Journal
		if *withAll {
			if j, err = journalOf(*file); err != nil {
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
		err := writeNewFile(rest, cmd.stdout, func(to io.Writer) (err error) {
			counts, err = backup.Write(ctx, to, st, j, time.Now())
			return err
		})
		if err != nil {
			return fmt.Errorf("backup: %w", err)
		}
		further := "the key file too"
		if *withAll {
			further = "the key file and journal-keys.json too"
			warnOfMissingDays(j, cmd.stderr)
		}
		warnOfMissingSecret(ctx, *file, st, cmd.stderr)
		_, err = fmt.Fprintf(cmd.stderr, "threeds: backed up %s; back up %s, in another place\n", describeCounts(counts), further)
		return err
	})
}

// warnOfMissingSecret prints a warning if the key file of this machine lacks a secret that the rows of the store need.
func warnOfMissingSecret(ctx context.Context, file string, archive store.Archive, stderr io.Writer) {
	const cure = "Copy the key file of a node that has it, or run \"threeds key rotate --write FILE\", and back that file up"
	warn := func(format string, args ...any) { fmt.Fprintf(stderr, "threeds: warning: "+format+"\n", args...) }
	st, ok := archive.(store.Store)
	if !ok {
		return
	}
	c, err := config.Read(file)
	var keys []store.Key
	if err == nil {
		keys, err = st.Keys(ctx)
	}
	var ring *keyring.Ring
	if err == nil {
		ring, err = keyring.Load(c.Keys)
		if len(keys) == 0 && errors.Is(err, fs.ErrNotExist) {
			return // nothing is sealed yet
		}
	}
	if err != nil {
		warn("it is not known whether the key file opens this backup: %v", err)
		return
	}
	err = rotation.CheckFile(ctx, st, ring)
	missing, isMissing := errors.AsType[*rotation.MissingError](err)
	if isMissing && missing.From != "" {
		warn("the secret %s is in use, and the key file %s lacks it. The backup has it sealed under secret %s: keep this key file with\n"+
			"this backup. %s", missing.ID, c.Keys, missing.From, cure)
		ring, err = rotation.Extend(ctx, st, ring)
	} else if isMissing {
		warn("the secret %s is in use, and the key file %s lacks it: it does not open this backup. %s", missing.ID, c.Keys, cure)
		return
	}
	if err != nil {
		warn("it is not known whether the key file opens this backup: %v", err)
		return
	}
	lacking := make(map[string]int)
	for _, k := range keys {
		if id := keyring.IDOfSeal(k.Seal); id != "" && !ring.Has(id) {
			lacking[id]++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(lacking)) {
		warn("%s sealed under secret %s, and the key file %s lacks it: it does not open them. "+
			"Copy the key file of a node that has it, and back that file up", countOf(lacking[id], "API key"), id, c.Keys)
	}
}

// warnOfMissingDays prints a warning if the file of the journal's keys lacks those of entries that were backed up.
func warnOfMissingDays(j *backup.Journal, stderr io.Writer) {
	if days := j.MissingDays(); len(days) > 0 {
		fmt.Fprintf(stderr, "threeds: warning: journal-keys.json of this machine lacks the keys of %s of the journal (%s to %s): with it nobody\n"+
			"reads these entries of the backup. Copy the file of the node that wrote them, and back that file up\n",
			countOf(len(days), "day"), days[0], days[len(days)-1])
	}
}

// runRestore loads a backup into the store.
func runRestore(ctx context.Context, cmd *invocation) error {
	replace := cmd.Bool("replace", false, "put the backup in the place of what the store has")
	file := cmd.configFlag()
	rest, err := cmd.parseExactly(1, "FILE is missing (- is standard input)")
	if err != nil {
		return err
	}
	name, from := "standard input", (*os.File)(nil)
	if rest[0] != "-" {
		name = rest[0]
		from, err = os.Open(name)
	} else {
		from, err = spool(cmd.stdin)
	}
	if err != nil {
		return err
	}
	defer from.Close() // only read
	return withArchive(ctx, *file, true, func(st store.Archive) error {
		j, err := journalOf(*file)
		if err != nil {
			return fmt.Errorf("restore: %w", err)
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
		if err := recordRestore(ctx, *file, st, &report); err != nil {
			return fmt.Errorf("restore: done, but the audit trail does not say so: %w", err)
		}
		err = writeReport(cmd.stdout, report)
		if isJournal {
			return fmt.Errorf("restore: %s: the journal is restored in part: %w (run it again with --replace: what is there stays)", name, broken)
		}
		return err
	})
}

// spool copies a stream into a file that has no name, so that it can be read twice.
func spool(from io.Reader) (*os.File, error) {
	f, err := os.CreateTemp("", "threeds-restore-*") // mode 0600
	if err != nil {
		return nil, err
	}
	err = os.Remove(f.Name())
	if err == nil {
		_, err = io.Copy(f, from)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// journalOf returns the journal of a configuration, with the keys that its file has; nil if it is off. It makes no file.
func journalOf(file string) (*backup.Journal, error) {
	c, err := config.Read(file)
	if err != nil || !c.HasJournal() {
		return nil, err
	}
	keys, err := journal.LoadKeys(c.Journal.Keys)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &backup.Journal{Keys: keys, Open: func(ctx context.Context) (journal.Store, error) {
		st, _, err := server.OpenJournal(ctx, c)
		return st, err
	}}, nil
}

// recordRestore adds a restore to the audit trail, and what another trail has taken the place of.
func recordRestore(ctx context.Context, file string, st store.Archive, report *backup.Report) error {
	audit, ok := st.(operator.Store)
	if !ok {
		return errors.New("this kind of store keeps none")
	}
	e := commandEntry("backup.restore", "", nil, report.Added)
	if report.ReplacedTrail != nil {
		e.Before = map[string]any{"entries": report.Replaced[store.AuditRows], "link": hex.EncodeToString(operator.LinkOf(report.ReplacedTrail))}
	}
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	return newTrail(c, audit, nil).Record(ctx, e)
}

func writeReport(stdout io.Writer, report backup.Report) error {
	w := bufio.NewWriter(stdout)
	fmt.Fprintf(w, "restored: %s\n", describeCounts(report.Added))
	if len(report.Replaced) > 0 {
		fmt.Fprintf(w, "replaced: %s\n", describeCounts(report.Replaced))
	}
	if report.ReplacedTrail != nil {
		fmt.Fprintf(w, "replaced: the audit trail of another store, %s, the last link %x\n", countEntries(report.Replaced[store.AuditRows]),
			operator.LinkOf(report.ReplacedTrail))
	}
	for _, k := range report.Refused {
		fmt.Fprintf(w, "not brought back: API key %s of merchant %q, which this store knows as revoked\n",
			account.KeyID(k.Hash), oneLine(k.Merchant))
	}
	for _, k := range report.Revoked {
		fmt.Fprintf(w, "revoked: API key %s of merchant %q, at %s\n", account.KeyID(k.Hash), oneLine(k.Merchant), k.At.Format(time.RFC3339))
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
	return withArchive(ctx, file, true, func(st store.Archive) error {
		keys, err := backup.Revoked(ctx, st)
		if err != nil {
			return err
		}
		all := []revokedReport{}
		for _, k := range keys {
			all = append(all, revokedReport{account.KeyID(k.Hash), oneLine(k.Merchant), k.At.Format(time.RFC3339)})
		}
		return writeList(stdout, asJSON, all, "HASH\tREVOKED\tMERCHANT", func(k revokedReport) string {
			return fmt.Sprintf("%s\t%s\t%s", k.Hash, k.Revoked, k.Merchant)
		})
	})
}

// describeCounts returns how many rows there are of each kind, in words.
func describeCounts(counts backup.Counts) string {
	all := []string{countOf(counts[store.KeyRows], "API key")}
	if n := counts[store.RevokedRows]; n > 0 {
		all = append(all, countOf(n, "revoked API key"))
	}
	if n := counts[store.MerchantRows]; n > 0 {
		all = append(all, countOf(n, "merchant"))
	}
	if n := counts[store.EndpointRows]; n > 0 {
		all = append(all, countOf(n, "webhook endpoint"))
	}
	switch n := counts[store.ObjectRows]; {
	case n == 1:
		all = append(all, "1 operator, token or certificate")
	case n > 1:
		all = append(all, fmt.Sprintf("%d operators, tokens and certificates", n))
	}
	all = append(all, countOf(counts[store.RangeRows], "generation")+" of card ranges")
	if n := counts[store.AuditRows]; n > 0 {
		all = append(all, countEntries(n)+" of the audit trail")
	}
	if n := counts[backup.EntryRows]; n > 0 {
		all = append(all, countEntries(n)+" of the journal")
	}
	return strings.Join(all, ", ")
}

// withArchive opens the store of a configuration, calls do, and closes the store. A directory
// that is not there is an error, unless create is set.
func withArchive(ctx context.Context, file string, create bool, do func(store.Archive) error) (err error) {
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	if at := c.Store.URL; at.Postgres == "" && !create {
		if _, err := os.Stat(at.Dir); err != nil {
			return fmt.Errorf("there is no store to back up: %w", err)
		}
	}
	st, err := server.OpenStore(ctx, c.Store.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	archive, ok := st.(store.Archive)
	if !ok {
		return errors.New("this kind of store cannot be backed up")
	}
	return do(archive)
}
