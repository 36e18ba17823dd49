package main

import (
	"context"
	"fmt"
	"time"

	"github.com/openthreeds/threeds/api"
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

// holdCommands are about legal holds.
var holdCommands = []cmdline.Command{
	{
		Name: "add", Run: addHold,
		Takes: `--name NAME --reason TEXT [--card -] [--merchant NAME] [--from DAY] [--to DAY] [--json] [--config FILE]`,
		Does: `hold the records of a card, a merchant, days, or of what these have in common: no erasure and no end of
			time removes them; a card number is read from standard input; DAY is 2026-11-28`,
	},
	{
		Name: "list", Run: listHolds,
		Takes: `[--json] [--config FILE]`,
		Does:  `list legal holds, and say what they keep`,
	},
	{
		Name: "lift", Run: liftHold,
		Takes: `[--config FILE] NAME`,
		Does:  `lift a legal hold: a server removes within a minute what was due`,
	},
}

// withHolds calls do with the acts of a command on the legal holds of the journal.
func withHolds(ctx context.Context, file string, do func(*ops.Acts, operator.Actor) error) error {
	return local.WithJournal(ctx, file, func(st journal.Store, _ *journal.Keys) error {
		return local.WithKeys(ctx, file, func(c *config.Config, db store.Store, ring *keyring.Ring) error {
			acts := local.NewActs(c, db, ring)
			acts.LegalHolds = st
			return plainError(do(acts, local.Actor()))
		})
	})
}

// addHold sets a legal hold.
func addHold(ctx context.Context, cmd *cmdline.Invocation) error {
	var asked api.HoldRequest
	cmd.StringVar(&asked.Name, "name", "", "the name of the hold, such as that of the case")
	cmd.StringVar(&asked.Reason, "reason", "", "why, for the audit trail and for those who see the hold")
	card := cmd.String("card", "", "- reads the whole card number from standard input")
	cmd.StringVar(&asked.Merchant, "merchant", "", "records of this merchant")
	cmd.StringVar(&asked.From, "from", "", "records of this day and later, in UTC")
	cmd.StringVar(&asked.To, "to", "", "records of this day and earlier")
	asJSON, file := cmd.JSONFlag(), cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	if asked.Name == "" || asked.Reason == "" {
		return cmdline.Usagef("%s: want --name NAME and --reason TEXT", cmd.Name())
	}
	var err error
	if asked.AcctNumber, err = readTypedCard(*card, cmd.Stdin); err != nil {
		return err
	}
	return withHolds(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		added, err := acts.AddHold(ctx, by, asked)
		if err != nil {
			return err
		}
		found := terminal.Count(added.Found, "authentication")
		if added.HasMore {
			found = "more than " + found
		}
		return cmd.PrintResult(*asJSON, added, "legal hold %q: holds %s now, and those that come", added.Name, found)
	})
}

// listHolds lists the legal holds.
func listHolds(ctx context.Context, cmd *cmdline.Invocation) error {
	asJSON, file := cmd.JSONFlag(), cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	return withHolds(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		list, err := acts.Holds(ctx, by)
		if err != nil {
			return err
		}
		if *asJSON {
			return terminal.WriteJSON(cmd.Stdout, list)
		}
		if err := terminal.WriteList(cmd.Stdout, false, list.Data, "NAME\tSET\tBY\tHOLDS\tREASON",
			func(h journal.Hold) string {
				return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", terminal.OneLine(h.Name), h.At.Format(time.RFC3339),
					terminal.OneLine(h.By), terminal.OneLine(h.Words()), terminal.OneLine(h.Reason))
			}); err != nil {
			return err
		}
		if list.Days > 0 {
			fmt.Fprintf(cmd.Stderr, "threeds: %s over their time stay for a hold\n", terminal.Count(list.Days, "day"))
		}
		if list.Waiting > 0 {
			fmt.Fprintf(cmd.Stderr, "threeds: what %s left out goes when its hold is lifted\n",
				terminal.Count(list.Waiting, "erasure"))
		}
		missing, err := acts.MissingHolds(ctx, by)
		for _, name := range missing {
			fmt.Fprintf(cmd.Stderr, "threeds: the audit trail has the legal hold %q, and the journal has not: %s\n", name,
				"compare its seals with heads that were noted elsewhere, and set the hold again")
		}
		return err
	})
}

// liftHold lifts a legal hold.
func liftHold(ctx context.Context, cmd *cmdline.Invocation) error {
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadExactly(1, "NAME is missing")
	if err != nil {
		return err
	}
	return withHolds(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		if _, err := ops.Find("journal hold lift").Do(acts, ctx, by, rest[0]); err != nil {
			return err
		}
		return cmd.PrintResult(false, nil, "lifted legal hold %q: a server removes within a minute what was due", rest[0])
	})
}

// printHeld says what an erasure leaves out for legal holds.
func printHeld(cmd *cmdline.Invocation, stays string, held []journal.HeldBack) {
	for _, h := range held {
		fmt.Fprintf(cmd.Stdout, "%s: %s, for the legal hold %q\n", stays, terminal.Count(h.Authentications, "authentication"),
			h.Hold)
	}
}
