package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/local"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// What "merchant add" and "merchant set" take and do.
const (
	takesProfile = `--name NAME [--SETTING VALUE]... [--json] [--config FILE]`
	doesProfile  = `add a merchant to the store, or change one there; a SETTING is named as in the configuration: --mcc
		5411 --origins URL --per-directory visa.acquirer_bin=400551`
)

// merchantCommands add, change, list and remove merchants of the store.
var merchantCommands = []cmdline.Command{
	{Name: "add", Run: runMerchant, Takes: takesProfile, Does: doesProfile},
	{Name: "set", Run: runMerchant, Takes: takesProfile, Does: doesProfile},
	{
		Name: "list", Run: runMerchant,
		Takes: `[--json] [--config FILE]`,
		Does:  `list the merchants of the store and of the configuration, which wins`,
	},
	{
		Name: "remove", Run: runMerchant,
		Takes: `--name NAME [--json] [--config FILE]`,
		Does:  `remove a merchant from the store; its API keys stay good`,
	},
	{
		Name: "export", Run: exportMerchants,
		Takes: `[--format json|csv] [--config FILE] [FILE]`,
		Does:  `write the settings of all merchants of the store, for "threeds merchant import"`,
	},
	{
		Name: "import", Run: importMerchants,
		Takes: `[--format json|csv] [--dry-run] [--json] [--config FILE] FILE`,
		Does: `add and change merchants of the store as a file says, all of them or none (- is standard input); other
			merchants stay`,
	},
	{
		Name: "disable", Run: runMerchantSwitch,
		Takes: `--reason TEXT [--json] [--config FILE] NAME`,
		Does: `have all nodes refuse what the API keys of a merchant would begin, within a second; results of what is
			under way are handed out`,
	},
	{
		Name: "enable", Run: runMerchantSwitch,
		Takes: `[--json] [--config FILE] NAME`,
		Does:  `serve a merchant again that was disabled`,
	},
}

// runMerchant adds, changes, lists and removes merchants of the store, while a server runs or before there is one.
func runMerchant(ctx context.Context, cmd *cmdline.Invocation) error {
	name := cmd.Word()
	c := &merchantCommand{Invocation: cmd}
	c.asJSON, c.file = cmd.JSONFlag(), cmd.ConfigFlag()
	if name != "list" {
		cmd.StringVar(&c.name, "name", "", "the merchant's name, as that of its API keys")
	}
	do := map[string]func(context.Context) error{"list": c.list, "remove": c.remove, "add": c.add, "set": c.set}[name]
	if name == "add" || name == "set" {
		c.addProfileFlags()
	}
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	if name != "list" && c.name == "" {
		return cmdline.Usagef("%s: --name NAME is missing", cmd.Name())
	}
	if name == "set" && len(c.changes) == 0 {
		return cmdline.Usagef("%s: no setting is given (\"threeds merchant set --help\" names them)", cmd.Name())
	}
	return local.WithActs(ctx, *c.file, func(acts *ops.Acts, by operator.Actor) error {
		c.acts, c.by = acts, by
		return c.explain(do(ctx))
	})
}

