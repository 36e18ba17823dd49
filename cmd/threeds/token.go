package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// tokenCommands create, list and revoke tokens of the admin API.
var tokenCommands = []command{{"create", tokenCreate}, {"list", tokenList}, {"revoke", tokenRevoke}}

// withActs calls do with what a command may do with a configuration's store, and who does it.
func withActs(ctx context.Context, file string, do func(*ops.Acts, operator.Actor) error) error {
	return withKeys(ctx, file, func(c *config.Config, st store.Store, ring *keyring.Ring) error {
		return do(newActs(c, st, ring), commandActor())
	})
}

// commandActor returns the person who runs a command: an admin, whom the audit trail names by user and host.
func commandActor() operator.Actor {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return operator.Actor{Who: "cli:" + name + "@" + host, Role: operator.Admin, From: "command line"}
}

// newActs returns what a command may do with a store.
func newActs(c *config.Config, st store.Store, ring *keyring.Ring) *ops.Acts {
	passkeyURL := ""
	if c.Console.Passkeys {
		passkeyURL = c.Console.URL
	}
	return &ops.Acts{
		Operators: newTrail(c, st, ring), Store: st, Now: time.Now,
		Ring: func() account.Ring { return ring }, Merchants: func() *merchant.Registry { return c.Registry(st, ring) }, IsCommandLine: true,
		PasskeyURL: func() string { return passkeyURL },
	}
}

// newTrail returns the operators and the audit trail of a store, for a command. Without the keys of the journal its entries have
// no MAC, which the server reports.
func newTrail(c *config.Config, st operator.Store, ring store.Sealer) *operator.Service {
	s := &operator.Service{Store: st, Sealer: ring, Now: time.Now}
	if c.Journal.Keys != "" {
		s.Keys, _ = journal.LoadOrCreateKeys(c.Journal.Keys, c.JournalURL().Dir)
	}
	return s
}

// commandEntry returns the entry of the audit trail for what a command does.
func commandEntry(action, object string, before, after any) operator.Entry {
	by := commandActor()
	return by.Entry(action, object, before, after)
}

// recordCommand adds what a command is about to do to the audit trail. When that fails, the command does nothing.
func recordCommand(ctx context.Context, c *config.Config, st store.Store, action, object string, after any) error {
	err := newTrail(c, st, nil).Record(ctx, commandEntry(action, object, nil, after))
	if err != nil {
		return fmt.Errorf("audit trail: %w", err)
	}
	return nil
}

func tokenCreate(ctx context.Context, cmd *invocation) error {
	var token api.NewToken
	cmd.StringVar(&token.Name, "name", "", "what the list and the audit trail call the token")
	cmd.roleFlag(&token.Role, "what the token may do: viewer, operator or admin")
	cmd.StringVar(&token.Merchant, "merchant", "", "the only merchant whose things the token may see")
	cmd.Func("expires", "when the token ends: in days, as 90d, or a date in RFC 3339", func(text string) (err error) {
		token.Expires, err = parseExpiry(text, time.Now())
		return err
	})
	file := cmd.configFlag()
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	if err := operator.CheckTokenName(token.Name); err != nil {
		return usageErrorf("token create: --name: %v", err)
	}
	if token.Role == "" {
		return usageErrorf("token create: --role viewer, operator or admin is missing")
	}
	defer catchBrokenPipe()()
	return withActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		made, err := acts.CreateToken(ctx, by, token)
		if errors.Is(err, operator.ErrTaken) {
			return fmt.Errorf("token create: there is a token %s (\"threeds token revoke %s\" ends it)", token.Name, token.Name)
		}
		if err != nil {
			return plainError(err)
		}
		if _, err := fmt.Fprintln(cmd.stdout, made.Token); err != nil { // nobody has the token
			_, revoked := ops.Find("token revoke").Do(acts, context.WithoutCancel(ctx), by, token.Name)
			return errors.Join(err, revoked)
		}
		return nil
	})
}

// roleFlag adds the flag of a role.
func (cmd *invocation) roleFlag(role *string, usage string) {
	cmd.Func("role", usage, func(text string) error {
		_, err := operator.ParseRole(text)
		*role = text
		return err
	})
}

// plainError returns a refusal as an error without a full stop. Other errors it returns as they are.
func plainError(err error) error {
	if _, isRefusal := errors.AsType[*ops.Refusal](err); isRefusal {
		return errors.New(strings.TrimSuffix(err.Error(), "."))
	}
	return err
}

