package api

import (
	"cmp"
	"strings"
)

// A Problem is the body of an answer that is no success, as application/problem+json (RFC 9457).
type Problem struct {
	Type   string  `json:"type"` // Of the merchant's API "urn:threeds:problem:" and a name, of the admin API about:blank.
	Title  string  `json:"title"`
	Status int     `json:"status"` // Of HTTP.
	Detail string  `json:"detail,omitempty"`
	Faults []Fault `json:"errors,omitempty"` // What is wrong with the request, element by element.
}

// Error returns title and detail, and of each fault where it is, its rule, and what to do.
func (p *Problem) Error() string {
	parts := []string{p.Title}
	if p.Detail != "" {
		parts = append(parts, p.Detail)
	}
	var faults []string
	for i := range p.Faults {
		f := &p.Faults[i]
		faults = append(faults, strings.TrimSpace(f.Where()+" "+f.Rule)+": "+f.Cure)
	}
	if faults != nil {
		parts = append(parts, strings.Join(faults, "; "))
	}
	return strings.Join(parts, ": ")
}

// A Fault is one fault of a request: where, by which rule, what would be right, and what to do. It never has a value of
// the request. One of pointer, parameter and header says where.
type Fault struct {
	Pointer   *string `json:"pointer,omitempty"`   // RFC 6901, into the body; empty for the whole body.
	Parameter string  `json:"parameter,omitempty"` // Of the query.
	Header    string  `json:"header,omitempty"`    // The name of a header.

	Code   string `json:"code" schema:"pattern=^[0-9]{3}$"` // The errorCode that EMV 3DS has for such a fault.
	Rule   string `json:"rule"`
	Limit  *Limit `json:"limit"`
	Found  *Found `json:"found"`
	Cure   string `json:"cure"`
	Source Text   `json:"source"`
}

// Where returns the header, the parameter or the pointer of a fault; empty for the whole body.
func (f *Fault) Where() string {
	if f.Pointer != nil {
		return *f.Pointer
	}
	return cmp.Or(f.Header, f.Parameter)
}

// A Limit is what would be right in the place of a fault: numbers of characters, of items or values, a
// form, or a list of codes.
type Limit struct {
	Min     *int     `json:"min,omitempty"`
	Max     *int     `json:"max,omitempty"`
	Pattern string   `json:"pattern,omitempty"`
	Allowed []string `json:"allowed,omitempty"`
}

// Found is what may be said of the value that was sent.
type Found struct {
	Length *int   `json:"length,omitempty"` // Characters of a string, items of an array.
	Type   string `json:"type,omitempty" schema:"enum=string|number|boolean|null|array|object"`
	Class  string `json:"class,omitempty" schema:"enum=digits|letters|printable|non-ascii|control"` // Of a string.
}
