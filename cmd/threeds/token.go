package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/run/local"
)

// tokenCommands create, list and revoke tokens of the admin API.
var tokenCommands = []cmdline.Command{
	{
		Name: "create", Run: tokenCreate,
		Takes: `--name NAME --role viewer|operator|admin [--merchant M | --group G] [--expires 90d|DATE] [--config
			FILE]`,
		Does: `make a token of the admin API and print it, once`,
	},
	{
		Name: "list", Run: tokenList,
		Takes: `[--json] [--config FILE]`,
		Does:  `list the tokens of the admin API`,
	},
	{
		Name: "revoke", Run: tokenRevoke,
		Takes: `NAME [--config FILE]`,
		Does:  `end a token immediately, on every node`,
	},
}

func tokenCreate(ctx context.Context, cmd *cmdline.Invocation) error {
	var token api.NewToken
	cmd.StringVar(&token.Name, "name", "", "what the list and the audit trail call the token")
	roleFlag(cmd, &token.Role, "what the token may do: viewer, operator or admin")
	cmd.StringVar(&token.Merchant, "merchant", "", "the only merchant whose things the token may see")
	cmd.StringVar(&token.Group, "group", "", "the group of merchants whose things the token may see")
	cmd.Func("expires", "when the token ends: in days, as 90d, or a date in RFC 3339", func(text string) (err error) {
		token.Expires, err = parseExpiry(text, time.Now())
		return err
	})
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	if err := operator.CheckTokenName(token.Name); err != nil {
		return cmdline.Usagef("token create: --name: %v", err)
	}
	if token.Role == "" {
		return cmdline.Usagef("token create: --role viewer, operator or admin is missing")
	}
	defer catchBrokenPipe()()
	return local.WithActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		made, err := acts.CreateToken(ctx, by, token)
		if errors.Is(err, operator.ErrTaken) {
			return fmt.Errorf("token create: there is a token %s (\"threeds token revoke %s\" ends it)", token.Name, token.Name)
		}
		if err != nil {
			return plainError(err)
		}
		if _, err := fmt.Fprintln(cmd.Stdout, made.Token); err != nil { // the token was not printed
			_, revoked := ops.Find("token revoke").Do(acts, context.WithoutCancel(ctx), by, token.Name)
			return errors.Join(err, revoked)
		}
		return nil
	})
}

// roleFlag adds the flag of a role.
func roleFlag(cmd *cmdline.Invocation, role *string, usage string) {
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

func tokenList(ctx context.Context, cmd *cmdline.Invocation) error {
	asJSON, file := cmd.JSONFlag(), cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	return local.WithActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		all, err := acts.Tokens(ctx, by)
		if err != nil {
			return err
		}
		return terminal.WriteList(cmd.Stdout, *asJSON, all, "NAME\tROLE\tCREATED\tEXPIRES\tGROUP\tMERCHANT",
			func(t operator.Token) string {
				created := t.Created.Format(time.RFC3339)
				if !t.IsSealed {
					created = "refused"
				}
				return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", terminal.OneLine(t.Name), t.Role, created,
					orNever(timeOrNull(t.Expires)), cmp.Or(t.Group, "-"), terminal.OneLine(t.Merchant))
			})
	})
}

func tokenRevoke(ctx context.Context, cmd *cmdline.Invocation) error {
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadExactly(1, "the name of the token is missing")
	if err != nil {
		return err
	}
	return local.WithActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		_, err := ops.Find("token revoke").Do(acts, ctx, by, rest[0])
		if errors.Is(err, operator.ErrNoToken) {
			return errors.New("token revoke: no such token (see \"threeds token list\")")
		}
		if err == nil {
			fmt.Fprintf(cmd.Stderr, "threeds: revoked token %s\n", terminal.OneLine(rest[0]))
		}
		return err
	})
}

// operatorCommands invite, list, change and remove users of the console.
var operatorCommands = []cmdline.Command{
	{
		Name: "invite", Run: operatorInvite,
		Takes: `--role viewer|operator|admin [--merchant M | --group G] [--name NAME] [--config FILE]`,
		Does:  `print a link by which somebody registers a passkey for the console, once, in one hour`,
	},
	{
		Name: "list", Run: operatorList,
		Takes: `[--json] [--config FILE]`,
		Does:  `list who may log in to the console`,
	},
	{
		Name: "role", Run: operatorRole,
		Takes: `[--group G] [--config FILE] NAME viewer|operator|admin`,
		Does: `give an operator another role, and with --group another group of merchants ("" for all of them); end
			their sessions`,
	},
	{
		Name: "remove", Run: operatorRemove,
		Takes: `NAME [--config FILE]`,
		Does:  `remove an operator, and end their sessions`,
	},
}

