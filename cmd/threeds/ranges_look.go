package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/openthreeds/threeds/internal/ranges"
)

const (
	mostFound   = 20 // ranges of a scheme that lookup shows
	mostChanges = 50 // changes that diff shows
)

// schemeMatch is what lookup finds in one scheme.
type schemeMatch struct {
	Scheme     string       `json:"scheme"`
	Generation int64        `json:"generation"` // 0: the scheme has no ranges
	Count      int          `json:"count"`
	Ranges     []shownRange `json:"ranges"`

	used  *ranges.Generation
	infos []*ranges.Info // of Ranges
}

func rangesLookup(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	for _, arg := range args { // no complaint may quote a card number
		if name := strings.TrimLeft(arg, "-"); name != arg && name != "" && isDigits(name) {
			return usageErrorf("ranges lookup: a number has no sign")
		}
	}
	fs := flag.NewFlagSet("ranges lookup", flag.ContinueOnError)
	only := fs.String("scheme", "", "look in this scheme alone")
	asJSON := jsonFlag(fs)
	file := configFlag(fs)
	rest, err := parseFlags(fs, args, len(args))
	if err != nil {
		return err
	}
	prefix, err := readPrefix(rest, stdin)
	if err != nil {
		return err
	}
	return withRanges(ctx, *file, func(s *rangeStore) error {
		if *only != "" {
			if _, err := s.directory(*only); err != nil {
				return err
			}
		}
		all := []*schemeMatch{}
		for _, d := range s.Directories {
			if *only != "" && d.Scheme != *only {
				continue
			}
			g, number, err := s.inUse(ctx, d.Scheme, stderr)
			if err != nil {
				return err
			}
			all = append(all, matchPrefix(d.Scheme, number, g, prefix))
		}
		if *asJSON {
			return writeJSON(stdout, struct {
				Digits  string         `json:"digits"`
				Card    bool           `json:"card"` // a whole card number was looked up
				Schemes []*schemeMatch `json:"schemes"`
			}{maskDigits(prefix), isCard(prefix), all})
		}
		_, err := io.WriteString(stdout, describeMatches(prefix, all))
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

// isCard reports whether so many digits are a card number, not the beginning of
// one.
func isCard(digits string) bool { return len(digits) >= 13 }

// matchPrefix looks in one generation: for the narrowest range that holds a card
// number, or for all that hold one with the prefix.
func matchPrefix(scheme string, number int64, g *ranges.Generation, prefix string) *schemeMatch {
	f := &schemeMatch{Scheme: scheme, Generation: number, Ranges: []shownRange{}, used: g}
	if g == nil {
		return f
	}
	if isCard(prefix) {
		info := g.Table.Lookup(prefix)
		if info == nil {
			return f
		}
		var narrowest ranges.Range
		for r := range g.Table.Prefixed(prefix) {
			if r.Digits <= len(prefix) {
				narrowest = r // those with longer bounds, and those within another, come later
			}
		}
		start, end := boundsAround(narrowest, prefix)
		f.add(start, end, info)
		return f
	}
	for r, info := range g.Table.Prefixed(prefix) {
		if f.Count < mostFound {
			start, end := bounds(r)
			f.add(start, end, info)
		} else {
			f.Count++
		}
	}
	return f
}

func (f *schemeMatch) add(start, end string, info *ranges.Info) {
	f.Count++
	f.Ranges = append(f.Ranges, shownRange{start, end, showInfo(info)})
	f.infos = append(f.infos, info)
}

func describeMatches(prefix string, all []*schemeMatch) string {
	var b strings.Builder
	for _, f := range all {
		switch {
		case f.Generation == 0:
			fmt.Fprintf(&b, "%s: no card ranges yet\n", f.Scheme)
		case f.Count == 0 && isCard(prefix):
			fmt.Fprintf(&b, "%s: %s is in no range of %d\n", f.Scheme, maskDigits(prefix), f.used.Len())
		case isCard(prefix):
			fmt.Fprintf(&b, "%s: %s is in a range of %d\n", f.Scheme, maskDigits(prefix), f.used.Len())
		default:
			fmt.Fprintf(&b, "%s: %d of %d ranges hold cards that begin with %s\n", f.Scheme, f.Count, f.used.Len(), prefix)
		}
		for i, r := range f.Ranges {
			writeLines(&b, "    ", r.Start+"-"+r.End)
			writeLines(&b, "        ", describeInfo(f.infos[i])...)
			if urls := dsURLs(f.used, r.Country); urls != "" {
				writeLines(&b, "        ", "reached at "+urls)
			}
		}
		if left := f.Count - len(f.Ranges); left > 0 {
			fmt.Fprintf(&b, "    … and %d more\n", left)
		}
	}
	return b.String()
}

// difference is what diff finds.
type difference struct {
	Scheme  string        `json:"scheme"`
	Old     string        `json:"old"`
	New     string        `json:"new"`
	Added   int           `json:"added"`
	Removed int           `json:"removed"`
	Changed int           `json:"changed"`
	First   []shownChange `json:"first"` // of all of them, in the order of the ranges
}

type shownChange struct {
	Change string     `json:"change"` // added, removed or changed
	Start  string     `json:"start"`
	End    string     `json:"end"`
	Old    *shownInfo `json:"old,omitempty"`
	New    *shownInfo `json:"new,omitempty"`

	line string
}

func rangesDiff(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("ranges diff", flag.ContinueOnError)
	scheme := fs.String("scheme", "", "the scheme; needed unless there is only one")
	asJSON := jsonFlag(fs)
	file := configFlag(fs)
	rest, err := parseFlags(fs, args, 2)
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
		d := difference{Scheme: *scheme, Old: rest[0], New: rest[1], First: []shownChange{}}
		for c := range ranges.Diff(old.Table, now.Table) {
			d.addChange(c)
		}
		if *asJSON {
			return writeJSON(stdout, d)
		}
		_, err = io.WriteString(stdout, d.String())
		return err
	})
}

// count counts a change, and keeps it while there is room.
func (d *difference) addChange(c ranges.Change) {
	start, end := bounds(c.Range)
	shown := shownChange{Start: start, End: end, Old: showInfo(c.Old), New: showInfo(c.New)}
	room := len(d.First) < mostChanges
	switch {
	case c.Old == nil:
		d.Added++
		if room {
			shown.Change, shown.line = "added", "+ "+c.Range.String()+"  "+infoLine(c.New)
		}
	case c.New == nil:
		d.Removed++
		if room {
			shown.Change, shown.line = "removed", "- "+c.Range.String()+"  "+infoLine(c.Old)
		}
	default:
		d.Changed++
		if room {
			shown.Change, shown.line = "changed", "~ "+c.Range.String()+"  "+infoLine(c.Old)+"  ->  "+infoLine(c.New)
		}
	}
	if room {
		d.First = append(d.First, shown)
	}
}

func (d *difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s to %s: %d added, %d removed, %d changed\n", d.Scheme, d.Old, d.New, d.Added, d.Removed, d.Changed)
	for _, c := range d.First {
		writeLines(&b, "", c.line)
	}
	if left := d.Added + d.Removed + d.Changed - len(d.First); left > 0 {
		fmt.Fprintf(&b, "… and %d more\n", left)
	}
	return b.String()
}
