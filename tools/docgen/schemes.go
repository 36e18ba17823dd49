package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/protocol/scheme"
)

const (
	schemesStart = "<!-- schemes: generated from internal/protocol/scheme/profiles.txt -->\n"
	schemesEnd   = "<!-- end of schemes -->\n"
	glanceStart  = "<!-- glance: generated from internal/protocol/scheme/profiles.txt -->\n"
	glanceEnd    = "<!-- end of glance -->\n"

	// releasedFile has the statements of the last release, to tell what has changed since.
	releasedFile = "internal/protocol/scheme/released.txt"
	releasedWord = "release "
)

// schemePage is docs/schemes.md with fresh tables between its marks.
func schemePage(root string) ([]byte, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs/schemes.md"))
	if err != nil {
		return nil, err
	}
	released, err := os.ReadFile(filepath.Join(root, releasedFile))
	if err != nil {
		return nil, err
	}
	changes, err := schemeChanges(string(released), scheme.Profiles())
	if err != nil {
		return nil, err
	}
	profiles := scheme.Profiles()
	if page, err = between(page, glanceStart, glanceEnd, glance(profiles)); err != nil {
		return nil, err
	}
	return between(page, schemesStart, schemesEnd, changes+schemeTables(profiles)+sourceTable(profiles))
}

// writeReleased writes the statements of a release, from which the page tells what changes after it.
func writeReleased(root, release string) error {
	text := "# What the last release states of card schemes. docs/schemes.md shows what has changed since.\n" +
		"# go run ./tools/docgen . RELEASE writes this file on the day of a release.\n" + releasedWord + release + "\n"
	for _, statement := range statements(scheme.Profiles()) {
		text += statement + "\n"
	}
	return os.WriteFile(filepath.Join(root, releasedFile), []byte(text), 0o644)
}

// statements returns what profiles state, each with its scheme in front.
func statements(profiles []scheme.Profile) []string {
	var all []string
	for _, p := range profiles {
		for i := range p.Facts {
			all = append(all, p.Scheme+" "+p.Facts[i].Statement())
		}
	}
	return all
}

// schemeChanges has what profiles state and the last release did not, and the other way round.
func schemeChanges(released string, profiles []scheme.Profile) (string, error) {
	var release string
	var before []string
	for line := range strings.Lines(released) {
		line = strings.TrimSpace(line)
		switch name, isName := strings.CutPrefix(line, releasedWord); {
		case line == "" || line[0] == '#':
		case isName:
			release = name
		default:
			before = append(before, line)
		}
	}
	if release == "" {
		return "", errors.New(releasedFile + " has no line release NAME")
	}
	now := statements(profiles)
	var rows []string
	add := func(what string, of, not []string) {
		for _, statement := range of {
			if !slices.Contains(not, statement) {
				word, rest, _ := strings.Cut(statement, " ")
				rows = append(rows, fmt.Sprintf("| `%s` | %s | `%s` |", word, what, rest))
			}
		}
	}
	add("new", now, before)
	add("gone", before, now)
	order := func(row string) int {
		return slices.IndexFunc(profiles, func(p scheme.Profile) bool { return strings.HasPrefix(row, "| `"+p.Scheme+"` ") })
	}
	slices.SortStableFunc(rows, func(a, b string) int { return order(a) - order(b) })
	text := "## What has changed since " + release + "\n\n"
	if rows == nil {
		return text + "Nothing.\n\n", nil
	}
	return text + "| Scheme | | Line |\n| --- | --- | --- |\n" + strings.Join(rows, "\n") + "\n\n", nil
}

// glance has a row per scheme with the elements that it asks for, and names the schemes that no public source asks
// anything of.
func glance(profiles []scheme.Profile) string {
	const head = "| Scheme | Required in an AReq | Advised | Versions that have ended |"
	text := head + "\n" + divider(head)
	var silent []string
	for _, p := range profiles {
		if !scheme.IsName(p.Scheme) {
			continue // the rules of all schemes
		}
		asked := map[scheme.Kind][]string{}
		for _, f := range p.Facts {
			asked[f.Kind] = append(asked[f.Kind], inShort(f))
		}
		link := "[" + p.Name + "](#" + anchor(p.Name) + ")"
		if len(asked[scheme.Require])+len(asked[scheme.Advise])+len(asked[scheme.Ended]) == 0 {
			silent = append(silent, link)
			continue
		}
		cell := func(k scheme.Kind) string { return cmp.Or(strings.Join(asked[k], "; "), "none known") }
		text += fmt.Sprintf("| %s | %s | %s | %s |\n", link, cell(scheme.Require), cell(scheme.Advise), cell(scheme.Ended))
	}
	return text + "\nNo public source asks more than the protocol of requests for " + strings.Join(silent, ", ") + ".\n\n"
}

// inShort is what a fact asks for, where and from when on, without its source.
func inShort(f scheme.Fact) string {
	text := elements(f)
	if f.Kind == scheme.Ended {
		text = strings.Join(f.In, ", ")
	} else if len(f.In) > 0 {
		text += " in " + strings.Join(f.In, ", ")
	}
	if when := period(f); when != "" {
		text += " " + when
	}
	if f.Certainty != scheme.Sure {
		text += " (" + strings.ReplaceAll(string(f.Certainty), "-", " ") + ")"
	}
	return text
}

var notInAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)