// runMerchantSwitch disables and enables merchants, while a server runs or before there is one.
func runMerchantSwitch(ctx context.Context, cmd *cmdline.Invocation) error {
	c := &merchantCommand{Invocation: cmd}
	c.asJSON, c.file = cmd.JSONFlag(), cmd.ConfigFlag()
	reason := ""
	isDisable := cmd.Word() == "disable"
	if isDisable {
		cmd.StringVar(&reason, "reason", "", "why, for the audit trail and the operators; the merchant does not see it")
	}
	rest, err := cmd.ReadExactly(1, "NAME is missing")
	if err != nil {
		return err
	}
	if isDisable && reason == "" {
		return cmdline.Usagef("%s: --reason TEXT is missing", cmd.Name())
	}
	c.name = rest[0]
	return local.WithKeys(ctx, *c.file, func(conf *config.Config, st store.Store, ring *keyring.Ring) error {
		c.acts, c.by = local.NewActs(conf, st, ring), local.Actor()
		c.acts.Hooks = server.NewWebhooks(ctx, conf, st, ring, obs.NewLogger(cmd.Stderr, slog.LevelWarn))
		if isDisable {
			e, err := c.acts.DisableMerchant(ctx, c.by, c.name, reason)
			if err != nil {
				return c.explain(err)
			}
			return c.PrintResult(*c.asJSON, e, "disabled merchant %q: all nodes refuse its requests within a second", e.Name)
		}
		done, err := ops.Find("merchant enable").Do(c.acts, ctx, c.by, c.name)
		if err != nil {
			return c.explain(err)
		}
		return c.PrintResult(*c.asJSON, done, "enabled merchant %q: all nodes serve it within a second", c.name)
	})
}

// A merchantCommand is one command for merchants.
type merchantCommand struct {
	*cmdline.Invocation
	acts    *ops.Acts
	by      operator.Actor
	name    string
	file    *string
	asJSON  *bool
	changes []func(*account.Merchant) // what the flags change of a profile
}

// addProfileFlags adds the flags of a profile, which are named like the keys of the configuration. An empty value
// removes a setting.
func (c *merchantCommand) addProfileFlags() {
	text := func(name, usage string, field func(*account.Merchant) *string) {
		c.Func(name, usage, func(value string) error {
			c.changes = append(c.changes, func(m *account.Merchant) { *field(m) = value })
			return nil
		})
	}
	isSet := func(name, usage string, field func(*account.Merchant) *bool) {
		c.BoolFunc(name, usage, func(value string) error {
			is, err := strconv.ParseBool(value)
			if err != nil {
				return errors.New("want true or false")
			}
			c.changes = append(c.changes, func(m *account.Merchant) { *field(m) = is })
			return nil
		})
	}
	text("group", "the group that the merchant belongs to", func(m *account.Merchant) *string { return &m.Group })
	text("merchant-name", "merchantName", func(m *account.Merchant) *string { return &m.MerchantName })
	text("mcc", "merchant category code", func(m *account.Merchant) *string { return &m.MCC })
	text("merchant-country", "three digits of ISO 3166-1", func(m *account.Merchant) *string { return &m.MerchantCountry })
	text("requestor-url", "threeDSRequestorURL", func(m *account.Merchant) *string { return &m.RequestorURL })
	text("requestor-id", "threeDSRequestorID", func(m *account.Merchant) *string { return &m.RequestorID })
	text("requestor-name", "threeDSRequestorName", func(m *account.Merchant) *string { return &m.RequestorName })
	text("acquirer-country", "acquirerCountryCode", func(m *account.Merchant) *string { return &m.AcquirerCountry })
	text("scheme-rules", "`off|warn|enforce`", func(m *account.Merchant) *string { return &m.SchemeRules })
	text("page-colour", "#rrggbb", func(m *account.Merchant) *string { return &m.Page.Colour })
	text("page-accent", "#rrggbb", func(m *account.Merchant) *string { return &m.Page.Accent })
	isSet("bridging", "have requests of 2.3.1 go to cards of 2.2.0",
		func(m *account.Merchant) *bool { return &m.Bridging })
	isSet("transliterate", "write names and addresses in ASCII where need be",
		func(m *account.Merchant) *bool { return &m.Transliterate })
	c.addLimitFlags()
	c.addOriginsFlag()
	c.Func("page-logo", "`FILE` with the logo, a PNG or an SVG", func(file string) error {
		logo, err := readLogo(file)
		c.changes = append(c.changes, func(m *account.Merchant) { m.Page.Logo = logo })
		return err
	})
	c.Func("per-directory", "SCHEME.KEY=VALUE, such as visa.acquirer_bin=400551; may be repeated",
		func(value string) error {
			change, err := parsePerDirectory(value)
			c.changes = append(c.changes, change)
			return err
		})
}

