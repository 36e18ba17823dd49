package scheme

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/message"
)

// every is the word for the facts of all schemes.
const every = "every"

// read reads a text of profiles. Anything that it does not understand is an error that
// names the line.
func read(text string) ([]Profile, error) {
	var all []Profile
	var faults []error
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := readLine(&all, line, i+1); err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", i+1, err))
		}
	}
	if all == nil && faults == nil {
		faults = append(faults, errors.New("line 1: no scheme"))
	}
	return all, errors.Join(faults...)
}

// readLine reads a line that is neither empty nor a comment: the heading of a scheme, which
// begins a profile, or a fact of the last one. The number of the line is that in the text.
func readLine(all *[]Profile, line string, number int) error {
	if head, ok := strings.CutPrefix(line, "scheme "); ok {
		word, name, _ := strings.Cut(strings.TrimSpace(head), " ")
		name = strings.TrimSpace(name)
		switch {
		case !wordForm.MatchString(word):
			return fmt.Errorf("%q is no word for a scheme (%s)", word, WordForm)
		case name == "":
			return errors.New("a scheme without a name")
		case slices.ContainsFunc(*all, func(p Profile) bool { return p.Scheme == word }):
			return fmt.Errorf("scheme %s twice", word)
		}
		*all = append(*all, Profile{Scheme: word, Name: name, line: number})
		return nil
	}
	if len(*all) == 0 {
		return errors.New("a fact before the first scheme")
	}
	f, err := readFact(line)
	if err != nil {
		return err
	}
	p := &(*all)[len(*all)-1]
	for _, g := range p.Facts {
		if g.isAbout(f) {
			return fmt.Errorf("%s %s twice", f.Kind, f.Element)
		}
	}
	p.Facts = append(p.Facts, f)
	return nil
}

// isAbout reports whether f and g are about the same: the same element and kind, for codes the
// same codes, or two answers to whether the element is asked for.
func (f Fact) isAbout(g Fact) bool {
	switch {
	case f.Element != g.Element:
		return false
	case f.Kind == Code && g.Kind == Code:
		return f.From <= g.To && g.From <= f.To
	case f.Kind == g.Kind:
		return true
	}
	asks := []Kind{Require, Advise, WhereDue}
	return slices.Contains(asks, f.Kind) && slices.Contains(asks, g.Kind)
}

// readFact reads a line that states a fact.
func readFact(line string) (Fact, error) {
	parts := strings.Split(line, ";")
	if len(parts) < 2 || len(parts) > 3 {
		return Fact{}, errors.New("want a fact; its source and certainty; perhaps a remark")
	}
	var f Fact
	if len(parts) == 3 {
		if f.Remark = strings.TrimSpace(parts[2]); f.Remark == "" {
			return Fact{}, errors.New("an empty remark")
		}
	}
	if err := f.readSource(strings.Fields(parts[1])); err != nil {
		return Fact{}, err
	}
	stated := strings.Fields(parts[0])
	if len(stated) < 2 {
		return Fact{}, errors.New("a fact that says nothing")
	}
	f.Kind, f.Element = Kind(stated[0]), stated[1]
	return f, f.readStatement(stated[2:])
}

func (f *Fact) readSource(marks []string) error {
	if len(marks) != 2 {
		return errors.New("want a source and a certainty")
	}
	f.Source = Source(marks[0])
	if !slices.Contains([]Source{PublicStandard, VendorDoc, Memory}, f.Source) {
		return fmt.Errorf("unknown source %q", marks[0])
	}
	switch marks[1] {
	case "sure":
		f.Sure = true
	case "unsure":
	default:
		return fmt.Errorf("unknown certainty %q", marks[1])
	}
	if f.Sure && f.Source == Memory {
		return errors.New("memory is never sure")
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
	case Require, Advise, WhereDue, Format, Closed:
		if !isInAReq(f.Element) {
			return fmt.Errorf("%q is no element of an AReq that a requestor sends", f.Element)
		}
	case Note, Code:
		if !isElement(f.Element) {
			return fmt.Errorf("%q is no element of any message", f.Element)
		}
	default:
		return fmt.Errorf("unknown kind of fact %q", string(f.Kind))
	}
	var err error
	f.Text = strings.Join(rest, " ")
	switch f.Kind {
	case Require, Advise:
		f.Text = ""
		return f.readColumns(rest)
	case WhereDue, Closed:
		return wantEnd(rest)
	case Format:
		f.pattern, err = readPattern(f.Text)
	case Note:
		if len(rest) == 0 {
			err = errors.New("an empty note")
		}
	case Code:
		return f.readCode(rest)
	}
	return err
}

// wantEnd returns an error unless the statement ends here.
func wantEnd(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("nothing may follow: %q", rest[0])
	}
	return nil
}

// readColumns reads "in" and the columns after it, if there are any.
func (f *Fact) readColumns(rest []string) error {
	if len(rest) == 0 {
		return nil
	}
	if rest[0] != "in" || len(rest) == 1 {
		return errors.New("want in, and columns")
	}
	for _, word := range rest[1:] {
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