// anchor is the anchor of a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// ruleWording says what a fact about an AReq asks for.
var ruleWording = map[scheme.Kind]string{
	scheme.Require: "required", scheme.Advise: "advised", scheme.WhereDue: "where due", scheme.Ignore: "ignored",
	scheme.Forbid: "forbidden", scheme.Ended: "ended", scheme.Format: "form", scheme.Closed: "closed", scheme.Note: "note",
}

// schemeTables has a section per scheme: what it asks for, its codes, its
// extensions, each with source and certainty.
func schemeTables(profiles []scheme.Profile) string {
	var b strings.Builder
	for _, p := range profiles {
		fmt.Fprintf(&b, "## %s\n\n", p.Name)
		if !slices.ContainsFunc(p.Facts, func(f scheme.Fact) bool { return f.Kind == scheme.RID }) && scheme.IsName(p.Scheme) {
			fmt.Fprintf(&b, "`%s` in the API and the configuration.\n\n", p.Scheme)
		}
		var rules, codes, extensions []string
		for _, f := range p.Facts {
			switch f.Kind {
			case scheme.RID:
				fmt.Fprintf(&b, "`%s` in the API and the configuration; RID `%s` (%s).\n\n", p.Scheme, f.Element, origin(f, ", "))
			case scheme.Code:
				codes = append(codes, fmt.Sprintf("| `%s` | %s | %s | %s |", f.Element, span(f), f.Text, origin(f, " | ")))
			case scheme.Extension:
				extensions = append(extensions, fmt.Sprintf("| `%s` | %s | %s | %s | %s |", f.Element, f.Text, orAny(f.In, "not known"), f.Criticality, origin(f, " | ")))
			default:
				rules = append(rules, fmt.Sprintf("| %s | %s | %s | %s | %s |",
					elements(f), ruleWording[f.Kind], ruleText(f), period(f), origin(f, " | ")))
			}
		}
		part := func(head string, rows []string) {
			if len(rows) > 0 {
				b.WriteString(head + "\n" + divider(head) + strings.Join(rows, "\n") + "\n\n")
			}
		}
		part("| Element | | In, or how | When | Source | Certainty |", rules)
		part("| Element | Code | Meaning | Source | Certainty |", codes)
		part("| Extension | Name | In | Criticality | Source | Certainty |", extensions)
	}
	return b.String()
}

// divider is the line under the head of a table.
func divider(head string) string {
	return "|" + strings.Repeat(" --- |", strings.Count(head, "|")-1) + "\n"
}

// elements are what a fact is about: one, or several of which one is enough.
func elements(f scheme.Fact) string {
	if f.OneOf == nil {
		return "`" + f.Element + "`"
	}
	return "one of `" + strings.Join(f.OneOf, "`, `") + "`"
}

func ruleText(f scheme.Fact) string {
	var parts []string
	switch {
	case f.Kind == scheme.Format:
		parts = append(parts, "`"+f.Text+"`")
	case f.Kind == scheme.Note:
		return f.Text
	}
	if len(f.In) > 0 {
		parts = append(parts, strings.Join(f.In, ", "))
	}
	if f.If.Element != "" {
		parts = append(parts, "if `"+f.If.Element+"` is "+strings.Join(f.If.Values, " or "))
	}
	if f.Effect != "" {
		parts = append(parts, f.Effect)
	}
	return strings.Join(parts, "; ")
}

// period is when a fact holds.
func period(f scheme.Fact) string {
	var parts []string
	if f.Since.String() != "" {
		parts = append(parts, "since "+f.Since.String())
	}
	if f.Until.String() != "" {
		parts = append(parts, "until "+f.Until.String())
	}
	return strings.Join(parts, ", ")
}

func span(f scheme.Fact) string {
	if f.From == f.To {
		return "`" + f.From + "`"
	}
	return "`" + f.From + "` to `" + f.To + "`"
}

func orAny(in []string, none string) string {
	if len(in) == 0 {
		return none
	}
	return strings.Join(in, ", ")
}

// origin is the sources and the certainty, with the remark.
func origin(f scheme.Fact, between string) string {
	var sources []string
	for _, s := range f.Sources {
		sources = append(sources, sourceLink(s))
	}
	s := strings.Join(sources, ", ") + between + strings.ReplaceAll(string(f.Certainty), "-", " ")
	if f.Remark != "" {
		s += ": " + f.Remark
	}
	return s
}

// sourceLink is the word of a source, as a link if it has an address.
func sourceLink(s scheme.Source) string {
	if s.URL == "" {
		return strings.ReplaceAll(s.Word, "-", " ")
	}
	return "[" + s.Word + "](" + s.URL + ")"
}

// sourceTable has all sources with what they are and their dates.
func sourceTable(profiles []scheme.Profile) string {
	seen := map[string]bool{}
	var rows []string
	for _, p := range profiles {
		for _, f := range p.Facts {
			for _, s := range f.Sources {
				if !seen[s.Word] {
					seen[s.Word] = true
					rows = append(rows, fmt.Sprintf("| %s | %s | %s |", sourceLink(s), s.Title, s.Date))
				}
			}
		}
	}
	slices.Sort(rows)
	head := "| Source | What it is | Published, or read |"
	return "## Sources\n\n" + head + "\n" + divider(head) + strings.Join(rows, "\n") + "\n\n"
}
