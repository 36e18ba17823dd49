package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/local"
	"github.com/openthreeds/threeds/internal/state/account"
)

// maxMerchantFile is the size of the largest file that is imported, in bytes.
const maxMerchantFile = 64 << 20

// formatFlag adds the flag for the format of a file with merchants.
func formatFlag(cmd *cmdline.Invocation) *merchant.Format {
	var format merchant.Format
	cmd.Func("format", "`json|csv`; unless given, as the name of the file ends, else json", func(text string) (err error) {
		format, err = merchant.ParseFormat(text)
		return err
	})
	return &format
}

// formatOf returns the format that was given, or that of a file by its name.
func formatOf(given merchant.Format, args []string) merchant.Format {
	switch {
	case given != "":
		return given
	case len(args) > 0 && strings.HasSuffix(args[0], ".csv"):
		return merchant.CSV
	}
	return merchant.JSON
}

// exportMerchants writes the merchants of the store.
func exportMerchants(ctx context.Context, cmd *cmdline.Invocation) error {
	format, file := formatFlag(cmd), cmd.ConfigFlag()
	rest, err := cmd.ReadArgs(1)
	if err != nil {
		return err
	}
	return local.WithActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		all, left, err := acts.ExportMerchants(ctx, by)
		if err != nil {
			return err
		}
		err = cmdline.WriteNewFile(rest, cmd.Stdout, func(w io.Writer) error {
			return merchant.Write(w, formatOf(*format, rest), all)
		})
		if err == nil && left > 0 {
			fmt.Fprintf(cmd.Stderr, "threeds: %s not exported: in the configuration, or refused\n",
				terminal.Count(left, "merchant"))
		}
		return err
	})
}

// importMerchants adds and changes merchants as a file says.
func importMerchants(ctx context.Context, cmd *cmdline.Invocation) error {
	format := formatFlag(cmd)
	isDry := cmd.Bool("dry-run", false, "say what would be done, and change nothing")
	asJSON, file := cmd.JSONFlag(), cmd.ConfigFlag()
	rest, err := cmd.ReadExactly(1, "FILE is missing (- is standard input)")
	if err != nil {
		return err
	}
	data, err := cmdline.ReadInput(rest[0], cmd.Stdin, maxMerchantFile+1)
	if err != nil {
		return err
	}
	if len(data) > maxMerchantFile {
		return fmt.Errorf("merchant import: the file has more than %d MiB", maxMerchantFile>>20)
	}
	entries, faults := merchant.Read(data, formatOf(*format, rest))
	return local.WithActs(ctx, *file, func(acts *ops.Acts, by operator.Actor) error {
		wanted := make([]account.Merchant, len(entries))
		for i := range entries {
			wanted[i] = entries[i].Merchant
		}
		done, wrong, err := acts.ImportMerchants(ctx, by, wanted, *isDry || len(faults) > 0)
		if err != nil {
			return plainError(err)
		}
		for _, w := range wrong {
			faults = append(faults, faultsOfImport(entries[w.Index].Line, w.Err)...)
		}
		if len(faults) > 0 {
			return importError(rest[0], faults)
		}
		did := ""
		if *isDry {
			did = "nothing was changed; it would be: "
		}
		return cmd.PrintResult(*asJSON, done, "%s%s added, %d changed, %d as they were", did,
			terminal.Count(done.Added, "merchant"), done.Changed, done.Unchanged)
	})
}

// faultsOfImport returns what is wrong with the merchant on a line.
func faultsOfImport(line int, err error) (all []merchant.FileFault) {
	faults, isFaulty := errors.AsType[config.Faults](err)
	if !isFaulty {
		return []merchant.FileFault{{Line: line, Text: err.Error()}}
	}
	for _, f := range faults {
		all = append(all, merchant.FileFault{Line: line, Key: f.Key, Text: f.Text})
	}
	return all
}

// importError returns an error that names each fault by its line.
func importError(file string, faults []merchant.FileFault) error {
	slices.SortStableFunc(faults, func(a, b merchant.FileFault) int { return a.Line - b.Line })
	lines := make([]string, 0, len(faults)+1)
	for _, f := range faults {
		text := f.Text
		if f.Key != "" {
			text = terminal.OneLine(f.Key) + ": " + text
		}
		line := fmt.Sprintf("%s:%d: %s", file, f.Line, text)
		if !slices.Contains(lines, line) { // the form and the value may be wrong for the same reason
			lines = append(lines, line)
		}
	}
	return errors.New(strings.Join(append(lines, "nothing was changed"), "\n"))
}
