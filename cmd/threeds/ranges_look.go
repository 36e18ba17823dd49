package main

import (
	"context"
	"io"
	"strings"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/rangequery"
	"github.com/openthreeds/threeds/internal/run/local"
)

func rangesLookup(ctx context.Context, cmd *cmdline.Invocation) error {
	for _, arg := range cmd.Words { // no complaint may quote a card number
		if name := strings.TrimLeft(arg, "-"); name != arg && name != "" && isDigits(name) {
			return cmdline.Usagef("ranges lookup: a number has no sign")
		}
	}
	only := cmd.String("scheme", "", "look in this scheme alone")
	asJSON := cmd.JSONFlag()
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadArgs(len(cmd.Words))
	if err != nil {
		return err
	}
	prefix, err := readPrefix(rest, cmd.Stdin)
	if err != nil {
		return err
	}
	return local.WithRanges(ctx, *file, func(s *local.Ranges) error {
		if *only != "" {
			if _, err := s.Directory(*only); err != nil {
				return err
			}
		}
		all := []*rangequery.Match{}
		for _, d := range s.Directories {
			if *only != "" && d.Scheme != *only {
				continue
			}
			g, number, err := s.InUse(ctx, d.Scheme, cmd.Stderr)
			if err != nil {
				return err
			}
			all = append(all, rangequery.Find(d.Scheme, number, g, prefix))
		}
		if *asJSON {
			return terminal.WriteJSON(cmd.Stdout, struct {
				Digits  string              `json:"digits"`
				Card    bool                `json:"card"` // a whole card number was looked up
				Schemes []*rangequery.Match `json:"schemes"`
			}{cardnumber.MaskDigits(prefix), rangequery.IsCard(prefix), all})
		}
		_, err := io.WriteString(cmd.Stdout, rangequery.DescribeMatches(prefix, all))
		return err
	})
}

// readPrefix takes the digits from the arguments, or from standard input, where
// no shell remembers them.
func readPrefix(args []string, stdin io.Reader) (string, error) {
	switch len(args) {
	case 0:
		return "", cmdline.Usagef("ranges lookup: PREFIX is missing (- is standard input)")
	case 1:
	default:
		return "", cmdline.Usagef("ranges lookup: more than one PREFIX (digits only, without spaces)")
	}
	prefix := args[0]
	if prefix == "-" {
		var err error
		if prefix, err = cmdline.ReadLine(stdin); err != nil {
			return "", err
		}
	}
	if prefix == "" || len(prefix) > 19 || !isDigits(prefix) {
		return "", cmdline.Usagef("ranges lookup: PREFIX has to be 1 to 19 digits")
	}
	return prefix, nil
}

func rangesDiff(ctx context.Context, cmd *cmdline.Invocation) error {
	scheme := cmd.String("scheme", "", "the scheme; needed unless there is only one")
	asJSON := cmd.JSONFlag()
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadArgs(2)
	if err != nil {
		return err
	}
	if len(rest) < 2 {
		return cmdline.Usagef("ranges diff: OLD and NEW are missing: numbers of generations, or %q", directory.HeldName)
	}
	for _, word := range rest {
		if err := local.CheckGeneration(word); err != nil {
			return cmdline.Usagef("ranges diff: %v", err)
		}
	}
	return local.WithRanges(ctx, *file, func(s *local.Ranges) error {
		if *scheme == "" {
			if len(s.Directories) > 1 {
				return cmdline.Usagef("ranges diff: --scheme SCHEME is missing: generations are numbered in each scheme")
			}
			*scheme = s.Directories[0].Scheme
		}
		if _, err := s.Directory(*scheme); err != nil {
			return err
		}
		old, err := s.Generation(ctx, *scheme, rest[0])
		if err != nil {
			return err
		}
		now, err := s.Generation(ctx, *scheme, rest[1])
		if err != nil {
			return err
		}
		d := rangequery.Compare(*scheme, rest[0], rest[1], old, now)
		if *asJSON {
			return terminal.WriteJSON(cmd.Stdout, d)
		}
		_, err = io.WriteString(cmd.Stdout, d.Describe())
		return err
	})
}
