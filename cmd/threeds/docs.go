package main

import (
	"context"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/edge/docsite"
)

// docsListen is the default address of the documentation.
const docsListen = "127.0.0.1:8070"

// runDocs serves the documentation on this machine, or writes it into a folder.
func runDocs(ctx context.Context, cmd *cmdline.Invocation) error {
	listen := cmd.String("listen", docsListen, "`HOST:PORT` of the pages, port 0 for any free one")
	rest, err := cmd.ReadArgs(2)
	if err != nil {
		return err
	}
	site, err := docsite.New()
	switch {
	case err != nil:
		return err
	case len(rest) == 0:
		return site.Serve(ctx, *listen, cmd.Stdout)
	case rest[0] != "export" || len(rest) < 2:
		return cmdline.Usagef("docs: want nothing, or export DIR")
	}
	return site.Export(rest[1])
}
