package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/protocol/outcome"
)

// runOutcomes prints what each answer of each scheme is worth today: which party is liable, and what to do.
func runOutcomes(_ context.Context, cmd *cmdline.Invocation) error {
	asJSON := cmd.Bool("json", false, "print JSON")
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	rows := outcome.Rows(time.Now())
	if *asJSON {
		enc := json.NewEncoder(cmd.Stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", " ")
		return enc.Encode(rows)
	}
	w := terminal.NewTable(cmd.Stdout, "SCHEME\tCATEGORY\tSTATUS\tECI\tRESULT\tSHIFTS\tACTION\tBECAUSE")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			r.Scheme, r.Category, r.TransStatus, cmp.Or(string(r.ECI), "other"), r.Result, r.Shifts, r.Action, r.Because)
	}
	return w.Flush()
}
