package main

import (
	"context"
	"fmt"

	"github.com/openthreeds/threeds/internal/base/build"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/run/server"
)

// configCommands are about the configuration file.
var configCommands = []cmdline.Command{
	{
		Name: "check", Run: configCheck,
		Takes: `[--config FILE]`,
		Does:  `say what serve would say of the configuration and the files that it names, and start nothing`,
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
