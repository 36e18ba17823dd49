package scheme

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
	"time"
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
	Ignore    Kind = "ignore"
	Forbid    Kind = "forbid"
	Ended     Kind = "ended"
	WhereDue  Kind = "where-due"
	Format    Kind = "format"
	Note      Kind = "note"
	Closed    Kind = "closed"
	Code      Kind = "code"
	Extension Kind = "extension"
)

// A Certainty says how far a fact can be relied on.
type Certainty string

// The certainties.
const (
	Sure      Certainty = "sure"       // nothing speaks against it
	OneSource Certainty = "one-source" // it was read in one place alone
	Disputed  Certainty = "disputed"   // another source says something else, or the protocol does
	Unsure    Certainty = "unsure"     // it was read in part, or is remembered
)

// A Source is where a fact comes from.
type Source struct {
	Word  string // its name in the text of profiles
	Title string
	URL   string // "" if its address is not public or not known
	Date  string // when it was published or, where it does not say, read; "" if that is not known
}

// The sources that need no line of their own: they have neither address nor date.
var plainSources = []Source{
	{Word: "public-standard", Title: "the protocol's own text, or a list of its publisher"},
	{Word: "vendor-doc", Title: "a vendor's page or a public test case, whose address was not kept"},
	{Word: memory, Title: "remembered, read nowhere"},
}

const memory = "memory"

// How an extension is sent.
const (
	Critical    = "critical"
	NonCritical = "non-critical"
	Unknown     = "unknown"
)

// A Condition limits a fact to AReqs in which an element has one of some values.
type Condition struct {
	Element string // "": there is no condition
	Values  []string
}

// A Fact is one line of profiles.txt.
type Fact struct {
	Kind     Kind
	Element  string   // an element's name, or several with | between; of an Extension its id, of a RID the RID
	OneOf    []string // for Require and Advise: one of these elements is enough; nil if Element is the only one
	In       []string // columns, all if there are none; of an Extension messages and versions, not known if there are none
	If       Condition
	Since    Date   // the first day on which it holds
	Until    Date   // the last one
	From, To string // of a Code: the first and the last one
	Text     string // of a Code its meaning, of a Note the note, of an Extension its name, of a Format the pattern

	Criticality string // of an Extension

	Sources   []Source
	Certainty Certainty
	Remark    string
	Effect    string // what happens to a request that does not agree; "" if that is not known

	statement string
	pattern   pattern
}

// Statement is what the fact states, without where it comes from: the part of its line before the first semicolon.
func (f *Fact) Statement() string { return f.statement }

// A Date is a day, a month or a year, whichever the source gives. Its zero value is no date.
type Date struct {
	text        string
	first, last time.Time // the beginning of its first day, and the end of its last one, in UTC
}

// String returns the date as it was written: 2024-08-12, 2024-08 or 2024; "" for no date.
func (d Date) String() string { return d.text }

// Days returns the first and the last day of the date, as 2024-08-01 and 2024-08-31; "" for no date.
func (d Date) Days() (first, last string) {
	if d.text == "" {
		return "", ""
	}
	return d.first.Format(time.DateOnly), d.last.AddDate(0, 0, -1).Format(time.DateOnly)
}

// readDate reads a day, a month or a year.
func readDate(text string) (Date, bool) {
	for layout, span := range map[string][3]int{"2006-01-02": {0, 0, 1}, "2006-01": {0, 1, 0}, "2006": {1, 0, 0}} {
		if t, err := time.Parse(layout, text); err == nil {
			return Date{text, t, t.AddDate(span[0], span[1], span[2])}, true
		}
	}
	return Date{}, false
}

// public returns the library of profiles.txt. It is read when it is first needed: most commands need none of it.
var public = sync.OnceValue(func() *library {
	lib := mustRead(profilesText)
	return &lib
})

// Profiles returns the profiles in the order of profiles.txt. They are shared: read only.
func Profiles() []Profile { return public().profiles }

// Public returns the rules of a scheme that are public; nil, which is a sheet without rules, if there are none.
func Public(scheme string) *Sheet { return public().sheets[scheme] }

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

// members are the elements that the fact is about.
func (f *Fact) members() []string {
	if f.OneOf != nil {
		return f.OneOf
	}
	return []string{f.Element}
}

// joinMembers returns the name in findings and metrics for a group of elements when one of them is enough.
func joinMembers(names []string) string { return strings.Join(names, "|") }
