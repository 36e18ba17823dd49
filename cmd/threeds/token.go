package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/user"
	"text/tabwriter"
	"time"

	"github.com/openthreeds/threeds/internal/config"
	"github.com/openthreeds/threeds/internal/keyring"
	"github.com/openthreeds/threeds/internal/operator"
	"github.com/openthreeds/threeds/internal/store"
)

// runToken creates, lists and revokes tokens of the admin API.
func runToken(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usageErrorf("token: no command (create, list or revoke)")
	}
	switch args[0] {
	case "-h", "-help", "--help":
		return helpRequest{"threeds token takes a command: create, list or revoke"}
	case "create":
		return tokenCreate(ctx, args[1:], stdout)
	case "list":
		return tokenList(ctx, args[1:], stdout)
	case "revoke":
		return tokenRevoke(ctx, args[1:], stderr)
	}
	return usageErrorf("token: unknown command %q%s", args[0], config.Hint(args[0], "create", "list", "revoke"))
}

// withOperators calls do with the tokens and the audit trail of a configuration's store.
func withOperators(ctx context.Context, file string, do func(*operator.Service) error) error {
	return withKeys(ctx, file, func(_ *config.Config, st store.Store, ring *keyring.Ring) error {
		return do(&operator.Service{Store: st, Sealer: ring, Now: time.Now})
	})
}

// commandActor is how the audit trail calls whoever runs a command.
func commandActor() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return "cli:" + name + "@" + host
}

// recordCommand adds what a command is about to do to the audit trail. When that fails, the command does nothing.
func recordCommand(ctx context.Context, st store.Store, ring *keyring.Ring, action, object string, after any) error {
	trail := &operator.Service{Store: st, Sealer: ring, Now: time.Now}
	err := trail.Record(ctx, operator.Entry{Who: commandActor(), From: "command line", Action: action, Object: object, After: after})
	if err != nil {
		return fmt.Errorf("audit trail: %w", err)
	}
	return nil
}

func tokenCreate(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("token create", flag.ContinueOnError)
	var token operator.Token
	fs.StringVar(&token.Name, "name", "", "what the list and the audit trail call the token")
	fs.Func("role", "what the token may do: viewer, operator or admin", func(text string) (err error) {
		token.Role, err = operator.ParseRole(text)
		return err
	})
	fs.StringVar(&token.Merchant, "merchant", "", "the only merchant whose things the token may see")
	fs.Func("expires", "when the token ends: in days, as 90d, or a date in RFC 3339", func(text string) (err error) {
		token.Expires, err = parseExpiry(text, time.Now())
		return err
	})
	file := configFlag(fs)
	if _, err := parseFlags(fs, args, 0); err != nil {
		return err
	}
	if err := operator.CheckTokenName(token.Name); err != nil {
		return usageErrorf("token create: --name: %v", err)
	}
	if token.Role == "" {
		return usageErrorf("token create: --role viewer, operator or admin is missing")
	}
	return withOperators(ctx, *file, func(s *operator.Service) error {
		text, err := s.CreateToken(ctx, token)
		if errors.Is(err, operator.ErrTaken) {
			return fmt.Errorf("token create: there is a token %s (\"threeds token revoke %s\" ends it)", token.Name, token.Name)
		}
		if err != nil {
			return err
		}
		err = s.Record(ctx, operator.Entry{Who: commandActor(), Action: "token.create", Object: token.Name,
			After: map[string]any{"role": token.Role, "merchant": token.Merchant}})
		if err == nil {
			_, err = fmt.Fprintln(stdout, text)
		}
		if err != nil { // nobody has the token, or it has left no trace
			return errors.Join(err, s.RevokeToken(context.WithoutCancel(ctx), token.Name))
		}
		return nil
	})
}

