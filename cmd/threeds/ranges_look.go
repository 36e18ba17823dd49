package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/openthreeds/threeds/internal/peers/rangequery"
)

func rangesLookup(ctx context.Context, cmd *invocation) error {
	for _, arg := range cmd.args { // no complaint may quote a card number
		if name := strings.TrimLeft(arg, "-"); name != arg && name != "" && isDigits(name) {
			return usageErrorf("ranges lookup: a number has no sign")
		}
	}
	only := cmd.String("scheme", "", "look in this scheme alone")
	asJSON := cmd.jsonFlag()
	file := cmd.configFlag()
	rest, err := cmd.parse(len(cmd.args))
	if err != nil {
		return err
	}
	prefix, err := readPrefix(rest, cmd.stdin)
	if err != nil {
		return err
	}
	return withRanges(ctx, *file, func(s *rangeStore) error {
		if *only != "" {
			if _, err := s.directory(*only); err != nil {
				return err
			}
		}
		all := []*rangequery.Match{}
		for _, d := range s.Directories {
			if *only != "" && d.Scheme != *only {
				continue
			}
			g, number, err := s.inUse(ctx, d.Scheme, cmd.stderr)
			if err != nil {
				return err
			}
			all = append(all, rangequery.Find(d.Scheme, number, g, prefix))
		}
		if *asJSON {
			return writeJSON(cmd.stdout, struct {
				Digits  string              `json:"digits"`
				Card    bool                `json:"card"` // a whole card number was looked up
				Schemes []*rangequery.Match `json:"schemes"`
			}{maskDigits(prefix), rangequery.IsCard(prefix), all})
		}
		_, err := io.WriteString(cmd.stdout, describeMatches(prefix, all))
		return err
	})
}

// readPrefix takes the digits from the arguments, or from standard input, where
// no shell remembers them.
func readPrefix(args []string, stdin io.Reader) (string, error) {
	switch len(args) {
	case 0:
		return "", usageErrorf("ranges lookup: PREFIX is missing (- is standard input)")
	case 1:
	default:
		return "", usageErrorf("ranges lookup: more than one PREFIX (digits only, without spaces)")
	}
	prefix := args[0]
	if prefix == "-" {
		var err error
		if prefix, err = readLine(stdin); err != nil {
			return "", err
		}
	}
	if prefix == "" || len(prefix) > 19 || !isDigits(prefix) {
		return "", usageErrorf("ranges lookup: PREFIX has to be 1 to 19 digits")
	}
	return prefix, nil
}

func describeMatches(prefix string, all []*rangequery.Match) string {
	var b strings.Builder
	for _, f := range all {
		switch {
		case f.Generation == 0:
			fmt.Fprintf(&b, "%s: no card ranges yet\n", f.Scheme)
		case f.Count == 0 && rangequery.IsCard(prefix):
			fmt.Fprintf(&b, "%s: %s is in no range of %d\n", f.Scheme, maskDigits(prefix), f.Used.Len())
		case rangequery.IsCard(prefix):
			fmt.Fprintf(&b, "%s: %s is in a range of %d\n", f.Scheme, maskDigits(prefix), f.Used.Len())
		default:
			fmt.Fprintf(&b, "%s: %d of %d ranges hold cards that begin with %s\n", f.Scheme, f.Count, f.Used.Len(), prefix)
		}
		for i, r := range f.Ranges {
			writeLines(&b, "    ", r.Start+"-"+r.End)
			writeLines(&b, "        ", rangequery.DescribeInfo(f.Infos[i])...)
			if urls := rangequery.DSURLs(f.Used, r.Country); urls != "" {
				writeLines(&b, "        ", "reached at "+urls)
			}
		}
		if left := f.Count - len(f.Ranges); left > 0 {
			fmt.Fprintf(&b, "    … and %d more\n", left)
		}
	}
	return b.String()
}

func rangesDiff(ctx context.Context, cmd *invocation) error {
	scheme := cmd.String("scheme", "", "the scheme; needed unless there is only one")
	asJSON := cmd.jsonFlag()
	file := cmd.configFlag()
	rest, err := cmd.parse(2)
	if err != nil {
		return err
	}
	if len(rest) < 2 {
		return usageErrorf("ranges diff: OLD and NEW are missing: numbers of generations, or %q", heldWord)
	}
	for _, word := range rest {
		if err := checkGenerationWord(word); err != nil {
			return usageErrorf("ranges diff: %v", err)
		}
	}
	return withRanges(ctx, *file, func(s *rangeStore) error {
		if *scheme == "" {
			if len(s.Directories) > 1 {
				return usageErrorf("ranges diff: --scheme SCHEME is missing: generations are numbered in each scheme")
			}
			*scheme = s.Directories[0].Scheme
		}
		if _, err := s.directory(*scheme); err != nil {
			return err
		}
		old, err := s.generation(ctx, *scheme, rest[0])
		if err != nil {
			return err
		}
		now, err := s.generation(ctx, *scheme, rest[1])
		if err != nil {
			return err
		}
		d := rangequery.Compare(*scheme, rest[0], rest[1], old, now)
		if *asJSON {
			return writeJSON(cmd.stdout, d)
		}
		_, err = io.WriteString(cmd.stdout, describeDifference(d))
		return err
	})
}

// describeDifference says in lines what differs.
func describeDifference(d *rangequery.Difference) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s to %s: %d added, %d removed, %d changed\n", d.Scheme, d.Old, d.New, d.Added, d.Removed, d.Changed)
	for _, c := range d.First {
		writeLines(&b, "", c.Line)
	}
	if left := d.Added + d.Removed + d.Changed - len(d.First); left > 0 {
		fmt.Fprintf(&b, "… and %d more\n", left)
	}
	return b.String()
}

// writeLines writes lines with the same indent.
func writeLines(b *strings.Builder, indent string, lines ...string) {
	for _, line := range lines {
		fmt.Fprintf(b, "%s%s\n", indent, line)
	}
}
