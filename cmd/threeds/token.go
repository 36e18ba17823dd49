package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// tokenCommands create, list and revoke tokens of the admin API.
var tokenCommands = []command{{"create", tokenCreate}, {"list", tokenList}, {"revoke", tokenRevoke}}

// withOperators calls do with the tokens and the audit trail of a configuration's store.
func withOperators(ctx context.Context, file string, do func(*operator.Service) error) error {
	return withKeys(ctx, file, func(_ *config.Config, st store.Store, ring *keyring.Ring) error {
		return do(&operator.Service{Store: st, Sealer: ring, Now: time.Now})
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
	return &ops.Acts{
		Operators: &operator.Service{Store: st, Sealer: ring, Now: time.Now}, Store: st, Now: time.Now,
		Ring: func() account.Ring { return ring }, Merchants: func() *merchant.Registry { return c.Registry(st, ring) }, TakesAnyMerchant: true,
	}
}

// commandEntry returns the entry of the audit trail for what a command does.
func commandEntry(action, object string, before, after any) operator.Entry {
	by := commandActor()
	return by.Entry(action, object, before, after)
}

// recordCommand adds what a command is about to do to the audit trail. When that fails, the command does nothing.
func recordCommand(ctx context.Context, st store.Store, ring *keyring.Ring, action, object string, after any) error {
	trail := &operator.Service{Store: st, Sealer: ring, Now: time.Now}
	err := trail.Record(ctx, commandEntry(action, object, nil, after))
	if err != nil {
		return fmt.Errorf("audit trail: %w", err)
	}
	return nil
}

func tokenCreate(ctx context.Context, cmd *invocation) error {
	var token operator.Token
	cmd.StringVar(&token.Name, "name", "", "what the list and the audit trail call the token")
	cmd.Func("role", "what the token may do: viewer, operator or admin", func(text string) (err error) {
		token.Role, err = operator.ParseRole(text)
		return err
	})
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
	return withOperators(ctx, *file, func(s *operator.Service) error {
		text, err := s.CreateToken(ctx, token)
		if errors.Is(err, operator.ErrTaken) {
			return fmt.Errorf("token create: there is a token %s (\"threeds token revoke %s\" ends it)", token.Name, token.Name)
		}
		if err != nil {
			return err
		}
		err = s.Record(ctx, commandEntry("token.create", token.Name, nil, map[string]any{"role": token.Role, "merchant": token.Merchant}))
		if err == nil {
			_, err = fmt.Fprintln(cmd.stdout, text)
		}
		if err != nil { // the token was printed nowhere, or the audit trail has no entry of it
			return errors.Join(err, s.RevokeToken(context.WithoutCancel(ctx), token.Name))
		}
		return nil
	})
}

func tokenList(ctx context.Context, cmd *invocation) error {
	asJSON, file := cmd.jsonFlag(), cmd.configFlag()
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	return withOperators(ctx, *file, func(s *operator.Service) error {
		all, err := s.Tokens(ctx)
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
	return withOperators(ctx, *file, func(s *operator.Service) error {
		err := s.RevokeToken(ctx, rest[0])
		if errors.Is(err, operator.ErrNoToken) {
			return errors.New("token revoke: no such token (see \"threeds token list\")")
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.stderr, "threeds: revoked token %s\n", oneLine(rest[0]))
		return s.Record(ctx, commandEntry("token.revoke", rest[0], nil, nil))
	})
}

// operatorCommands invite, list, change and remove users of the console.
var operatorCommands = []command{{"invite", operatorInvite}, {"list", operatorList}, {"role", operatorRole}, {"remove", operatorRemove}}

func operatorInvite(ctx context.Context, cmd *invocation) error {
	var invitation operator.Invitation
	cmd.StringVar(&invitation.Name, "name", "", "what the list and the audit trail call the operator")
	cmd.Func("role", "what the operator may do: viewer, operator or admin", func(text string) (err error) {
		invitation.Role, err = operator.ParseRole(text)
		return err
	})
	cmd.StringVar(&invitation.Merchant, "merchant", "", "the only merchant whose things the operator may see")
	file := cmd.configFlag()
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	if err := operator.CheckTokenName(invitation.Name); err != nil && invitation.Name != "" {
		return usageErrorf("operator invite: --name: %v", err)
	}
	if invitation.Role == "" {
		return usageErrorf("operator invite: --role viewer, operator or admin is missing")
	}
	return withKeys(ctx, *file, func(c *config.Config, st store.Store, ring *keyring.Ring) error {
		if !c.Console.Passkeys {
			return errors.New("operator invite: an invitation is for a passkey (set console.url, with a host name, and leave console.passkeys on)")
		}
		s := &operator.Service{Store: st, Sealer: ring, Now: time.Now}
		secret, err := s.Invite(ctx, &invitation)
		if errors.Is(err, operator.ErrUserExists) {
			return fmt.Errorf("operator invite: there is an operator %s with another role or merchant (\"threeds operator role\" changes it)", invitation.Name)
		}
		if err != nil {
			return err
		}
		err = s.Record(ctx, commandEntry("operator.invite", invitation.Name, nil,
			map[string]any{"role": invitation.Role, "merchant": invitation.Merchant}))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.stdout, c.Console.URL+"/invite/"+secret)
		return err
	})
}

func operatorList(ctx context.Context, cmd *invocation) error {
	asJSON, file := cmd.jsonFlag(), cmd.configFlag()
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	return withOperators(ctx, *file, func(s *operator.Service) error {
		all, err := s.Users(ctx)
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

var errNoOperator = errors.New("no such operator (see \"threeds operator list\")")

func operatorRole(ctx context.Context, cmd *invocation) error {
	file := cmd.configFlag()
	rest, err := cmd.parseExactly(2, "the name of the operator or the role is missing")
	if err != nil {
		return err
	}
	name := rest[0]
	role, err := operator.ParseRole(rest[1])
	if err != nil {
		return usageErrorf("operator role: %v", err)
	}
	return withOperators(ctx, *file, func(s *operator.Service) error {
		before, after, err := s.ChangeUser(ctx, name, func(u *operator.User) error {
			if u.IsOIDC() {
				return errors.New("the issuer says the role of this operator (console.oidc.roles in the configuration)")
			}
			u.Role = role
			return nil
		})
		if errors.Is(err, operator.ErrNoUser) {
			err = errNoOperator
		}
		if err != nil {
			return fmt.Errorf("operator role: %w", err)
		}
		fmt.Fprintf(cmd.stderr, "threeds: %s was %s and is %s\n", oneLine(name), before.Role, after.Role)
		return s.Record(ctx, commandEntry("operator.role", name,
			map[string]any{"role": before.Role}, map[string]any{"role": after.Role}))
	})
}

func operatorRemove(ctx context.Context, cmd *invocation) error {
	file := cmd.configFlag()
	rest, err := cmd.parseExactly(1, "the name of the operator is missing")
	if err != nil {
		return err
	}
	return withOperators(ctx, *file, func(s *operator.Service) error {
		err := s.RemoveUser(ctx, rest[0])
		if errors.Is(err, operator.ErrNoUser) {
			err = errNoOperator
		}
		if err != nil {
			return fmt.Errorf("operator remove: %w", err)
		}
		fmt.Fprintf(cmd.stderr, "threeds: removed operator %s\n", oneLine(rest[0]))
		return s.Record(ctx, commandEntry("operator.remove", rest[0], nil, nil))
	})
}
