package main

import (
	"context"
	"flag"
	"net/url"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/edge/console"
	"github.com/openthreeds/threeds/internal/run/config"
)

// runHealth asks a server that runs whether it is ready, or only whether it is alive, and fails if not.
func runHealth(ctx context.Context, cmd *cmdline.Invocation) error {
	file := cmd.ConfigFlag()
	address := cmd.String("url", "",
		"where the console listens, such as http://127.0.0.1:8090, in place of the configuration")
	isLive := cmd.Bool("live", false, "ask for /livez: whether the process answers")
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	isFileGiven := false
	cmd.Visit(func(f *flag.Flag) { isFileGiven = isFileGiven || f.Name == "config" })
	if isFileGiven && *address != "" {
		return cmdline.Usagef("health: --config and --url exclude each other")
	}
	at, certificate, err := consoleURL(*file, *address)
	if err != nil {
		return err
	}
	path := "/readyz"
	if *isLive {
		path = "/livez"
	}
	return console.Ask(ctx, at.JoinPath(path), certificate, cmd.Stdout)
}

// consoleURL returns where /readyz of a server is: as an operator says it, or else by its configuration. certificate is
// the file of the certificate that answers there, "" if any is good that the machine trusts.
func consoleURL(file, given string) (at *url.URL, certificate string, err error) {
	if given != "" {
		u, err := url.Parse(given)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return nil, "", cmdline.Usagef("health: --url: not a URL of http or https, such as http://127.0.0.1:8090")
		}
		return u, "", nil
	}
	c, err := config.Read(file)
	if err != nil {
		return nil, "", err
	}
	return c.ConsoleURL()
}
