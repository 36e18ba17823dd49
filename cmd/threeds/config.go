package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openthreeds/threeds/internal/base/build"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/engine/verdict"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
)

// configCommands are about the configuration file.
var configCommands = []cmdline.Command{
	{
		Name: "check", Run: configCheck,
		Takes: `[--config FILE]`,
		Does:  `say what serve would say of the configuration and the files that it names, and start nothing`,
	},
	{
		Name: "show", Run: configShow,
		Takes: `[--json] [--config FILE] [FILE]`,
		Does: `list every key of a configuration with the value in force, and where it comes from: a line of the file,
		the store, or a default; of a secret it names only the file`,
	},
	{
		Name: "diff", Run: configDiff,
		Takes: `[--json] [--config FILE] [OLD] NEW`,
		Does: `list the keys whose values differ between two configurations (OLD is that of --config), and which of
		them need a restart; exit status 1 means that something differs, 2 that a file is wrong`,
	},
}

// configCheck says of a configuration what serve would say at its start.
func configCheck(_ context.Context, cmd *cmdline.Invocation) error {
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	warnings, err := server.CheckConfig(*file, build.Release(version))
	for _, w := range warnings {
		fmt.Fprintf(cmd.Stderr, "threeds: warning: %s\n", w)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.Stdout, "%s: ok\n", *file)
	return err
}

// configShow lists the keys of a configuration with their values.
func configShow(_ context.Context, cmd *cmdline.Invocation) error {
	asJSON := cmd.JSONFlag()
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadArgs(1)
	if err != nil {
		return err
	}
	name := *file
	if len(rest) > 0 {
		name = rest[0]
	}
	c, err := config.Read(name)
	if err != nil {
		return err
	}
	return terminal.WriteList(cmd.Stdout, *asJSON, c.Settings(), "KEY\tVALUE\tFROM", func(s config.Setting) string {
		value, from := cmp.Or(s.Value, "-"), string(s.Source)
		if s.SecretFile != "" {
			value = "set, in " + s.SecretFile
		}
		if s.Source == config.FromFile {
			from = fmt.Sprintf("%s:%d", name, s.Line)
		}
		return s.Key + "\t" + value + "\t" + from
	})
}

// configDiff lists what differs between two configurations.
func configDiff(_ context.Context, cmd *cmdline.Invocation) error {
	asJSON := cmd.JSONFlag()
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadArgs(2)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return cmdline.Usagef("config diff: NEW is missing")
	}
	former, name := *file, rest[len(rest)-1]
	if len(rest) == 2 {
		former = rest[0]
	}
	now := time.Now()
	before, _, errBefore := config.Load(former, now)
	after, _, errAfter := config.Load(name, now)
	if err := errors.Join(errBefore, errAfter); err != nil {
		return verdict.UnreadableError{Err: err}
	}
	changes := before.Diff(after)
	err = terminal.WriteList(cmd.Stdout, *asJSON, changes, "KEY\tBEFORE\tAFTER\tTAKES", func(ch config.Change) string {
		takes := "a reload"
		if ch.NeedsRestart {
			takes = "a restart"
		}
		return ch.Key + "\t" + cmp.Or(ch.Before, "-") + "\t" + cmp.Or(ch.After, "-") + "\t" + takes
	})
	if err != nil || len(changes) == 0 {
		return err
	}
	text := name + ": " + terminal.Count(len(changes), "change")
	for _, ch := range changes {
		if ch.NeedsRestart {
			return fmt.Errorf("%s; a running server refuses the file until it is restarted", text)
		}
	}
	return errors.New(text)
}
