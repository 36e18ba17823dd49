package scheme

import (
	"errors"
	"fmt"
	"slices"
)

// maxOwnFacts is how many facts a file of an operator may have: each may become a label of metrics.
const maxOwnFacts = 500

// ReadOwn reads the rules that an operator adds to the public ones of a scheme. The text has the
// form of profiles.txt and one heading, which has the word of the scheme. The error has a
// line of text for each line that is wrong, and begins with "line N: ".
func ReadOwn(scheme, text string) (*Profile, error) {
	all, err := read(text)
	switch {
	case err != nil:
		return nil, err
	case len(all) > 1 || all[0].Scheme != scheme:
		other := all[slices.IndexFunc(all, func(p Profile) bool { return p.Scheme != scheme })]
		return nil, fmt.Errorf("line %d: rules of scheme %s in a file for %s (one heading: scheme %[3]s NAME)", other.line,
			other.Scheme, scheme)
	case len(all[0].Facts) > maxOwnFacts:
		return nil, fmt.Errorf("line %d: more than %d facts", all[0].line, maxOwnFacts)
	case len(all[0].Facts) == 0:
		return nil, errors.New("line 1: no facts after the heading")
	}
	return &all[0], nil
}

// NewSheet returns the public rules of a scheme together with those of an operator. Any word
// may be the scheme: without public rules those of every scheme and of the operator count.
// With own nil it is [Public].
func NewSheet(scheme string, own *Profile) *Sheet {
	if own == nil {
		return Public(scheme)
	}
	facts := slices.Clone(own.Facts)
	if p := public().profile(scheme); p != nil {
		facts = slices.Concat(p.Facts, facts)
	}
	s := newSheet(slices.Concat(facts, public().common()))
	s.name = own.Name
	return s
}