func tokenList(ctx context.Context, cmd *invocation) error {
	asJSON, file := cmd.jsonFlag(), cmd.configFlag()
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	return withActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		all, err := acts.Tokens(ctx, by)
		if err != nil {
			return err
		}
		return writeList(cmd.stdout, *asJSON, all, "NAME\tROLE\tCREATED\tEXPIRES\tMERCHANT", func(t operator.Token) string {
			created := t.Created.Format(time.RFC3339)
			if !t.IsSealed {
				created = "refused"
			}
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", oneLine(t.Name), t.Role, created, orNever(timeOrNull(t.Expires)), oneLine(t.Merchant))
		})
	})
}

func tokenRevoke(ctx context.Context, cmd *invocation) error {
	file := cmd.configFlag()
	rest, err := cmd.parseExactly(1, "the name of the token is missing")
	if err != nil {
		return err
	}
	return withActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		_, err := ops.Find("token revoke").Do(acts, ctx, by, rest[0])
		if errors.Is(err, operator.ErrNoToken) {
			return errors.New("token revoke: no such token (see \"threeds token list\")")
		}
		if err == nil {
			fmt.Fprintf(cmd.stderr, "threeds: revoked token %s\n", oneLine(rest[0]))
		}
		return err
	})
}

// operatorCommands invite, list, change and remove users of the console.
var operatorCommands = []command{{"invite", operatorInvite}, {"list", operatorList}, {"role", operatorRole}, {"remove", operatorRemove}}

func operatorInvite(ctx context.Context, cmd *invocation) error {
	var asked api.NewOperator
	cmd.StringVar(&asked.Name, "name", "", "what the list and the audit trail call the operator")
	cmd.roleFlag(&asked.Role, "what the operator may do: viewer, operator or admin")
	cmd.StringVar(&asked.Merchant, "merchant", "", "the only merchant whose things the operator may see")
	file := cmd.configFlag()
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	if err := operator.CheckTokenName(asked.Name); err != nil && asked.Name != "" {
		return usageErrorf("operator invite: --name: %v", err)
	}
	if asked.Role == "" {
		return usageErrorf("operator invite: --role viewer, operator or admin is missing")
	}
	return withActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		if acts.PasskeyURL() == "" {
			return errors.New("operator invite: an invitation is for a passkey (set console.url, with a host name, and leave console.passkeys on)")
		}
		made, err := acts.InviteOperator(ctx, by, asked)
		if errors.Is(err, operator.ErrUserExists) {
			return fmt.Errorf("operator invite: there is an operator %s with another role or merchant (\"threeds operator role\" changes it)", asked.Name)
		}
		if err != nil {
			return plainError(err)
		}
		_, err = fmt.Fprintln(cmd.stdout, made.Link)
		return err
	})
}

func operatorList(ctx context.Context, cmd *invocation) error {
	asJSON, file := cmd.jsonFlag(), cmd.configFlag()
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	return withActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		all, err := acts.ListOperators(ctx, by)
		if err != nil {
			return err
		}
		return writeList(cmd.stdout, *asJSON, all, "NAME\tROLE\tCREATED\tPASSKEYS\tMERCHANT\tLABEL", func(u operator.User) string {
			created := u.Created.Format(time.RFC3339)
			if !u.IsSealed {
				created = "refused"
			}
			return fmt.Sprintf("%s\t%s\t%s\t%d\t%s\t%s", oneLine(u.Name), u.Role, created, len(u.Passkeys), oneLine(u.Merchant), oneLine(u.Label))
		})
	})
}

// explainOperator returns the error of a command for an operator.
func explainOperator(command string, err error) error {
	if errors.Is(err, operator.ErrNoUser) {
		err = errors.New("no such operator (see \"threeds operator list\")")
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", command, plainError(err))
	}
	return err
}

func operatorRole(ctx context.Context, cmd *invocation) error {
	file := cmd.configFlag()
	rest, err := cmd.parseExactly(2, "the name of the operator or the role is missing")
	if err != nil {
		return err
	}
	if _, err := operator.ParseRole(rest[1]); err != nil {
		return usageErrorf("operator role: %v", err)
	}
	return withActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		was, now, err := acts.ChangeRole(ctx, by, rest[0], rest[1])
		if err == nil {
			fmt.Fprintf(cmd.stderr, "threeds: %s was %s and is %s\n", oneLine(rest[0]), was.Role, now.Role)
		}
		return explainOperator("operator role", err)
	})
}

func operatorRemove(ctx context.Context, cmd *invocation) error {
	file := cmd.configFlag()
	rest, err := cmd.parseExactly(1, "the name of the operator is missing")
	if err != nil {
		return err
	}
	return withActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		_, err := ops.Find("operator remove").Do(acts, ctx, by, rest[0])
		if err == nil {
			fmt.Fprintf(cmd.stderr, "threeds: removed operator %s\n", oneLine(rest[0]))
		}
		return explainOperator("operator remove", err)
	})
}