func operatorInvite(ctx context.Context, cmd *cmdline.Invocation) error {
	var asked api.NewOperator
	cmd.StringVar(&asked.Name, "name", "", "what the list and the audit trail call the operator")
	roleFlag(cmd, &asked.Role, "what the operator may do: viewer, operator or admin")
	cmd.StringVar(&asked.Merchant, "merchant", "", "the only merchant whose things the operator may see")
	cmd.StringVar(&asked.Group, "group", "", "the group of merchants whose things the operator may see")
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	if err := operator.CheckTokenName(asked.Name); err != nil && asked.Name != "" {
		return cmdline.Usagef("operator invite: --name: %v", err)
	}
	if asked.Role == "" {
		return cmdline.Usagef("operator invite: --role viewer, operator or admin is missing")
	}
	return local.WithActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		if acts.PasskeyURL() == "" {
			return errors.New(
				"operator invite: an invitation is for a passkey (set console.url, with a host name, and leave console.passkeys on)")
		}
		made, err := acts.InviteOperator(ctx, by, asked)
		if errors.Is(err, operator.ErrUserExists) {
			return fmt.Errorf(
				"operator invite: there is an operator %s with another role, merchant or group (\"threeds operator role\" changes it)",
				asked.Name)
		}
		if err != nil {
			return plainError(err)
		}
		_, err = fmt.Fprintln(cmd.Stdout, made.Link)
		return err
	})
}

func operatorList(ctx context.Context, cmd *cmdline.Invocation) error {
	asJSON, file := cmd.JSONFlag(), cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	return local.WithActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		all, err := acts.ListOperators(ctx, by)
		if err != nil {
			return err
		}
		return terminal.WriteList(cmd.Stdout, *asJSON, all, "NAME\tROLE\tCREATED\tPASSKEYS\tGROUP\tMERCHANT\tLABEL",
			func(u operator.User) string {
				created := u.Created.Format(time.RFC3339)
				if !u.IsSealed {
					created = "refused"
				}
				return fmt.Sprintf("%s\t%s\t%s\t%d\t%s\t%s\t%s", terminal.OneLine(u.Name), u.Role, created, len(u.Passkeys),
					cmp.Or(u.Group, "-"), terminal.OneLine(u.Merchant), terminal.OneLine(u.Label))
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

func operatorRole(ctx context.Context, cmd *cmdline.Invocation) error {
	var asked api.RoleChange
	cmd.Func("group", "the group of merchants whose things the operator may see; empty: all merchants",
		func(group string) error {
			asked.Group = &group
			return nil
		})
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadExactly(2, "the name of the operator or the role is missing")
	if err != nil {
		return err
	}
	if _, err := operator.ParseRole(rest[1]); err != nil {
		return cmdline.Usagef("operator role: %v", err)
	}
	asked.Role = rest[1]
	return local.WithActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		was, now, err := acts.ChangeRole(ctx, by, rest[0], asked)
		if err == nil {
			fmt.Fprintf(cmd.Stderr, "threeds: %s was %s and is %s\n", terminal.OneLine(rest[0]), describeRole(&was),
				describeRole(&now))
		}
		return explainOperator("operator role", err)
	})
}

// describeRole returns the role of an operator, and the group that they see.
func describeRole(u *operator.User) string {
	if u.Group == "" {
		return string(u.Role)
	}
	return string(u.Role) + " of group " + u.Group
}

func operatorRemove(ctx context.Context, cmd *cmdline.Invocation) error {
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadExactly(1, "the name of the operator is missing")
	if err != nil {
		return err
	}
	return local.WithActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		_, err := ops.Find("operator remove").Do(acts, ctx, by, rest[0])
		if err == nil {
			fmt.Fprintf(cmd.Stderr, "threeds: removed operator %s\n", terminal.OneLine(rest[0]))
		}
		return explainOperator("operator remove", err)
	})
}
