package auth

import (
	"slices"

	"github.com/openthreeds/threeds/internal/scheme"
	"github.com/openthreeds/threeds/message"
)

// Notes are what a requestor may want to know of a request beside its answer. They are
// names of elements, as errorDetail has them, each once and without values.
type Notes struct {
	Normalised []string // set right or filled in before the request left (API contract, R9)
	Unkept     []string // lacking or malformed though the card's scheme requires it; what it only advises is not here
}

// notes are the changes and findings of a request in the form for the requestor.
func notes(changes []message.Change, findings []*scheme.Finding) Notes {
	var n Notes
	for _, c := range changes {
		n.Normalised = withName(n.Normalised, c.Path.Name())
	}
	for _, f := range findings {
		if f.Rule != scheme.Advise {
			n.Unkept = withName(n.Unkept, f.Element)
		}
	}
	return n
}

func withName(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// inWords are the changes in the form for the record and the log.
func inWords(changes []message.Change) []string {
	var words []string
	for _, c := range changes {
		words = append(words, string(c.Path)+": "+c.What)
	}
	return words
}

// texts are the findings in the form for the record and the log.
func texts(findings []*scheme.Finding) []string {
	var words []string
	for _, f := range findings {
		words = append(words, f.Text)
	}
	return words
}
