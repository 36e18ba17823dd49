package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// auditCommands search and export the audit trail.
var auditCommands = []command{{"search", auditSearch}, {"export", auditExport}}

// auditFlags adds the flags of a search in the audit trail.
func auditFlags(fs *flag.FlagSet, q *operator.Query) {
	fs.StringVar(&q.Who, "who", "", "who did it, such as token:ci")
	fs.StringVar(&q.Action, "action", "", "what was done, such as key.create")
	fs.StringVar(&q.Object, "object", "", "what it was done to")
	timeFlag(fs, "from", "from then on", &q.From)
	timeFlag(fs, "to", "before then", &q.To)
}

func auditSearch(ctx context.Context, cmd *invocation) error {
	var q operator.Query
	auditFlags(cmd.FlagSet, &q)
	cmd.IntVar(&q.Limit, "limit", 50, "how many entries at most")
	asJSON, file := cmd.jsonFlag(), cmd.configFlag()
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	if err := ops.CheckAction(q.Action); err != nil {
		return usageErrorf("audit search: --action: %v", err)
	}
	if q.Limit < 1 {
		return usageErrorf("audit search: --limit: want a number from 1")
	}
	if err := checkSpan("audit search", q.From, q.To); err != nil {
		return err
	}
	return withActs(ctx, *file, func(acts *ops.Acts, _ operator.Actor) error {
		all, err := acts.Operators.Search(ctx, q)
		if err != nil {
			return err
		}
		return writeList(cmd.stdout, *asJSON, all, "AT\tWHO\tACTION\tOBJECT\tFROM", func(e operator.Entry) string {
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", e.At.Format(time.RFC3339), oneLine(e.Who), e.Action, oneLine(e.Object), e.From)
		})
	})
}

// auditExport writes the audit trail in the form that "journal verify" reads. The trail has an entry of each export, so
// the export contains its own entry.
func auditExport(ctx context.Context, cmd *invocation) error {
	var q operator.Query
	auditFlags(cmd.FlagSet, &q)
	file := cmd.configFlag()
	rest, err := cmd.parse(1)
	if err == nil {
		err = checkSpan("audit export", q.From, q.To)
	}
	if err == nil && ops.CheckAction(q.Action) != nil {
		err = usageErrorf("audit export: --action: %v", ops.CheckAction(q.Action))
	}
	if err != nil {
		return err
	}
	return withKeys(ctx, *file, func(c *config.Config, st store.Store, ring *keyring.Ring) error {
		keys, err := journal.LoadOrCreateKeys(c.Journal.Keys, c.JournalURL().Dir)
		if err != nil {
			return err
		}
		if err := recordCommand(ctx, c, st, "audit.export", "", nil); err != nil {
			return err
		}
		n, err := writeExport(rest, cmd.stdout, func(to io.Writer) (int, error) {
			return newTrail(c, st, ring).Export(ctx, to, keys, q)
		})
		if err == nil {
			fmt.Fprintf(cmd.stderr, "threeds: exported %s\n", countEntries(n))
		}
		return err
	})
}

// writeExport is writeNewFile for an export. One of what was changed in the store is kept, for it shows the change; it is not
// signed, and the error says so.
func writeExport(args []string, stdout io.Writer, write func(io.Writer) (int, error)) (n int, err error) {
	var changed error
	err = writeNewFile(args, stdout, func(to io.Writer) (err error) {
		if n, err = write(to); journal.IsChanged(err) {
			changed, err = fmt.Errorf("%w: the export is not signed", err), nil
		}
		return err
	})
	return n, errors.Join(err, changed)
}

// countEntries returns a number of entries in words.
func countEntries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// writeNewFile calls write with a new file, which args name, for its owner alone; with standard output when args are empty
// or "-". A file that could not be written to its end is removed.
func writeNewFile(args []string, stdout io.Writer, write func(io.Writer) error) error {
	if len(args) == 0 || args[0] == "-" {
		return write(exactWriter(stdout))
	}
	f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(args[0])) // part of it is of no use
	}
	return err
}
