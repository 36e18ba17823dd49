package main

import (
	"context"
	"os"

	"github.com/openthreeds/threeds/internal/base/build"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/edge/docsite"
	"github.com/openthreeds/threeds/internal/edge/mcp"
)

// These variables of the environment let an assistant see records.
const (
	adminURLVariable   = "THREEDS_ADMIN_URL"
	adminTokenVariable = "THREEDS_ADMIN_TOKEN"
)

// runMCP answers an assistant over standard input and output, until the input ends.
func runMCP(ctx context.Context, cmd *cmdline.Invocation) error {
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	site, err := docsite.New()
	if err != nil {
		return err
	}
	server := &mcp.Server{Version: build.Release(version), Site: site}
	if address, token := os.Getenv(adminURLVariable), os.Getenv(adminTokenVariable); address != "" || token != "" {
		if server.Admin, err = mcp.NewAdmin(address, token); err != nil {
			return cmdline.Usagef("mcp: %s and %s: %v", adminURLVariable, adminTokenVariable, err)
		}
	}
	return server.Serve(ctx, cmd.Stdin, cmd.Stdout)
}
