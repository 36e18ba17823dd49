package auth

import (
	"slices"

	"github.com/openthreeds/threeds/internal/scheme"
	"github.com/openthreeds/threeds/message"
)

// Notes are what a requestor may want to know of a request beside its answer. Elements are
// named as errorDetail has them, each once and without values.
type Notes struct {
	// Normalised elements were corrected or filled in before the request left (docs/api.md, R9).
	Normalised []string
	// Unkept elements are missing or malformed although the card's scheme requires them now, or are
	// there although it forbids them. Where one of several elements is enough, all their names
	// are one entry, with | between. What a scheme only advises is not here.
	Unkept []string
	// Schemes are the words of all directories that hold a co-badged card, in order of preference. It is
	// nil for other cards.
	Schemes []string
}

// notesOf returns the changes and findings of a request in the form for the requestor.
func notesOf(req *authRequest) Notes {
	var n Notes
	for _, c := range req.changes {
		n.Normalised = addName(n.Normalised, c.Path.Name())
	}
	for _, f := range req.findings {
		if f.InForce && f.Rule != scheme.Advise && f.Rule != scheme.Ignore && f.Rule != scheme.Ended {
			n.Unkept = addName(n.Unkept, f.Element)
		}
	}
	return n
}

// addName adds a name to names, unless it is there.
func addName(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// describeChanges returns changes in the form for the record and the log.
func describeChanges(changes []message.Change) []string {
	var texts []string
	for _, c := range changes {
		texts = append(texts, string(c.Path)+": "+c.What)
	}
	return texts
}

// describeFindings returns findings in the form for the record and the log.
func describeFindings(findings []*scheme.Finding) []string {
	var texts []string
	for _, f := range findings {
		texts = append(texts, f.Text)
	}
	return texts
}
