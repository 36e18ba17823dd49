// Package scenario reads the texts below sandbox/scenarios, which say what the sandbox does: their lines, their
// patterns of card numbers, and their faults by merchant.
package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Fault is how a message goes wrong for a merchant.
type Fault struct {
	Message    string // "ARes", "PARes"
	Kind       string
	Code, Text string // of erro, status and reason; in 1.0.2 of ireq, error and status
	Element    string // of other and without
}

// Is reports whether a fault is that one: of the message, of a kind and, where the
// kind has them, for an element.
func (f Fault) Is(message, kind string, element ...string) bool {
	return f.Message == message && f.Kind == kind && (element == nil || f.Element == element[0])
}

// Faults are those of a table, by the id of the merchant.
type Faults map[string]Fault

// Find returns the fault of a merchant, none for most. An id that ends in two dots stands for
// all that end in two digits, which are then its code.
func (m Faults) Find(id string) Fault {
	end := max(0, len(id)-2)
	if f, known := m[id[:end]+".."]; known && IsDigits(id[end:]) {
		f.Code = id[end:]
		return f
	}
	return m[id]
}

// EachLine calls read with every line of a table that is not empty, without comments. The error names the lines.
func EachLine(text string, read func(line string) error) error {
	var faults []error
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := read(line); err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", i+1, err))
		}
	}
	return errors.Join(faults...)
}

// ReadLine reads an id of up to longest characters and its fault. kinds has what may follow each kind of fault: a code
// and a text, a code, one of some elements, or nothing.
func (m Faults) ReadLine(line string, longest int, kinds map[string]string) error {
	id, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	if _, twice := m[id]; twice || id == "" || len(id) > longest {
		return fmt.Errorf("merchant %q: want 1-%d characters, each id once", id, longest)
	}
	f, err := readFault(strings.Fields(rest), kinds)
	m[id] = f
	return err
}

func readFault(words []string, kinds map[string]string) (Fault, error) {
	if len(words) < 2 {
		return Fault{}, errors.New("want a message and what is wrong with it")
	}
	f := Fault{Message: words[0], Kind: words[1]}
	rest := words[2:]
	wants, known := kinds[f.Message+" "+f.Kind]
	switch {
	case !known:
	case wants == "" && len(rest) == 0:
		return f, nil
	case wants == "code" && len(rest) == 1 && IsDigits(rest[0]):
		f.Code = rest[0]
		return f, nil
	case wants == "code text" && len(rest) > 1 && IsDigits(rest[0]):
		f.Code, f.Text = rest[0], strings.Join(rest[1:], " ")
		return f, nil
	case !strings.HasPrefix(wants, "code") && len(rest) == 1 && slices.Contains(strings.Fields(wants), rest[0]):
		f.Element = rest[0]
		return f, nil
	}
	return f, fmt.Errorf("%q is no fault", strings.Join(words, " "))
}

// A Pattern is digits, dots for any digit, and stars at the ends.
type Pattern struct {
	Text       string
	Head, Tail bool // any digits before, any digits after
}

// Match reports whether a card number has the pattern.
func (p Pattern) Match(pan string) bool {
	last := len(pan) - len(p.Text)
	for at := 0; at <= last; at++ {
		if (at == 0 || p.Head) && (at == last || p.Tail) && p.begins(pan[at:]) {
			return true
		}
	}
	return false
}

// begins reports whether digits begin with the pattern. There must be enough of them.
func (p Pattern) begins(digits string) bool {
	for i := range p.Text {
		if p.Text[i] != '.' && p.Text[i] != digits[i] {
			return false
		}
	}
	return true
}

// ReadPattern reads a pattern.
func ReadPattern(text string) (Pattern, error) {
	var p Pattern
	p.Text, p.Head = strings.CutPrefix(text, "*")
	p.Text, p.Tail = strings.CutSuffix(p.Text, "*")
	if strings.Trim(p.Text, "0123456789.") != "" || text == "" || len(p.Text) > 19 {
		return p, fmt.Errorf("pattern %q: want digits and dots with a star at either end", text)
	}
	return p, nil
}

// IsDigits reports whether a text has nothing but digits.
func IsDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
