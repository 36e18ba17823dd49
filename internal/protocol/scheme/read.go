package scheme

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/message"
)

// every is the word for the facts of all schemes.
const every = "every"

// A reader reads a text of profiles.
type reader struct {
	profiles []Profile
	sources  map[string]Source // by word
}

// read reads a text of profiles. Anything that it does not understand is an error that
// names the line.
func read(text string) ([]Profile, error) {
	r := reader{sources: make(map[string]Source)}
	for _, s := range plainSources {
		r.sources[s.Word] = s
	}
	var faults []error
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := r.readLine(line, i+1); err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", i+1, err))
		}
	}
	if r.profiles == nil && faults == nil {
		faults = append(faults, errors.New("line 1: no scheme"))
	}
	return r.profiles, errors.Join(faults...)
}

// readLine reads a line that is neither empty nor a comment: a source, the heading of a
// scheme, which begins a profile, or a fact of the last one. The number of the line is that
// in the text.
func (r *reader) readLine(line string, number int) error {
	if rest, ok := strings.CutPrefix(line, "source "); ok {
		return r.readSourceLine(strings.Fields(rest))
	}
	if head, ok := strings.CutPrefix(line, "scheme "); ok {
		return r.readHeading(head, number)
	}
	if len(r.profiles) == 0 {
		return errors.New("a fact before the first scheme")
	}
	f, err := r.readFact(line)
	if err != nil {
		return err
	}
	p := &r.profiles[len(r.profiles)-1]
	for i := range p.Facts {
		if p.Facts[i].contradicts(&f) {
			return fmt.Errorf("%s %s twice", f.Kind, f.Element)
		}
	}
	p.Facts = append(p.Facts, f)
	return nil
}

// readSourceLine reads a source: its word, its date, its address and its title.
func (r *reader) readSourceLine(words []string) error {
	if len(words) < 4 {
		return errors.New("want source WORD DATE URL TITLE")
	}
	s := Source{Word: words[0], Date: words[1], URL: words[2], Title: strings.Join(words[3:], " ")}
	if _, isKnown := r.sources[s.Word]; isKnown {
		return fmt.Errorf("source %s twice", s.Word)
	}
	if !wordForm.MatchString(s.Word) || isCertainty(s.Word) {
		return fmt.Errorf("%q is no word for a source (%s)", s.Word, WordForm)
	}
	if _, isDate := readDate(s.Date); !isDate {
		return fmt.Errorf("%q is no date (2024-08-12, 2024-08 or 2024)", s.Date)
	}
	if s.URL == "-" {
		s.URL = ""
	} else if u, err := url.Parse(s.URL); err != nil || u.Scheme != "https" || u.Host == "" {
		return errors.New("the address of a source is an https URL, or - where it is not public")
	}
	r.sources[s.Word] = s
	return nil
}

// readHeading reads the word and the name of a scheme.
func (r *reader) readHeading(head string, number int) error {
	word, name, _ := strings.Cut(strings.TrimSpace(head), " ")
	name = strings.TrimSpace(name)
	switch {
	case !wordForm.MatchString(word):
		return fmt.Errorf("%q is no word for a scheme (%s)", word, WordForm)
	case name == "":
		return errors.New("a scheme without a name")
	case slices.ContainsFunc(r.profiles, func(p Profile) bool { return p.Scheme == word }):
		return fmt.Errorf("scheme %s twice", word)
	}
	r.profiles = append(r.profiles, Profile{Scheme: word, Name: name, line: number})
	return nil
}

// contradicts reports whether f and g say the same or, both being sure, cannot both be true.
// What different sources say of one thing stands side by side, as long as one is not sure.
func (f *Fact) contradicts(g *Fact) bool {
	if f.statement == g.statement {
		return true
	}
	if f.Element != g.Element || f.OneOf != nil || g.OneOf != nil {
		return false
	}
	asks := []Kind{Require, Advise, WhereDue, Forbid}
	switch {
	case f.Kind == Code && g.Kind == Code:
		return f.From <= g.To && g.From <= f.To
	case f.Kind == g.Kind && !f.isRule():
		return true
	case f.Kind != g.Kind && !(slices.Contains(asks, f.Kind) && slices.Contains(asks, g.Kind)):
		return false
	case f.Certainty != Sure || g.Certainty != Sure, f.If.Element != "" || g.If.Element != "":
		return false
	}
	return f.overlaps(g)
}

// overlaps reports whether there is a column and a day in which both facts hold.
func (f *Fact) overlaps(g *Fact) bool {
	for _, dimension := range dimensions {
		isInBoth := func(word string) bool { return f.isIn(word, dimension) && g.isIn(word, dimension) }
		if !slices.ContainsFunc(dimension, isInBoth) {
			return false
		}
	}
	isBefore := func(f, g *Fact) bool { return f.Until.text != "" && !f.Until.last.After(g.Since.first) }
	return !isBefore(f, g) && !isBefore(g, f)
}

// isIn reports whether the fact holds in a column of a dimension.
func (f *Fact) isIn(word string, dimension []string) bool {
	named := slices.ContainsFunc(f.In, func(s string) bool { return slices.Contains(dimension, s) })
	return !named || slices.Contains(f.In, word)
}

