package scheme

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/message"
)

// A Finding is one thing in which an AReq does not agree with a rule. It names elements and
// never quotes a value that the requestor sent. Findings are shared: read only.
type Finding struct {
	Element  string   // its name; if one of several elements is enough, all names with | between
	Elements []string // the same as a list
	Rule     Kind     // Require, Advise, Ignore, Forbid, Ended, Format or Closed

	Certainty Certainty
	Sources   []Source
	Since     Date         // the first day on which it counts; its zero value means that it always did
	Until     Date         // the last one; its zero value means that no end is known
	InForce   bool         // whether it counts now; if not, it will from Since on
	Code      message.Code // of the Erro with which the AReq may be refused; 0: it must not be refused
	Text      string       // the finding in words: "cardExpiryDate: required"
}

// Shape returns a finding as answers, events and exports have it.
func (f *Finding) Shape() api.SchemeFinding {
	return api.SchemeFinding{
		Element: f.Element, Level: f.Rule.Level(), Since: api.Text(f.Since.text), Until: api.Text(f.Until.text),
		InForce: f.InForce, Text: f.Text, Source: api.Text(DescribeSources(f.Sources)),
	}
}

// Shapes returns findings as answers have them.
func Shapes(findings []*Finding) []api.SchemeFinding {
	shapes := []api.SchemeFinding{}
	for _, f := range findings {
		shapes = append(shapes, f.Shape())
	}
	return shapes
}

// MarshalJSON returns the JSON of [Finding.Shape].
func (f *Finding) MarshalJSON() ([]byte, error) { return json.Marshal(f.Shape()) }

// DescribeSources returns the first source in words: its address or title, and its date.
func DescribeSources(sources []Source) string {
	if len(sources) == 0 {
		return ""
	}
	text := cmp.Or(sources[0].URL, sources[0].Title)
	if sources[0].Date != "" {
		text += " (" + sources[0].Date + ")"
	}
	return text
}

// A Sheet has the rules of one scheme in the form in which they are applied to AReqs. It is
// immutable. A nil *Sheet has no rules.
type Sheet struct {
	name  string // in the operator's own rules
	facts []Fact
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
	now, later  Finding           // if the rule is broken, in force and before
	condition   Condition         // of the fact
	pattern     pattern           // of a Format
	codes       map[string]string // of a Closed: the codes that have a meaning
	since, last time.Time         // when it is in force; zero without a limit. At last it is not any more
}

func newSheet(facts []Fact) *Sheet {
	s := &Sheet{facts: facts, codes: make(map[string]map[string]string)}
	for _, f := range facts {
		if f.Kind == Code {
			s.addCodes(f)
		}
	}
	for _, v := range message.Versions() {
		for ch := message.APP; ch <= anyChannel; ch++ {
			for cat := message.PA; cat <= anyCategory; cat++ {
				s.rules[v][ch][cat] = s.rulesOf(v, ch, cat)
			}
		}
	}
	return s
}

// rulesOf returns the rules that hold in a version, channel and category.
func (s *Sheet) rulesOf(v message.Version, ch message.Channel, cat message.Category) []rule {
	var rules []rule
	for i := range s.facts {
		f := &s.facts[i]
		if !f.isRule() {
			continue
		}
		if names := f.elementsIn(v, ch, cat); names != nil {
			rules = append(rules, rule{
				now: f.finding(v, names, true), later: f.finding(v, names, false), condition: f.If,
				pattern: f.pattern, codes: s.codes[f.Element], since: f.Since.first, last: f.Until.last,
			})
		}
	}
	return rules
}

