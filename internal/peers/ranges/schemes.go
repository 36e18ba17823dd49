package ranges

import (
	"slices"
	"sync/atomic"
)

// Schemes holds the generation in use of each payment scheme, in a fixed order
// of preference. Its methods are safe for concurrent use: a look-up sees the generation of
// each scheme as it was before a Put, or as it is after.
//
// A card may belong to several schemes: ranges of different directory servers
// may overlap, and a look-up finds them all.
type Schemes struct {
	order []*scheme
}

type scheme struct {
	name  string
	inUse atomic.Pointer[Generation]
	tried atomic.Bool
}

// A Hit is a scheme that has a range for the card number.
type Hit struct {
	Scheme     string
	Info       *Info
	Generation *Generation // that the Info is of
}

// NewSchemes returns the schemes in order of preference, all without a table.
func NewSchemes(names ...string) *Schemes {
	s := &Schemes{}
	for _, name := range names {
		s.order = append(s.order, &scheme{name: name})
	}
	return s
}

// Next returns the schemes of a new configuration, in their order of preference. A scheme that
// is in both shares its generation: what is put into one is in the other.
func (s *Schemes) Next(names ...string) *Schemes {
	next := NewSchemes(names...)
	for i, one := range next.order {
		if former := s.find(one.name); former != nil {
			next.order[i] = former
		}
	}
	return next
}

// Names returns the schemes in order of preference.
func (s *Schemes) Names() []string {
	names := make([]string, len(s.order))
	for i, one := range s.order {
		names[i] = one.name
	}
	return names
}

// Lookup returns the schemes that have a range for the card number, in order of
// preference; nil if none has one.
func (s *Schemes) Lookup(pan string) []Hit {
	n, ok := number(pan)
	if !ok {
		return nil
	}
	var hits []Hit
	for _, one := range s.order {
		g := one.inUse.Load()
		if g == nil {
			continue
		}
		if i := g.Table.find(n, len(pan)); i >= 0 {
			hits = append(hits, Hit{one.name, g.Table.infos[i], g})
		}
	}
	return hits
}

// Put puts the generation in place of the scheme's previous one, for all look-ups that begin afterwards, and marks the
// scheme as tried. A scheme that is not one of s is ignored.
func (s *Schemes) Put(name string, g *Generation) {
	if one := s.find(name); one != nil {
		one.inUse.Store(g)
		one.tried.Store(true)
	}
}

// Swap is Put for a table alone.
func (s *Schemes) Swap(name string, t *Table) {
	s.Put(name, &Generation{Scheme: name, Table: t})
}

// Generation returns the generation of a scheme that is in use; nil if there is none.
func (s *Schemes) Generation(name string) *Generation {
	if one := s.find(name); one != nil {
		return one.inUse.Load()
	}
	return nil
}

// Table returns the table of a scheme that is in use; nil if there is none.
func (s *Schemes) Table(name string) *Table {
	if g := s.Generation(name); g != nil {
		return g.Table
	}
	return nil
}

// MarkTried records that the scheme's directory server was asked, whatever it answered. Before that it is unknown
// whether a card without a range is enrolled.
func (s *Schemes) MarkTried(name string) {
	if one := s.find(name); one != nil {
		one.tried.Store(true)
	}
}

// AnyTried reports whether any directory server was asked since start.
func (s *Schemes) AnyTried() bool {
	return slices.ContainsFunc(s.order, func(one *scheme) bool { return one.tried.Load() })
}

// Pending reports whether a card without a range may still be enrolled, because the scheme's directory server was not
// asked since the start. Without a name it is about all directory servers. Until one of them was asked, it is true for
// every name.
func (s *Schemes) Pending(name string) bool {
	for _, one := range s.order {
		if (name == "" || name == one.name) && !one.tried.Load() {
			return true
		}
	}
	return !s.AnyTried()
}

func (s *Schemes) find(name string) *scheme {
	for _, one := range s.order {
		if one.name == name {
			return one
		}
	}
	return nil
}
