package scheme

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/openthreeds/threeds/message"
)

// A Finding is one thing that an AReq lacks. It names an element and never
// quotes a value. Findings are shared: read only.
type Finding struct {
	Element string
	Rule    Kind         // Require, Advise, Format or Closed
	Code    message.Code // of the Erro with which the AReq may be refused; 0: it must not be refused
	Text    string       // the finding in words: "cardExpiryDate: required"
}

// A Sheet has the rules of one scheme in the form in which they are applied to AReqs. It is
// immutable. A nil *Sheet has no rules.
type Sheet struct {
	codes map[string]map[string]string // meanings, by element and code
	rules [message.V231 + 1][anyChannel + 1][anyCategory + 1][]rule
}

// A request whose channel or category is unknown is checked by the rules that hold in all
// channels or categories.
const (
	anyChannel  = message.ThreeRI + 1
	anyCategory = message.NPA + 1
)

// A rule is a fact that can be checked, for one version, channel and category.
type rule struct {
	Finding                   // if the rule is broken
	pattern pattern           // of a Format
	codes   map[string]string // of a Closed: the codes that have a meaning
}

func newSheet(facts []Fact) *Sheet {
	s := &Sheet{codes: make(map[string]map[string]string)}
	for _, f := range facts {
		if f.Kind == Code {
			s.addCodes(f)
		}
	}
	for _, v := range message.Versions() {
		for ch := message.APP; ch <= anyChannel; ch++ {
			for cat := message.PA; cat <= anyCategory; cat++ {
				s.rules[v][ch][cat] = s.rulesOf(facts, v, ch, cat)
			}
		}
	}
	return s
}

// rulesOf returns the rules that hold in a version, channel and category.
func (s *Sheet) rulesOf(facts []Fact, v message.Version, ch message.Channel, cat message.Category) []rule {
	var rules []rule
	for _, f := range facts {
		if f.isRule() && f.holds(v, ch, cat) {
			rules = append(rules, rule{f.finding(v), f.pattern, s.codes[f.Element]})
		}
	}
	return rules
}

// isRule reports whether an AReq can be checked for the fact.
func (f *Fact) isRule() bool {
	return f.Kind == Require || f.Kind == Advise || f.Kind == Format || f.Kind == Closed
}

func (s *Sheet) addCodes(f Fact) {
	if s.codes[f.Element] == nil {
		s.codes[f.Element] = make(map[string]string)
	}
	if f.From == f.To {
		s.codes[f.Element][f.From] = f.Text
		return
	}
	first, _ := strconv.Atoi(f.From) // readCode has checked both
	last, _ := strconv.Atoi(f.To)
	for n := first; n <= last; n++ {
		s.codes[f.Element][fmt.Sprintf("%02d", n)] = f.Text
	}
}

// holds reports whether a fact is checked in this version, channel and category. No fact is
// where the protocol does not have the element, and Require and Advise are not where the
// protocol requires the element itself.
func (f *Fact) holds(v message.Version, ch message.Channel, cat message.Category) bool {
	if ch == anyChannel {
		return !slices.ContainsFunc(message.Channels(), func(ch message.Channel) bool { return !f.holds(v, ch, cat) })
	}
	if cat == anyCategory {
		return !slices.ContainsFunc(message.Categories(), func(cat message.Category) bool { return !f.holds(v, ch, cat) })
	}
	row := message.TableOf(message.AReq, v).Field(f.Element)
	if row == nil {
		return false
	}
	switch need := row.Need.At(ch, cat); {
	case need == '-', need == 'R' && (f.Kind == Require || f.Kind == Advise):
		return false
	}
	for i, word := range []string{ch.String(), cat.String(), v.String()} {
		named := slices.ContainsFunc(f.In, func(s string) bool { return slices.Contains(dimensions[i], s) })
		if named && !slices.Contains(f.In, word) {
			return false
		}
	}
	return true
}

// finding returns the Finding of an AReq that does not agree with the fact.
func (f *Fact) finding(v message.Version) Finding {
	found := Finding{Element: f.Element, Rule: f.Kind}
	switch f.Kind {
	case Require:
		found.Code, found.Text = message.Missing, f.Element+": required"
	case Advise:
		found.Text = f.Element + ": advised"
	case Format:
		found.Code, found.Text = message.Format, f.Element+": not of the scheme's form"
	case Closed:
		found.Code, found.Text = message.Format, f.Element+": a code of no known meaning"
		if v >= message.V231 {
			found.Code = message.Reserved
		}
	}
	if !f.Sure {
		found.Code = 0
		found.Text += " (unsure)"
	}
	return found
}

// Check returns where an AReq, as it is built for the directory server of the scheme, does
// not have what the scheme asks for beyond the protocol; nil if it has everything.
func (s *Sheet) Check(areq *message.Message) []*Finding {
	v, ok := areq.Version()
	if s == nil || !ok {
		return nil
	}
	ch, ok := message.ParseChannel(string(text(areq, "deviceChannel")))
	if !ok {
		ch = anyChannel
	}
	cat, ok := message.ParseCategory(string(text(areq, "messageCategory")))
	if !ok {
		cat = anyCategory
	}
	var found []*Finding
	rules := s.rules[v][ch][cat]
	for i := range rules {
		if !rules[i].isKept(areq) {
			if found == nil {
				found = make([]*Finding, 0, len(rules)-i)
			}
			found = append(found, &rules[i].Finding)
		}
	}
	return found
}

// Meaning returns what a code means that the scheme itself defines, such as a
// transStatusReason of 80-99 or an eci; "" if that is not known.
func (s *Sheet) Meaning(element, code string) string {
	if s == nil {
		return ""
	}
	return s.codes[element][code]
}

// isKept reports whether an AReq keeps the rule. An element of another type than a string
// keeps it: that is an error by the protocol.
func (r *rule) isKept(areq *message.Message) bool {
	switch r.Rule {
	case Format:
		value := text(areq, r.Element)
		return len(value) == 0 || r.pattern.fits(value)
	case Closed:
		raw := areq.Raw(r.Element)
		if !bytes.Contains(raw, []byte(`"8`)) && !bytes.Contains(raw, []byte(`"9`)) && bytes.IndexByte(raw, '\\') < 0 {
			return true
		}
		return !slices.ContainsFunc(areq.Strings(r.Element), func(code string) bool {
			return len(code) == 2 && code >= "80" && code <= "99" && r.codes[code] == ""
		})
	}
	return areq.Has(r.Element)
}

// text returns the value of a string element; nil if the element is no string. It copies the
// value only if that has escape sequences.
func text(m *message.Message, name string) []byte {
	raw := m.Raw(name)
	if len(raw) < 2 || raw[0] != '"' {
		return nil
	}
	if bytes.IndexByte(raw, '\\') >= 0 {
		return []byte(m.Text(name))
	}
	return raw[1 : len(raw)-1]
}
