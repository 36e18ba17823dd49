package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/openthreeds/threeds/internal/outcome"
)

// runOutcomes prints what each answer of each scheme is worth today: who is liable, and what to do.
func runOutcomes(args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("outcomes", flag.ContinueOnError)
	asJSON := fs.Bool("json", false, "print JSON")
	if _, err := parseFlags(fs, args, 0); err != nil {
		return err
	}
	rows := outcome.Rows(time.Now())
	if *asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", " ")
		return enc.Encode(rows)
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SCHEME\tCATEGORY\tSTATUS\tECI\tRESULT\tSHIFTS\tACTION\tBECAUSE")
	for _, r := range rows {
		eci := "other"
		if r.ECI != nil {
			eci = *r.ECI
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			r.Scheme, r.Category, r.TransStatus, eci, r.Result, r.Shifts, r.Action, r.Because)
	}
	return w.Flush()
}