// addLimitFlags adds the flags of the limits of a merchant.
func (c *merchantCommand) addLimitFlags() {
	c.Func("rate", "requests that begin or continue authentications, such as 20/s", func(value string) error {
		var rate account.Rate
		err := rate.UnmarshalText([]byte(value))
		c.changes = append(c.changes, func(m *account.Merchant) { m.Rate = rate })
		return err
	})
	c.Func("in-flight", "how many such requests may be in work together", func(value string) error {
		n := 0
		if value != "" {
			var err error
			if n, err = strconv.Atoi(value); err != nil || n < 1 {
				return errors.New("want a whole number from 1")
			}
		}
		c.changes = append(c.changes, func(m *account.Merchant) { m.InFlight = n })
		return nil
	})
}

// addOriginsFlag adds the flag for origins. All that are given take the place of those that were there.
func (c *merchantCommand) addOriginsFlag() {
	var origins []string
	isGiven := false
	c.Func("origins", "an origin of the merchant's pages; may be repeated", func(value string) error {
		if value != "" {
			origins = append(origins, value)
		}
		if !isGiven {
			isGiven = true
			c.changes = append(c.changes, func(m *account.Merchant) { m.Origins = origins })
		}
		return nil
	})
}

// readLogo reads the file of a logo. An empty name means no logo.
func readLogo(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, config.MaxLogo+1))
}

// parsePerDirectory returns what SCHEME.KEY=VALUE changes. When a directory has no value left, it is removed.
func parsePerDirectory(text string) (func(*account.Merchant), error) {
	path, value, hasValue := strings.Cut(text, "=")
	word, key, hasKey := strings.Cut(path, ".")
	key = strings.ReplaceAll(key, "-", "_")
	if !hasValue || !hasKey || word == "" {
		return nil, errors.New("want SCHEME.KEY=VALUE, such as visa.acquirer_bin=400551")
	}
	if names := merchant.DirectoryKeys(); !slices.Contains(names, key) {
		return nil, fmt.Errorf("unknown key %q%s (allowed: %s)", terminal.OneLine(key), hint.For(key, names...),
			strings.Join(names, ", "))
	}
	return func(m *account.Merchant) {
		_ = merchant.SetForDirectory(m, word, key, value) // the key is one of them
	}, nil
}

// change applies the flags to a profile.
func (c *merchantCommand) change(m *account.Merchant) error {
	for _, change := range c.changes {
		change(m)
	}
	return nil
}

func (c *merchantCommand) add(ctx context.Context) error {
	m := account.Merchant{Name: c.name}
	_ = c.change(&m) // it never fails
	e, err := c.acts.AddMerchant(ctx, c.by, m)
	return c.report(e, err, "added")
}

// maxSetTries is how often set is tried while others change the same merchant.
const maxSetTries = 5

// set changes what the flags name. If somebody else has changed the merchant meanwhile, both changes count.
func (c *merchantCommand) set(ctx context.Context) error {
	var err error
	for range maxSetTries {
		var was, e merchant.Entry
		if was, err = c.acts.Merchant(ctx, c.by, c.name); err != nil {
			return err
		}
		e, err = c.acts.ChangeMerchant(ctx, c.by, c.name, was.Version, c.change)
		if !errors.Is(err, merchant.ErrChanged) {
			return c.report(e, err, "changed")
		}
	}
	return err
}

// report says what was done.
func (c *merchantCommand) report(e merchant.Entry, err error, done string) error {
	if err != nil {
		return err
	}
	return c.PrintResult(*c.asJSON, e, "%s merchant %q: all nodes use it within a second", done, e.Name)
}