// isRule reports whether an AReq can be checked for the fact.
func (f *Fact) isRule() bool {
	switch f.Kind {
	case Require, Advise, Ignore, Forbid, Ended, Format, Closed:
		return true
	}
	return false
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

// elementsIn returns the elements of a fact that are checked in this version, channel and category; nil if the fact is
// not checked there. If one of several elements is enough, only those count that the protocol has there.
func (f *Fact) elementsIn(v message.Version, ch message.Channel, cat message.Category) []string {
	if ch == anyChannel || cat == anyCategory {
		return f.elementsInAll(v, ch, cat)
	}
	for i, word := range []string{ch.String(), cat.String(), v.String()} {
		if !f.isIn(word, dimensions[i]) {
			return nil
		}
	}
	var names []string
	for _, name := range f.members() {
		row := message.TableOf(message.AReq, v).Field(name)
		if row == nil {
			continue
		}
		switch need := row.Need.At(ch, cat); {
		case need == '-':
			continue
		case need == 'R' && (f.Kind == Require || f.Kind == Advise):
			return nil // the protocol requires it itself
		}
		names = append(names, name)
	}
	return names
}

// elementsInAll returns the elements of a fact that is checked in every channel, or category,
// that an unknown one may stand for.
func (f *Fact) elementsInAll(v message.Version, ch message.Channel, cat message.Category) []string {
	channels, categories := []message.Channel{ch}, []message.Category{cat}
	if ch == anyChannel {
		channels = message.Channels()
	}
	if cat == anyCategory {
		categories = message.Categories()
	}
	var names []string
	for _, ch := range channels {
		for _, cat := range categories {
			here := f.elementsIn(v, ch, cat)
			if here == nil {
				return nil
			}
			names = appendNew(names, here...)
		}
	}
	return names
}

// finding returns the Finding of an AReq that does not agree with the fact, now or before it is in force.
func (f *Fact) finding(v message.Version, names []string, isInForce bool) Finding {
	found := Finding{
		Element: joinMembers(names), Elements: names, Rule: f.Kind, Certainty: f.Certainty, Sources: f.Sources,
		Since: f.Since, Until: f.Until, InForce: isInForce,
	}
	what := found.Element
	if len(names) > 1 {
		what = "one of " + strings.Join(names, ", ")
	}
	switch f.Kind {
	case Require:
		found.Code, found.Text = message.Missing, what+": required"
	case Advise:
		found.Text = what + ": advised"
	case Ignore:
		found.Text = what + ": ignored"
	case Forbid:
		found.Code, found.Text = message.Format, what+": must not be there"
	case Ended: // the directory itself refuses it
		found.Text = what + ": " + v.String() + " has ended"
	case Format:
		found.Code, found.Text = message.Format, what+": not of the scheme's form"
	case Closed:
		found.Code, found.Text = message.Format, what+": a code of no known meaning"
		if v >= message.V231 {
			found.Code = message.Reserved
		}
	}
	if f.If.Element != "" {
		found.Text += " with " + f.If.describe()
	}
	if !isInForce {
		found.Text += " from " + f.Since.text + " on"
	}
	switch f.Certainty {
	case Unsure, Disputed:
		found.Text += " (" + string(f.Certainty) + ")"
	case OneSource:
		found.Text += " (one source)"
	}
	if f.Effect != "" {
		found.Text += "; " + f.Effect
	}
	if f.Certainty != Sure || !isInForce {
		found.Code = 0
	}
	return found
}

// describe returns the condition in words. It has the values of the rule, not that of a request.
func (c Condition) describe() string { return c.Element + " " + strings.Join(c.Values, " or ") }

// Check returns where an AReq, as it is built for the directory server of the scheme, does
// not agree with what the scheme asks for beyond the protocol; nil if it agrees with
// everything. Findings of rules that are not yet in force at the time now are among them,
// with InForce false.
func (s *Sheet) Check(areq *message.Message, now time.Time) []*Finding {
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
		r := &rules[i]
		if !r.last.IsZero() && !now.Before(r.last) || r.isKept(areq) {
			continue
		}
		if found == nil {
			found = make([]*Finding, 0, len(rules)-i)
		}
		if now.Before(r.since) {
			found = append(found, &r.later)
		} else {
			found = append(found, &r.now)
		}
	}
	return found
}

// A RuleName says which rule of a scheme is meant: its element, its kind, and the first and the last day on which it
// counts, "" without a limit.
type RuleName struct {
	Element      string
	Kind         Kind
	Since, Until string
}

// Find returns the Finding of an AReq that does not keep a rule, which [Sheet.Check] found at a time. The AReq is known
// by its version, channel and category as text. If the sheet no longer has the rule, the Finding has only what the name
// says.
func (s *Sheet) Find(name RuleName, version, channel, category string, at time.Time) *Finding {
	if r := s.findRule(name, version, channel, category); r != nil {
		if at.Before(r.since) {
			return &r.later
		}
		return &r.now
	}
	return &Finding{
		Element: name.Element, Elements: strings.Split(name.Element, "|"), Rule: name.Kind,
		InForce: name.Since <= at.UTC().Format(time.DateOnly),
		Text:    name.Element + ": " + string(name.Kind.Level()),
	}
}

// findRule returns the rule of a name; nil if the sheet does not have it.
func (s *Sheet) findRule(name RuleName, version, channel, category string) *rule {
	v, ok := message.ParseVersion(version)
	if s == nil || !ok {
		return nil
	}
	ch, isChannel := message.ParseChannel(channel)
	if !isChannel {
		ch = anyChannel
	}
	cat, isCategory := message.ParseCategory(category)
	if !isCategory {
		cat = anyCategory
	}
	rules := s.rules[v][ch][cat]
	for i := range rules {
		r := &rules[i]
		if r.now.Element != name.Element {
			continue
		}
		since, _ := r.now.Since.Days()
		if _, until := r.now.Until.Days(); name == (RuleName{r.now.Element, r.now.Rule, since, until}) {
			return r
		}
	}
	return nil
}

// Name is how the operator's own rules call the scheme; "" without such rules.
func (s *Sheet) Name() string {
	if s == nil {
		return ""
	}
	return s.name
}

