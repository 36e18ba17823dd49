package scheme

import (
	_ "embed"
	"slices"

	"github.com/openthreeds/threeds/message"
)

//go:embed profiles.txt
var profilesText string

// A Profile is what is public of one scheme, in the order of profiles.txt. The
// first one, "every", has what holds for all schemes.
type Profile struct {
	Scheme string // the word of the API
	Name   string // for people
	Facts  []Fact
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
	Element  string   // an element's name; of an Extension its id, of a RID itself
	In       []string // columns; messages and versions of an Extension; none: all, or not known
	From, To string   // of a Code: the first and the last one
	Text     string   // a meaning, a note, a name, a pattern

	Criticality string // of an Extension

	Source Source
	Sure   bool
	Remark string

	pattern pattern
}

var book = mustRead(profilesText)

// Profiles returns what is public of all schemes. It is shared: read only.
func Profiles() []Profile { return book.profiles }

// Check returns where an AReq, built for the directory of a scheme, lacks what
// is asked for beyond the protocol; nil when it does not, or when nothing is
// known of the scheme.
func Check(scheme string, areq *message.Message) []*Finding {
	s := book.sheets[scheme]
	if s == nil {
		return nil
	}
	return s.check(areq)
}

// Meaning says what a code of a scheme's own means, such as a
// transStatusReason of 80-99 or an eci; "" when that is not known.
func Meaning(scheme, element, code string) string {
	s := book.sheets[scheme]
	if s == nil {
		return ""
	}
	return s.codes[element][code]
}

// A library is all profiles, and what is made of them for use.
type library struct {
	profiles []Profile
	sheets   map[string]*sheet
}

func mustRead(text string) library {
	profiles, err := read(text)
	if err != nil {
		panic("scheme: profiles.txt: " + err.Error())
	}
	return compile(profiles)
}

// compile makes the sheet of each scheme of its own facts and those of all.
func compile(profiles []Profile) library {
	lib := library{profiles: profiles, sheets: make(map[string]*sheet)}
	var common []Fact
	if i := slices.IndexFunc(profiles, func(p Profile) bool { return p.Scheme == every }); i >= 0 {
		common = profiles[i].Facts
	}
	for _, p := range profiles {
		if p.Scheme != every {
			lib.sheets[p.Scheme] = newSheet(slices.Concat(p.Facts, common))
		}
	}
	return lib
}
