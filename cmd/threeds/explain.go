package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
)

// runExplain prints what /auth would make of a body, without a server: with the same function, but without card ranges
// and the profile of a merchant.
func runExplain(_ context.Context, cmd *cmdline.Invocation) error {
	of := cmd.String("scheme", "", "the card scheme whose directory server the AReq would go to")
	asOf := cmd.String("as-of", "", "the day whose rules of the scheme count, such as 2026-11-25")
	asJSON := cmd.Bool("json", false, "print what POST /explain answers")
	rest, err := cmd.ReadArgs(1)
	if err != nil {
		return err
	}
	if known := scheme.Names(); *of != "" && !slices.Contains(known, *of) {
		return cmdline.Usagef("explain: no scheme %q%s", *of, hint.For(*of, known...))
	}
	var day time.Time
	if *asOf != "" {
		if day, err = time.Parse(time.DateOnly, *asOf); err != nil {
			return cmdline.Usagef("explain: --as-of %q is no date such as 2026-11-25", *asOf)
		}
	}
	name, data, err := readCheckFile("explain", rest, cmd.Stdin)
	if err != nil {
		return err
	}
	x, err := auth.ExplainText(data, check.ExplainOptions{Scheme: *of, AsOf: day, AllowMaskedCard: true})
	if err != nil {
		return unreadableError{fmt.Errorf("%s: %w", name, err)}
	}
	if *asJSON {
		enc := json.NewEncoder(cmd.Stdout)
		enc.SetEscapeHTML(false)
		err = enc.Encode(api.NewExplanation(x))
	} else {
		err = printExplanation(name, x, cmd.Stdout, cmd.Stderr)
	}
	if err != nil || x.IsValid {
		return err
	}
	return fmt.Errorf("%s: %s", name, terminal.Count(len(x.Faults), "fault"))
}

// printExplanation prints an explanation for people: what is sent on stdout, and all findings on stderr.
func printExplanation(name string, x *check.Explanation, stdout, stderr io.Writer) error {
	var out bytes.Buffer
	if x.AReq != nil {
		if err := json.Indent(&out, x.AReq, "", "  "); err != nil {
			return err
		}
		out.WriteByte('\n')
	}
	for _, n := range x.Normalised {
		fmt.Fprintf(&out, "corrected by /auth: %s: %s\n", n.Pointer, n.Rule)
	}
	if _, err := stdout.Write(out.Bytes()); err != nil {
		return err
	}
	for _, f := range x.Faults {
		fmt.Fprintf(stderr, "%s: %s: %s %s: %s\n", name, strings.TrimPrefix(*f.Pointer, "/"), f.Code, f.Rule, f.Cure)
	}
	for _, f := range x.Findings {
		fmt.Fprintf(stderr, "%s: %s: %s\n", name, x.Scheme, f.Text)
	}
	for _, w := range x.Warnings {
		fmt.Fprintf(stderr, "%s: warning: %s\n", name, w.Text)
	}
	return nil
}