// RIDs returns the registered application provider identifiers of the scheme, by which an app's
// SDK calls its directory server (EMV 3DS 2.2.0, SDK: directoryServerID). Those of the operator
// stand first; nil if none is known.
func (s *Sheet) RIDs() (rids []string) {
	if s == nil {
		return nil
	}
	for _, f := range slices.Backward(s.facts) {
		if f.Kind == RID && !slices.Contains(rids, f.Element) {
			rids = append(rids, f.Element)
		}
	}
	return rids
}

// A CodeMeaning is a code of a scheme's own and what it means.
type CodeMeaning struct {
	Code    string `json:"code"`
	Meaning string `json:"meaning"`
}

// Codes returns the codes of an element that have a meaning of the scheme's own, such as its table
// of eci, in their order.
func (s *Sheet) Codes(element string) []CodeMeaning {
	if s == nil {
		return nil
	}
	codes := make([]CodeMeaning, 0, len(s.codes[element]))
	for code, meaning := range s.codes[element] {
		codes = append(codes, CodeMeaning{code, meaning})
	}
	slices.SortFunc(codes, func(a, b CodeMeaning) int { return strings.Compare(a.Code, b.Code) })
	return codes
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
// keeps a Format or Closed: that is an error by the protocol.
func (r *rule) isKept(areq *message.Message) bool {
	if !r.condition.isMet(areq) {
		return true
	}
	switch r.now.Rule {
	case Format:
		value := text(areq, r.now.Element)
		return len(value) == 0 || r.pattern.fits(value)
	case Closed:
		raw := areq.Raw(r.now.Element)
		if !bytes.Contains(raw, []byte(`"8`)) && !bytes.Contains(raw, []byte(`"9`)) && bytes.IndexByte(raw, '\\') < 0 {
			return true
		}
		return !slices.ContainsFunc(areq.Strings(r.now.Element), func(code string) bool {
			return len(code) == 2 && code >= "80" && code <= "99" && r.codes[code] == ""
		})
	}
	wanted := r.now.Rule == Require || r.now.Rule == Advise
	return slices.ContainsFunc(r.now.Elements, areq.Has) == wanted
}

// isMet reports whether the condition is true of an AReq. Of several values in the AReq one is enough.
func (c *Condition) isMet(areq *message.Message) bool {
	if c.Element == "" {
		return true
	}
	if value := text(areq, c.Element); value != nil {
		return slices.Contains(c.Values, string(value))
	}
	return slices.ContainsFunc(areq.Strings(c.Element), func(value string) bool {
		return slices.Contains(c.Values, value)
	})
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

// Level returns what the rule asks for. A form, a code that has to be known, and a version
// that has not ended are required.
func (k Kind) Level() api.Level {
	switch k {
	case Advise, WhereDue:
		return api.LevelAdvised
	case Ignore:
		return api.LevelIgnored
	case Forbid:
		return api.LevelForbidden
	}
	return api.LevelRequired
}

// A Requirement is what a scheme asks of AReqs: an entry of `requires` in the answer of /lookup.
type Requirement struct {
	Elements     []string // of several one is enough, or none is allowed
	Level        api.Level
	Channels     []message.Channel // in which it counts
	Categories   []message.Category
	If           Condition
	Since, Until Date
	InForce      bool // whether it counts now; if not, it will from Since on
	Certainty    Certainty
	Sources      []Source
	Remark       string
	Effect       string // what happens to a request that does not agree; "" if that is not known
}

// Requirements returns what the scheme requires, advises, ignores and forbids in AReqs of a
// version, at the time now or later. Forms and codes are not among it.
func (s *Sheet) Requirements(v message.Version, now time.Time) []Requirement {
	if s == nil {
		return nil
	}
	var all []Requirement
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != Require && f.Kind != Advise && f.Kind != Ignore && f.Kind != Forbid {
			continue
		}
		r := Requirement{
			Level: f.Kind.Level(), If: f.If, Since: f.Since, Until: f.Until, InForce: !now.Before(f.Since.first),
			Certainty: f.Certainty, Sources: f.Sources, Remark: f.Remark, Effect: f.Effect,
		}
		for _, ch := range message.Channels() {
			for _, cat := range message.Categories() {
				names := f.elementsIn(v, ch, cat)
				if names == nil {
					continue
				}
				r.Elements = appendNew(r.Elements, names...)
				r.Channels = appendNew(r.Channels, ch)
				r.Categories = appendNew(r.Categories, cat)
			}
		}
		if r.Elements != nil && (f.Until.text == "" || now.Before(f.Until.last)) {
			all = append(all, r)
		}
	}
	return all
}

// appendNew appends those of more that a list does not have yet.
func appendNew[T comparable](list []T, more ...T) []T {
	for _, x := range more {
		if !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	return list
}
