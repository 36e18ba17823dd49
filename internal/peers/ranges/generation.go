package ranges

import (
	"errors"
	"slices"
	"time"

	"github.com/openthreeds/threeds/message"
)

// A Generation is the card ranges of one scheme as they are between two changes, with what its directory server said
// besides them. It never changes.
type Generation struct {
	Scheme  string
	Version message.Version // of the PRes that it came of
	Serial  string          // the next PReq asks for changes since this; if empty, for a complete set
	Table   *Table
	DS      DS
	DSURLs  []DSURL
	Loaded  time.Time // when it came; the caller that made it sets this
	From    string    // the address that it came from, set by the caller too; empty if it is not known
}

// DSURL is one address of a directory server.
type DSURL struct{ URL, Country string }

// URLs returns the addresses for ranges of an issuer's country, best first:
// those for the country, then those for all. The one that was configured comes
// after them.
func (g *Generation) URLs(country string) []string {
	if g == nil {
		return nil
	}
	var urls []string
	for _, u := range g.DSURLs {
		if u.Country != "" && u.Country == country {
			urls = append(urls, u.URL)
		}
	}
	for _, u := range g.DSURLs {
		if u.Country == "" {
			urls = append(urls, u.URL)
		}
	}
	return urls
}

// Len returns how many ranges the generation has.
func (g *Generation) Len() int {
	if g == nil {
		return 0
	}
	return g.Table.Len()
}

// Kind is what a PRes brings.
type Kind uint8

// The kinds.
const (
	Unchanged Kind = iota // no range
	Complete              // all ranges
	Changes               // updates of those in use
	File                  // the address of all ranges
)

// A Response is what a PRes says, or a file of card ranges.
type Response struct {
	Head    *message.Message // all but the content of cardRangeData
	Version message.Version
	Kind    Kind
	Serial  string
	FileURL string
	DS      DS
	DSURLs  []DSURL

	Entries, Ranges int
	Notes           Notes
	Overlap         *OverlapError // what Next found wrong with a complete set, if that was it

	infos    []*Info
	tapes    [laneCount]tape // of a complete set
	changes  []change        // of updates
	backward bool
}

// Next returns the generation that follows base, which stays as it is. A complete set
// replaces base, updates are applied to it. A nil base stands for no ranges; if the
// response brings none either, the result is nil.
//
// The problems are those that show only among several ranges: overlaps and impossible
// actions. With any of them there is no generation. Next uses up what the response has
// collected: call it once.
func (r *Response) Next(base *Generation) (*Generation, message.Problems) {
	g := &Generation{Version: r.Version, Serial: r.Serial, DS: r.DS, DSURLs: r.DSURLs}
	if base != nil {
		g.Scheme, g.Loaded, g.From = base.Scheme, base.Loaded, base.From
	}
	switch r.Kind {
	case Complete:
		builder := Builder{Disjoint: r.Version >= message.V231, tapes: r.tapes, infos: r.infos}
		r.tapes = [laneCount]tape{}
		table, err := builder.Build()
		if overlap, ok := errors.AsType[*OverlapError](err); ok {
			r.Overlap = overlap
			return nil, overlap.problems(r.Version)
		}
		g.Table = table
	case Changes:
		var problems message.Problems
		if g.Table, problems = r.apply(base); len(problems) > 0 {
			return nil, problems
		}
	default:
		if base == nil {
			return nil, nil
		}
		g.Serial, g.Version = base.Serial, base.Version
		g.Table = base.Table.under(r.DS)
	}
	return g, nil
}

func (r *Response) apply(base *Generation) (*Table, message.Problems) {
	updates := make([]Update, len(r.changes))
	for i, c := range r.changes {
		updates[i] = Update{Range{c.start, c.end, int(c.digits)}, r.infos[c.info], c.entry, c.action}
	}
	r.changes = nil
	var table *Table
	if base != nil {
		table = base.Table.under(r.DS)
	}
	return Apply(table, updates, Rules{r.Version, r.backward})
}

// under returns t with the versions of the directory server that ds has, for those that its
// ranges leave to the PRes. It shares the ranges of t.
func (t *Table) under(ds DS) *Table {
	if t == nil {
		return nil
	}
	other := *t
	other.infos = slices.Clone(t.infos)
	for i, info := range other.infos {
		other.infos[i] = info.under(ds)
	}
	return &other
}
