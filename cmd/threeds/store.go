package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/store"
)

// storeCommands are those about the store as a whole.
var storeCommands = []cmdline.Command{{
	Name: "status", Run: storeStatus,
	Takes: `[--json] [--config FILE]`,
	Does: `say what the store is, which of its servers answer, and which tables and shards each has, with sizes and
		estimated rows`,
}}

// storeStatus says what the store is, and which of its servers has what.
func storeStatus(ctx context.Context, cmd *cmdline.Invocation) (err error) {
	asJSON := cmd.JSONFlag()
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	c, err := config.Read(*file)
	if err != nil {
		return err
	}
	if dir := c.Store.URL.Dir; dir != "" {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no store yet in %s; the first start makes it", dir)
		}
	}
	st, err := server.OpenStore(ctx, c.Store.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	layout, err := st.(store.Surveyor).Layout(ctx)
	if err != nil {
		return err
	}
	if *asJSON {
		return terminal.WriteJSON(cmd.Stdout, layout)
	}
	return writeLayout(cmd.Stdout, &layout)
}

// writeLayout writes two tables: the servers, and the tables with what each server has of them.
func writeLayout(stdout io.Writer, l *store.Layout) error {
	fmt.Fprintf(stdout, "engine %s (%s)\n\n", l.Engine, l.Version)
	nodes := terminal.NewTable(stdout, "SERVER\tROLE\tANSWERS\tSHARDS\tSIZE")
	for _, n := range l.Nodes {
		answers := "yes"
		if !n.IsUp {
			answers = "no"
		}
		fmt.Fprintf(nodes, "%s\t%s\t%s\t%d\t%s\n", n.Name, n.Role, answers, n.Shards, terminal.Bytes(n.Bytes))
	}
	if err := nodes.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(stdout)
	tables := terminal.NewTable(stdout, "TABLE\tKIND\tSERVER\tSHARDS\tROWS\tSIZE")
	for _, t := range l.Tables {
		kind := t.Kind
		if t.Key != "" {
			kind += " by " + t.Key
		}
		for _, p := range t.Places {
			shards, rows := "-", "-"
			if t.Shards > 0 {
				shards = fmt.Sprintf("%d of %d", p.Shards, t.Shards)
			}
			if p.Rows != nil {
				rows = strconv.FormatInt(*p.Rows, 10)
			}
			fmt.Fprintf(tables, "%s\t%s\t%s\t%s\t%s\t%s\n", t.Name, kind, p.Node, shards, rows, terminal.Bytes(p.Bytes))
		}
	}
	return tables.Flush()
}
