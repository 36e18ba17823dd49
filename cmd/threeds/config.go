package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/openthreeds/threeds/internal/config"
	"github.com/openthreeds/threeds/internal/server"
)

// runConfig runs the commands about the configuration file.
func runConfig(args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usageErrorf("config: no command (check)")
	}
	switch args[0] {
	case "-h", "-help", "--help":
		return helpRequest{"threeds config takes a command: check"}
	case "check":
		return configCheck(args[1:], stdout, stderr)
	}
	return usageErrorf("config: unknown command %q%s", args[0], config.Hint(args[0], "check"))
}

// configCheck says of a configuration what serve would say at its start.
func configCheck(args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("config check", flag.ContinueOnError)
	file := configFlag(fs)
	if _, err := parseFlags(fs, args, 0); err != nil {
		return err
	}
	if err := server.CheckConfig(server.Options{File: *file, Log: stderr, Release: releaseVersion()}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stdout, "%s: ok\n", *file)
	return err
}