// readFact reads a line that states a fact.
func (r *reader) readFact(line string) (Fact, error) {
	parts := strings.Split(line, ";")
	if len(parts) < 2 || len(parts) > 4 {
		return Fact{}, errors.New("want a fact; its sources and certainty; perhaps a remark; perhaps what happens")
	}
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	var f Fact
	if len(parts) > 2 {
		f.Remark = parts[2]
	}
	if len(parts) > 3 {
		f.Effect = parts[3]
	}
	if last := parts[len(parts)-1]; len(parts) > 2 && last == "" {
		return Fact{}, errors.New("an empty remark")
	}
	if err := r.readSources(&f, strings.Fields(parts[1])); err != nil {
		return Fact{}, err
	}
	stated := strings.Fields(parts[0])
	if len(stated) < 2 {
		return Fact{}, errors.New("a fact that says nothing")
	}
	f.Kind, f.Element, f.statement = Kind(stated[0]), stated[1], strings.Join(stated, " ")
	return f, f.readStatement(stated[2:])
}

// isCertainty reports whether a word is one for how far a fact can be relied on.
func isCertainty(word string) bool {
	return slices.Contains([]Certainty{Sure, OneSource, Disputed, Unsure}, Certainty(word))
}

// readSources reads the sources of a fact and, as the last word, its certainty.
func (r *reader) readSources(f *Fact, marks []string) error {
	if len(marks) < 2 {
		return errors.New("want a source and a certainty")
	}
	last := len(marks) - 1
	for _, word := range marks[:last] {
		s, isKnown := r.sources[word]
		if !isKnown {
			return fmt.Errorf("unknown source %q (a line source WORD DATE URL TITLE before it names one)", word)
		}
		f.Sources = append(f.Sources, s)
	}
	if !isCertainty(marks[last]) {
		return fmt.Errorf("unknown certainty %q (sure, one-source, disputed or unsure)", marks[last])
	}
	f.Certainty = Certainty(marks[last])
	if f.Certainty != Unsure && f.Sources[0].Word == memory {
		return errors.New("memory is always unsure")
	}
	return nil
}

// readStatement reads what follows the kind and the element of a fact.
func (f *Fact) readStatement(rest []string) error {
	switch f.Kind {
	case RID:
		if !ridForm.MatchString(f.Element) {
			return fmt.Errorf("%q is no RID", f.Element)
		}
		return wantEnd(rest)
	case Extension:
		return f.readExtension(rest)
	case Require, Advise, Ignore, Forbid, Ended, WhereDue, Format, Closed:
		return f.readRule(rest)
	case Note, Code:
		if !isElement(f.Element) {
			return fmt.Errorf("%q is no element of any message", f.Element)
		}
	default:
		return fmt.Errorf("unknown kind of fact %q", string(f.Kind))
	}
	if f.Kind == Code {
		return f.readCode(rest)
	}
	if f.Text = strings.Join(rest, " "); f.Text == "" {
		return errors.New("an empty note")
	}
	return nil
}

// readRule reads what follows the kind and the first element of a fact about AReqs.
func (f *Fact) readRule(rest []string) error {
	words, limits := rest, []string(nil)
	if i := slices.IndexFunc(rest, isClause); i >= 0 {
		words, limits = rest[:i], rest[i:]
	}
	if f.Element == "one-of" && (f.Kind == Require || f.Kind == Advise) {
		f.OneOf, f.Element, words = words, joinMembers(words), nil
		if len(f.OneOf) < 2 {
			return errors.New("one-of wants two elements or more")
		}
	}
	for i, name := range f.members() {
		if !isInAReq(name) {
			return fmt.Errorf("%q is no element of an AReq that a requestor sends", name)
		}
		if slices.Contains(f.members()[:i], name) {
			return fmt.Errorf("%s twice in one-of", name)
		}
	}
	var err error
	if f.Kind == Format {
		if f.Text, words = strings.Join(words, " "), nil; f.Text == "" {
			return errors.New("an empty pattern")
		}
		f.pattern, err = readPattern(f.Text)
	}
	if err == nil && len(words) > 0 {
		err = fmt.Errorf("want in, if, since or until, and not %q", words[0])
	}
	if err == nil {
		err = f.readClauses(limits)
	}
	if err == nil && f.Kind == Ended && (f.Element != "messageVersion" || !slices.ContainsFunc(f.In, isVersion)) {
		err = errors.New("want ended messageVersion in, and versions")
	}
	return err
}

// clauses are the words that begin a clause of a rule, with what reads it.
var clauses = map[string]func(*Fact, []string) error{
	"in": (*Fact).readColumns, "if": (*Fact).readCondition, "since": (*Fact).readSince, "until": (*Fact).readUntil,
}

func isClause(word string) bool { return clauses[word] != nil }

func isVersion(word string) bool { _, ok := message.ParseVersion(word); return ok }

