package message

import (
	"fmt"
	"slices"
	"strings"
)

// Codes is a list of codes as it is in one version and for one element.
type Codes struct {
	Name   string
	Values []CodeValue
	Ranges []CodeRange
	Open   bool // whatever has as many digits is accepted

	pairs [100]Code // what check says of "00" to "99"
}

// A CodeValue is one code and what it means.
type CodeValue struct {
	Value, Meaning string
	Tolerated      bool // accepted from others, never sent
}

// A CodeRange is a range of codes without a meaning of their own.
type CodeRange struct {
	From, To string
	DS       bool // left to payment systems, valid; otherwise reserved by EMVCo, invalid
}

// check says what is wrong with a code: nothing, Format, or Reserved, which
// older versions do not know.
func (c *Codes) check(code []byte, v Version) Code {
	if len(code) == 2 && isDigit(code[0]) && isDigit(code[1]) {
		return c.pairs[10*(code[0]-'0')+code[1]-'0']
	}
	return c.search(code, v)
}

func (c *Codes) search(code []byte, v Version) Code {
	for i := range c.Values {
		if c.Values[i].Value == string(code) {
			return 0
		}
	}
	for i := range c.Ranges {
		r := &c.Ranges[i]
		switch {
		case len(code) != len(r.From) || !allDigits(code) || string(code) < r.From || string(code) > r.To:
		case r.DS:
			return 0
		case v >= V231:
			return Reserved
		}
	}
	if c.Open && allDigits(code) && len(code) == len(c.Values[0].Value) {
		return 0
	}
	return Format
}

// size is the length of the codes.
func (c *Codes) size() (lo, hi int) {
	lo = len(c.Values[0].Value)
	for _, v := range c.Values {
		lo, hi = min(lo, len(v.Value)), max(hi, len(v.Value))
	}
	return lo, hi
}

// A versionSet says which versions have a code.
type versionSet uint8

const (
	only210  versionSet = 1 << V210
	only220  versionSet = 1 << V220
	from231  versionSet = 1 << V231
	until220            = only210 | only220
	from220             = only220 | from231
	every               = only210 | only220 | from231
)

func (s versionSet) has(v Version) bool { return s>>v&1 != 0 }

// A code is an entry of a list.
type code struct {
	value, meaning string
	in             versionSet
}

// A codeRange is a range of a list.
type codeRange struct {
	from, to string
	in       versionSet
}

// A codeList is a list with what belongs to which version.
type codeList struct {
	values    []code
	tolerated []code
	emvco, ds []codeRange
	open      bool
}

// codesFor is a list in one version, or those codes of it that only names.
func codesFor(name, only string, v Version) *Codes {
	list, ok := codeLists[name]
	if !ok {
		panic("message: no code list " + name)
	}
	c := &Codes{Name: name, Open: list.open}
	allowed := strings.Fields(only)
	for _, x := range list.values {
		if x.in.has(v) && (only == "" || slices.Contains(allowed, x.value)) {
			c.Values = append(c.Values, CodeValue{Value: x.value, Meaning: x.meaning})
		}
	}
	if only != "" && len(c.Values) != len(allowed) {
		panic(fmt.Sprintf("message: %s: list %s lacks some of %s", v, name, only))
	}
	if len(c.Values) == 0 {
		panic(fmt.Sprintf("message: %s: list %s is empty", v, name))
	}
	for _, x := range list.tolerated {
		if x.in.has(v) {
			c.Values = append(c.Values, CodeValue{Value: x.value, Meaning: x.meaning, Tolerated: true})
		}
	}
	for _, r := range list.emvco {
		if r.in.has(v) {
			c.Ranges = append(c.Ranges, CodeRange{From: r.from, To: r.to})
		}
	}
	for _, r := range list.ds {
		if r.in.has(v) {
			c.Ranges = append(c.Ranges, CodeRange{From: r.from, To: r.to, DS: true})
		}
	}
	for i := range c.pairs {
		c.pairs[i] = c.search(fmt.Appendf(nil, "%02d", i), v)
	}
	return c
}
