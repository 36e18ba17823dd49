package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/scheme"
)

const (
	schemesStart = "<!-- schemes: generated from internal/scheme/profiles.txt -->\n"
	schemesEnd   = "<!-- end of schemes -->\n"
)

// schemePage is docs/schemes.md with fresh tables between its marks.
func schemePage(root string) ([]byte, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs/schemes.md"))
	if err != nil {
		return nil, err
	}
	return between(page, schemesStart, schemesEnd, schemeTables(scheme.Profiles()))
}

// ruleWording says what a fact about an AReq asks for.
var ruleWording = map[scheme.Kind]string{
	scheme.Require: "required", scheme.Advise: "advised", scheme.WhereDue: "where due",
	scheme.Format: "form", scheme.Closed: "closed", scheme.Note: "note",
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
				rules = append(rules, fmt.Sprintf("| `%s` | %s | %s | %s |", f.Element, ruleWording[f.Kind], ruleText(f), origin(f, " | ")))
			}
		}
		part := func(head string, rows []string) {
			if len(rows) > 0 {
				columns := strings.Count(head, "|") - 1
				b.WriteString(head + "\n|" + strings.Repeat(" --- |", columns) + "\n" + strings.Join(rows, "\n") + "\n\n")
			}
		}
		part("| Element | | In, or how | Source | Certainty |", rules)
		part("| Element | Code | Meaning | Source | Certainty |", codes)
		part("| Extension | Name | In | Criticality | Source | Certainty |", extensions)
	}
	return b.String()
}

func ruleText(f scheme.Fact) string {
	switch f.Kind {
	case scheme.Format:
		return "`" + f.Text + "`"
	case scheme.Require, scheme.Advise:
		return orAny(f.In, "")
	}
	return f.Text
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

// origin is source and certainty, with the remark.
func origin(f scheme.Fact, between string) string {
	s := strings.ReplaceAll(string(f.Source), "-", " ") + between
	if f.Sure {
		s += "sure"
	} else {
		s += "unsure"
	}
	if f.Remark != "" {
		s += ": " + f.Remark
	}
	return s
}