func (c *merchantCommand) remove(ctx context.Context) error {
	e, err := c.acts.Merchant(ctx, c.by, c.name)
	if err == nil {
		err = c.acts.RemoveMerchant(ctx, c.by, c.name, e.Version)
	}
	if err != nil {
		return err
	}
	keys, err := c.acts.Store.Keys(ctx)
	if err != nil {
		return err
	}
	keys = slices.DeleteFunc(keys, func(k store.Key) bool { return k.Merchant != c.name })
	rest := ""
	if len(keys) > 0 {
		rest = fmt.Sprintf("; its keys are good still, without settings (%s): \"threeds key revoke\" ends them",
			terminal.Count(len(keys), "API key"))
	}
	return c.PrintResult(*c.asJSON, map[string]any{"name": c.name, "removed": true, "keys": len(keys)},
		"removed merchant %q%s", c.name, rest)
}

func (c *merchantCommand) list(ctx context.Context) error {
	all, err := c.acts.ListMerchants(ctx, c.by)
	if err != nil {
		return err
	}
	if *c.asJSON {
		return terminal.WriteJSON(c.Stdout, all)
	}
	w := terminal.NewTable(c.Stdout, "SOURCE\tMCC\tCOUNTRY\tACQUIRER FOR\tGROUP\tMERCHANT")
	refused := 0
	for _, e := range all {
		source := string(e.Source)
		if e.IsRefused {
			source = "refused"
			refused++
		}
		var schemes []string
		for _, word := range slices.Sorted(maps.Keys(e.PerDirectory)) {
			if e.PerDirectory[word].AcquirerBIN != "" {
				schemes = append(schemes, word)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", source, cmp.Or(e.MCC, "-"), cmp.Or(e.MerchantCountry, "-"),
			cmp.Or(strings.Join(schemes, " "), "-"), cmp.Or(e.Group, "-"), terminal.OneLine(e.Name))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := c.printDisabled(all); err != nil || refused == 0 {
		return err
	}
	_, err = fmt.Fprintf(c.Stdout,
		"\n%s refused: the row in the store is not as it was sealed, and its settings are not used.\n"+
			"Either somebody has changed it, or the key file has not got the secret any more. Remove it, and add it again.\n",
		terminal.Count(refused, "merchant"))
	return err
}

// printDisabled prints a line for each merchant that is disabled.
func (c *merchantCommand) printDisabled(all []merchant.Entry) error {
	for _, e := range all {
		if e.Disabled == nil {
			continue
		}
		line := fmt.Sprintf("disabled: %q", e.Name)
		if d := e.Disabled; d.By != "" {
			line += fmt.Sprintf(" since %s by %s: %s", d.Since.Format(time.RFC3339), terminal.OneLine(d.By),
				terminal.OneLine(d.Reason))
		}
		if _, err := fmt.Fprintln(c.Stdout, line); err != nil {
			return err
		}
	}
	return nil
}

// explain returns an error of the registry in words for the command line.
func (c *merchantCommand) explain(err error) error {
	faults, isFaulty := errors.AsType[config.Faults](err)
	switch {
	case isFaulty:
		lines := make([]string, len(faults))
		for i, f := range faults {
			lines[i] = "merchant: " + f.String()
		}
		return errors.New(strings.Join(lines, "\n"))
	case errors.Is(err, merchant.ErrInFile):
		return fmt.Errorf("merchant %q is in the configuration (source: file), which wins: change it in %s", c.name, *c.file)
	case errors.Is(err, merchant.ErrNotFound):
		return fmt.Errorf("merchant: there is no merchant %q (\"threeds merchant list\" shows all)", c.name)
	case errors.Is(err, merchant.ErrExists):
		return fmt.Errorf("merchant: there is a merchant %q already (\"threeds merchant set\" changes it)", c.name)
	case errors.Is(err, merchant.ErrChanged), errors.Is(err, merchant.ErrRefused), errors.Is(err, merchant.ErrNoRow),
		errors.Is(err, merchant.ErrDisabled), errors.Is(err, merchant.ErrEnabled):
		return fmt.Errorf("merchant %q: %w", c.name, plainError(err))
	}
	return plainError(err)
}
