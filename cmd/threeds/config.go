package main

import (
	"context"
	"fmt"

	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/run/server"
)

// runConfig runs the commands about the configuration file.
func runConfig(ctx context.Context, cmd *invocation) error {
	if len(cmd.args) == 0 {
		return usageErrorf("config: no command (check)")
	}
	switch cmd.args[0] {
	case "-h", "-help", "--help":
		return helpRequest{"threeds config takes a command: check"}
	case "check":
		return configCheck(ctx, cmd.inner())
	}
	return usageErrorf("config: unknown command %q%s", cmd.args[0], hint.For(cmd.args[0], "check"))
}

// configCheck says of a configuration what serve would say at its start.
func configCheck(_ context.Context, cmd *invocation) error {
	file := cmd.configFlag()
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	warnings, err := server.CheckConfig(*file, releaseVersion())
	for _, w := range warnings {
		fmt.Fprintf(cmd.stderr, "threeds: warning: %s\n", w)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.stdout, "%s: ok\n", *file)
	return err
}
