package scheme

import (
	_ "embed"
	"slices"

	"github.com/openthreeds/threeds/message"
)

//go:embed profiles.txt
var profilesText string

// A Profile is what is public of one scheme. The one called "every" holds for all schemes.
type Profile struct {
	Scheme string // its name in the API
	Name   string // for people
	Facts  []Fact

	line int // of its heading
}

// A Kind says what a fact states; profiles.txt explains them.
type Kind string

// The kinds of facts.
const (
	RID       Kind = "rid"
	Require   Kind = "require"
	Advise    Kind = "advise"
	WhereDue  Kind = "where-due"
	Format    Kind = "format"
	Note      Kind = "note"
	Closed    Kind = "closed"
	Code      Kind = "code"
	Extension Kind = "extension"
)

// A Source is where a fact comes from.
type Source string

// The sources.
const (
	PublicStandard Source = "public-standard"
	VendorDoc      Source = "vendor-doc"
	Memory         Source = "memory"
)

// How an extension is sent.
const (
	Critical    = "critical"
	NonCritical = "non-critical"
	Unknown     = "unknown"
)

// A Fact is one line of profiles.txt.
type Fact struct {
	Kind     Kind
	Element  string   // an element's name; of an Extension its id, of a RID the RID
	In       []string // columns, all if there are none; of an Extension messages and versions, not known if there are none
	From, To string   // of a Code: the first and the last one
	Text     string   // of a Code its meaning, of a Note the note, of an Extension its name, of a Format the pattern

	Criticality string // of an Extension

	Source Source
	Sure   bool
	Remark string

	pattern pattern
}

var public = mustRead(profilesText)

// Profiles returns the profiles in the order of profiles.txt. They are shared: read only.
func Profiles() []Profile { return public.profiles }

// Public returns the rules of a scheme that are public; nil if there are none.
func Public(scheme string) *Sheet { return public.sheets[scheme] }

// Check is [Sheet.Check] of the public rules of a scheme.
func Check(scheme string, areq *message.Message) []*Finding { return Public(scheme).Check(areq) }

// Meaning is [Sheet.Meaning] of the public codes of a scheme.
func Meaning(scheme, element, code string) string { return Public(scheme).Meaning(element, code) }

// A library has all profiles, and the sheets made of them.
type library struct {
	profiles []Profile
	sheets   map[string]*Sheet // by scheme
}

// common returns the facts of all schemes.
func (l *library) common() []Fact {
	if p := l.profile(every); p != nil {
		return p.Facts
	}
	return nil
}

// profile returns the profile of a scheme; nil if there is none.
func (l *library) profile(scheme string) *Profile {
	i := slices.IndexFunc(l.profiles, func(p Profile) bool { return p.Scheme == scheme })
	if i < 0 {
		return nil
	}
	return &l.profiles[i]
}

func mustRead(text string) library {
	profiles, err := read(text)
	if err != nil {
		panic("scheme: profiles.txt: " + err.Error())
	}
	return compile(profiles)
}

// compile makes a sheet for each scheme, of its own facts and those of every scheme.
func compile(profiles []Profile) library {
	lib := library{profiles: profiles, sheets: make(map[string]*Sheet)}
	for _, p := range profiles {
		if p.Scheme != every {
			lib.sheets[p.Scheme] = newSheet(slices.Concat(p.Facts, lib.common()))
		}
	}
	return lib
}