func tokenList(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("token list", flag.ContinueOnError)
	asJSON, file := jsonFlag(fs), configFlag(fs)
	if _, err := parseFlags(fs, args, 0); err != nil {
		return err
	}
	return withOperators(ctx, *file, func(s *operator.Service) error {
		all, err := s.Tokens(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return writeJSON(stdout, all)
		}
		w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tROLE\tCREATED\tEXPIRES\tMERCHANT")
		for _, t := range all {
			created := t.Created.Format(time.RFC3339)
			if !t.IsSealed {
				created = "refused"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", oneLine(t.Name), t.Role, created, orNever(timeOrNull(t.Expires)), oneLine(t.Merchant))
		}
		return w.Flush()
	})
}

func tokenRevoke(ctx context.Context, args []string, stderr io.Writer) error {
	fs := flag.NewFlagSet("token revoke", flag.ContinueOnError)
	file := configFlag(fs)
	rest, err := parseFlags(fs, args, 1)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return usageErrorf("token revoke: the name of the token is missing")
	}
	return withOperators(ctx, *file, func(s *operator.Service) error {
		err := s.RevokeToken(ctx, rest[0])
		if errors.Is(err, operator.ErrNoToken) {
			return errors.New("token revoke: no such token (see \"threeds token list\")")
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(stderr, "threeds: revoked token %s\n", oneLine(rest[0]))
		return s.Record(ctx, operator.Entry{Who: commandActor(), Action: "token.revoke", Object: rest[0]})
	})
}

// runOperator invites, lists, changes and removes users of the console.
func runOperator(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usageErrorf("operator: no command (invite, list, role or remove)")
	}
	switch args[0] {
	case "-h", "-help", "--help":
		return helpRequest{"threeds operator takes a command: invite, list, role or remove"}
	case "invite":
		return operatorInvite(ctx, args[1:], stdout)
	case "list":
		return operatorList(ctx, args[1:], stdout)
	case "role":
		return operatorRole(ctx, args[1:], stderr)
	case "remove":
		return operatorRemove(ctx, args[1:], stderr)
	}
	return usageErrorf("operator: unknown command %q%s", args[0], config.Hint(args[0], "invite", "list", "role", "remove"))
}

func operatorInvite(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("operator invite", flag.ContinueOnError)
	var invitation operator.Invitation
	fs.StringVar(&invitation.Name, "name", "", "what the list and the audit trail call the operator")
	fs.Func("role", "what the operator may do: viewer, operator or admin", func(text string) (err error) {
		invitation.Role, err = operator.ParseRole(text)
		return err
	})
	fs.StringVar(&invitation.Merchant, "merchant", "", "the only merchant whose things the operator may see")
	file := configFlag(fs)
	if _, err := parseFlags(fs, args, 0); err != nil {
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
		err = s.Record(ctx, operator.Entry{Who: commandActor(), Action: "operator.invite", Object: invitation.Name,
			After: map[string]any{"role": invitation.Role, "merchant": invitation.Merchant}})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(stdout, c.Console.URL+"/invite/"+secret)
		return err
	})
}

func operatorList(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("operator list", flag.ContinueOnError)
	asJSON, file := jsonFlag(fs), configFlag(fs)
	if _, err := parseFlags(fs, args, 0); err != nil {
		return err
	}
	return withOperators(ctx, *file, func(s *operator.Service) error {
		all, err := s.Users(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return writeJSON(stdout, all)
		}
		w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tROLE\tCREATED\tPASSKEYS\tMERCHANT\tLABEL")
		for _, u := range all {
			created := u.Created.Format(time.RFC3339)
			if !u.IsSealed {
				created = "refused"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", oneLine(u.Name), u.Role, created, len(u.Passkeys), oneLine(u.Merchant), oneLine(u.Label))
		}
		return w.Flush()
	})
}

var errNoOperator = errors.New("no such operator (see \"threeds operator list\")")

func operatorRole(ctx context.Context, args []string, stderr io.Writer) error {
	fs := flag.NewFlagSet("operator role", flag.ContinueOnError)
	file := configFlag(fs)
	rest, err := parseFlags(fs, args, 2)
	if err != nil {
		return err
	}
	if len(rest) < 2 {
		return usageErrorf("operator role: the name of the operator or the role is missing")
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
		fmt.Fprintf(stderr, "threeds: %s was %s and is %s\n", oneLine(name), before.Role, after.Role)
		return s.Record(ctx, operator.Entry{Who: commandActor(), Action: "operator.role", Object: name,
			Before: map[string]any{"role": before.Role}, After: map[string]any{"role": after.Role}})
	})
}

func operatorRemove(ctx context.Context, args []string, stderr io.Writer) error {
	fs := flag.NewFlagSet("operator remove", flag.ContinueOnError)
	file := configFlag(fs)
	rest, err := parseFlags(fs, args, 1)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return usageErrorf("operator remove: the name of the operator is missing")
	}
	return withOperators(ctx, *file, func(s *operator.Service) error {
		err := s.RemoveUser(ctx, rest[0])
		if errors.Is(err, operator.ErrNoUser) {
			err = errNoOperator
		}
		if err != nil {
			return fmt.Errorf("operator remove: %w", err)
		}
		fmt.Fprintf(stderr, "threeds: removed operator %s\n", oneLine(rest[0]))
		return s.Record(ctx, operator.Entry{Who: commandActor(), Action: "operator.remove", Object: rest[0]})
	})
}
