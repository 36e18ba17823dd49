package pages

import (
	"slices"
	"strings"

	"github.com/openthreeds/threeds/api"
)

// A findingsView is what does not agree with the rules of a scheme, and what else went wrong on the way. What could
// change an outcome comes first.
type findingsView struct {
	Scheme string              // its word
	Rules  []api.SchemeFinding // rules that a request has to keep, first those in force
	Others []string            // findings of the steps
	Advice []api.SchemeFinding // what the scheme only advises, or does not act on
}

// newFindingsView sorts what is known of the rules of a scheme.
func newFindingsView(scheme string, found []api.SchemeFinding) findingsView {
	view := findingsView{Scheme: scheme}
	for _, f := range found {
		if f.Level == api.LevelAdvised || f.Level == api.LevelIgnored {
			view.Advice = append(view.Advice, f)
		} else {
			view.Rules = append(view.Rules, f)
		}
	}
	slices.SortStableFunc(view.Rules, func(a, b api.SchemeFinding) int {
		switch {
		case a.InForce == b.InForce:
			return 0
		case a.InForce:
			return -1
		}
		return 1
	})
	return view
}

// Telling returns how many of the findings could change an outcome.
func (view findingsView) Telling() int { return len(view.Rules) + len(view.Others) }

// IsEmpty reports whether there is no finding at all.
func (view findingsView) IsEmpty() bool { return view.Telling()+len(view.Advice) == 0 }

// A sourceLink is a public page that something was read on.
type sourceLink struct{ Address, Name, Read string }

// sourceLinks returns the sources of a liability, in the form that package outcome gives them: addresses with commas
// between, each with the day of reading.
func sourceLinks(sources api.Text) (links []sourceLink) {
	for source := range strings.SplitSeq(string(sources), ", ") {
		address, read, _ := strings.Cut(source, " ")
		if name, isPage := strings.CutPrefix(address, "https://"); isPage {
			links = append(links, sourceLink{address, name, strings.Trim(read, "()")})
		}
	}
	return links
}

// sentence returns a clause as a sentence: with a capital letter and a full stop.
func sentence(clause string) string {
	if clause == "" {
		return ""
	}
	return strings.ToUpper(clause[:1]) + strings.TrimSuffix(clause[1:], ".") + "."
}
