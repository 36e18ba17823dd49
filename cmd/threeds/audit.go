package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/local"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// auditCommands search and export the audit trail.
var auditCommands = []cmdline.Command{
	{
		Name: "search", Run: auditSearch,
		Takes: `[--who W] [--action ACTION] [--object O] [--from T] [--to T] [--limit N] [--json] [--config FILE]`,
		Does:  `say who changed what, the newest first`,
	},
	{
		Name: "export", Run: auditExport,
		Takes: `[--who W] [--action ACTION] [--object O] [--from T] [--to T] [--config FILE] [FILE]`,
		Does: `write the audit trail in the form of "threeds journal export", for "threeds journal verify"; exit
			status 1 means that somebody has changed it in the store`,
	},
	{
		Name: "follow", Run: auditFollow, Takes: `[--from N] [--once] [--config FILE]`,
		Does: `write entries as they come, for a reader that has all up to entry N; exit status 1 means that somebody has
			changed one in the store`,
	},
}

// auditFlags adds the flags of a search in the audit trail.
func auditFlags(cmd *cmdline.Invocation, q *operator.Query) {
	cmd.StringVar(&q.Who, "who", "", "who did it, such as token:ci")
	cmd.StringVar(&q.Action, "action", "", "what was done, such as key.create")
	cmd.StringVar(&q.Object, "object", "", "what it was done to")
	cmd.TimeFlag("from", "from then on", &q.From)
	cmd.TimeFlag("to", "before then", &q.To)
}

func auditSearch(ctx context.Context, cmd *cmdline.Invocation) error {
	var q operator.Query
	auditFlags(cmd, &q)
	cmd.IntVar(&q.Limit, "limit", 50, "how many entries at most")
	asJSON, file := cmd.JSONFlag(), cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	if err := ops.CheckAction(q.Action); err != nil {
		return cmdline.Usagef("audit search: --action: %v", err)
	}
	if q.Limit < 1 {
		return cmdline.Usagef("audit search: --limit: want a number from 1")
	}
	if err := cmd.CheckSpan(q.From, q.To); err != nil {
		return err
	}
	return local.WithActs(ctx, *file, func(acts *ops.Acts, _ operator.Actor) error {
		all, err := acts.Operators.Search(ctx, q)
		if err != nil {
			return err
		}
		return terminal.WriteList(cmd.Stdout, *asJSON, all, "AT\tWHO\tACTION\tOBJECT\tFROM", func(e operator.Entry) string {
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", e.At.Format(time.RFC3339), terminal.OneLine(e.Who), e.Action,
				terminal.OneLine(e.Object), e.From)
		})
	})
}

// auditExport writes the audit trail in the form that "journal verify" reads. The trail has an entry of each export, so
// the export contains its own entry.
func auditExport(ctx context.Context, cmd *cmdline.Invocation) error {
	var q operator.Query
	auditFlags(cmd, &q)
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadArgs(1)
	if err == nil {
		err = cmd.CheckSpan(q.From, q.To)
	}
	if err == nil && ops.CheckAction(q.Action) != nil {
		err = cmdline.Usagef("audit export: --action: %v", ops.CheckAction(q.Action))
	}
	if err != nil {
		return err
	}
	return local.WithKeys(ctx, *file, func(c *config.Config, st store.Store, ring *keyring.Ring) error {
		keys, err := c.JournalKeyFile().LoadOrCreate()
		if err != nil {
			return err
		}
		if err := local.Record(ctx, c, st, "audit.export", "", nil); err != nil {
			return err
		}
		n, err := writeExport(rest, cmd.Stdout, func(to io.Writer) (int, error) {
			return local.NewTrail(c, st, ring).Export(ctx, to, keys, q)
		})
		if err == nil {
			fmt.Fprintf(cmd.Stderr, "threeds: exported %s\n", terminal.Count(n, "entry"))
		}
		return err
	})
}

// auditFollow prints entries of the audit trail as they come.
func auditFollow(ctx context.Context, cmd *cmdline.Invocation) error {
	from := cmd.Int("from", 0, "go on behind this entry")
	isOnce := cmd.Bool("once", false, "end when all has been printed")
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	if *from < 0 {
		return cmdline.Usagef("audit follow: --from: want the number of an entry, or 0 for all entries")
	}
	err := local.WithKeys(ctx, *file, func(c *config.Config, st store.Store, ring *keyring.Ring) error {
		if _, err := c.JournalKeyFile().LoadOrCreate(); err != nil {
			return err // no entry could be checked
		}
		f := operator.Follower{
			Service: local.NewTrail(c, st, ring), From: int64(*from), To: cmd.Stdout, Wait: followWait(*isOnce),
		}
		return f.Run(ctx)
	})
	if errors.Is(err, context.Canceled) {
		return nil // The user has ended the command.
	}
	return err
}

// writeExport is [cmdline.WriteNewFile] for an export. One of a store that was changed is kept, for it shows the
// change; it is not signed, and the error says so.
func writeExport(args []string, stdout io.Writer, write func(io.Writer) (int, error)) (n int, err error) {
	var changed error
	err = cmdline.WriteNewFile(args, stdout, func(to io.Writer) (err error) {
		if n, err = write(to); journal.IsChanged(err) {
			changed, err = fmt.Errorf("%w: the export is not signed", err), nil
		}
		return err
	})
	return n, errors.Join(err, changed)
}