// readClauses reads the clauses of a rule, each of them at most once.
func (f *Fact) readClauses(rest []string) error {
	seen := map[string]bool{}
	for len(rest) > 0 {
		word := rest[0]
		end := 1 + slices.IndexFunc(rest[1:], isClause)
		if end == 0 {
			end = len(rest)
		}
		if seen[word] {
			return fmt.Errorf("%s twice", word)
		}
		seen[word] = true
		if err := clauses[word](f, rest[1:end]); err != nil {
			return err
		}
		rest = rest[end:]
	}
	if f.Since.text != "" && f.Until.text != "" && !f.Since.first.Before(f.Until.last) {
		return errors.New("until lies before since")
	}
	return nil
}

func (f *Fact) readSince(words []string) (err error) {
	f.Since, err = readOneDate("since", words)
	return err
}

func (f *Fact) readUntil(words []string) (err error) {
	f.Until, err = readOneDate("until", words)
	return err
}

func readOneDate(clause string, words []string) (Date, error) {
	if len(words) == 1 {
		if d, ok := readDate(words[0]); ok {
			return d, nil
		}
	}
	return Date{}, fmt.Errorf("want %s and a date (2024-08-12, 2024-08 or 2024)", clause)
}

// readCondition reads the element of a condition, the word is, and values.
func (f *Fact) readCondition(words []string) error {
	if len(words) < 3 || words[1] != "is" {
		return errors.New("want if ELEMENT is, and values")
	}
	if !isInAReq(words[0]) {
		return fmt.Errorf("%q is no element of an AReq that a requestor sends", words[0])
	}
	f.If = Condition{words[0], words[2:]}
	return nil
}

// wantEnd returns an error unless the statement ends here.
func wantEnd(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("nothing may follow: %q", rest[0])
	}
	return nil
}

// readColumns reads the columns of a clause in.
func (f *Fact) readColumns(words []string) error {
	if len(words) == 0 {
		return errors.New("want in, and columns")
	}
	for _, word := range words {
		if slices.Contains(f.In, word) {
			return fmt.Errorf("column %q twice", word)
		}
		if !slices.ContainsFunc(dimensions, func(of []string) bool { return slices.Contains(of, word) }) {
			return fmt.Errorf("unknown column %q", word)
		}
		f.In = append(f.In, word)
	}
	return nil
}

// dimensions are the words for columns: those for channels, categories and versions.
var dimensions = [][]string{texts(message.Channels()), texts(message.Categories()), texts(message.Versions())}

func texts[T fmt.Stringer](all []T) []string {
	var s []string
	for _, x := range all {
		s = append(s, x.String())
	}
	return s
}

var (
	ridForm  = regexp.MustCompile(`^A[0-9]{9}$`)
	codeForm = regexp.MustCompile(`^[0-9A-Z][0-9]$`)
	idForm   = regexp.MustCompile(`^(A[0-9]{9}[A-Za-z0-9-]{1,54}|[A-Z]{2,8}-[A-Za-z0-9]{1,54})$`)
)

// readCode reads a code, or a range of codes, and its meaning.
func (f *Fact) readCode(rest []string) error {
	if len(rest) < 2 {
		return errors.New("want a code and its meaning")
	}
	from, to, span := strings.Cut(rest[0], "-")
	if !span {
		to = from
	}
	if !codeForm.MatchString(from) || !codeForm.MatchString(to) || span && (from >= to || to[0] > '9') {
		return fmt.Errorf("%q is no code", rest[0])
	}
	if f.Element != "eci" && (from < "80" || to > "99") {
		return fmt.Errorf("%q is not left to the schemes, 80-99 are", rest[0])
	}
	f.From, f.To, f.Text = from, to, strings.Join(rest[1:], " ")
	return nil
}

// readExtension reads the messages and versions of an extension, its
// criticality, and its name.
func (f *Fact) readExtension(rest []string) error {
	if !idForm.MatchString(f.Element) {
		return fmt.Errorf("%q is no id of an extension", f.Element)
	}
	for i, word := range rest {
		_, isType := message.ParseType(word)
		_, isVersion := message.ParseVersion(word)
		switch {
		case isType || isVersion:
			f.In = append(f.In, word)
			continue
		case word != Critical && word != NonCritical && word != Unknown:
			return fmt.Errorf("want a message, a version, %s, %s or %s: %q", Critical, NonCritical, Unknown, word)
		}
		f.Criticality, f.Text = word, strings.Join(rest[i+1:], " ")
		break
	}
	if f.Text == "" {
		return errors.New("an extension without a name")
	}
	return nil
}

// isInAReq reports whether a requestor's AReq has the element in some version.
func isInAReq(name string) bool {
	return slices.ContainsFunc(message.Versions(), func(v message.Version) bool {
		row := message.TableOf(message.AReq, v).Field(name)
		return row != nil && !row.DS
	})
}

// isElement reports whether some message, or an object within one, has the element.
func isElement(name string) bool {
	for _, v := range message.Versions() {
		for _, t := range message.Types() {
			if message.TableOf(t, v).Field(name) != nil {
				return true
			}
		}
		for _, object := range message.ObjectNames() {
			if t := message.ObjectTable(object, v); t != nil && t.Field(name) != nil {
				return true
			}
		}
	}
	return false
}
