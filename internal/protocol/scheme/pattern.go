package scheme

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A pattern is the form of a value: parts in a row. A part takes as many characters as it
// can, and there is no backtracking; readPattern refuses patterns that would need it.
type pattern []part

// A part is a literal text, or min to max characters of a kind.
type part struct {
	text     string // "": any characters of the kind
	kind     string // "n": digits, "an": digits and letters, "x": printable ASCII; "" with a text
	min, max int
}

func readPattern(text string) (pattern, error) {
	var p pattern
	for _, word := range strings.Fields(text) {
		q, err := readPart(word)
		if err != nil {
			return nil, err
		}
		if len(p) > 0 {
			if last := p[len(p)-1]; last.min != last.max && (q.text == "" || last.takes(q.text[0])) {
				return nil, fmt.Errorf("where the part before %q ends is not clear", word)
			}
		}
		p = append(p, q)
	}
	if len(p) == 0 {
		return nil, errors.New("an empty pattern")
	}
	return p, nil
}

func readPart(word string) (part, error) {
	if inner, ok := strings.CutPrefix(word, `"`); ok {
		inner, ok = strings.CutSuffix(inner, `"`)
		if !ok || inner == "" || strings.ContainsAny(inner, `"\`) {
			return part{}, fmt.Errorf("%q is no text in quotes", word)
		}
		return part{text: inner, min: len(inner), max: len(inner)}, nil
	}
	size := strings.TrimLeft(word, "anx")
	p := part{kind: word[:len(word)-len(size)]}
	if p.kind != "n" && p.kind != "an" && p.kind != "x" {
		return part{}, fmt.Errorf("unknown part %q", word)
	}
	least, most, span := strings.Cut(size, "-")
	if !span {
		most = least
	}
	var err, err2 error
	p.min, err = strconv.Atoi(least)
	p.max, err2 = strconv.Atoi(most)
	if err != nil || err2 != nil || p.min < 1 || p.max < p.min || p.max > 100 {
		return part{}, fmt.Errorf("%q has no size", word)
	}
	return p, nil
}

// takes reports whether c is of the kind of the part.
func (p part) takes(c byte) bool {
	digit := c >= '0' && c <= '9'
	switch p.kind {
	case "n":
		return digit
	case "an":
		return digit || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	case "x":
		return c >= ' ' && c <= '~'
	}
	return false
}

// fits reports whether a value has the form.
func (p pattern) fits(value []byte) bool {
	for _, q := range p {
		n := 0
		if q.text != "" {
			if len(value) < len(q.text) || string(value[:len(q.text)]) != q.text {
				return false
			}
			n = len(q.text)
		}
		for q.kind != "" && n < q.max && n < len(value) && q.takes(value[n]) {
			n++
		}
		if n < q.min {
			return false
		}
		value = value[n:]
	}
	return len(value) == 0
}
