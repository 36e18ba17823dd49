package inspect

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// A Report is what was found out about a message.
type Report struct {
	Kind     string
	Shown    *message.Message // nil for a PARes and for lines of the request log
	Lines    []RequestLine    // the lines of the request log that were read
	Elements []Element        // of a PARes, those that say nothing secret
	Problems message.Problems
	Foreign  string   // what it is, if it is no message of the protocol
	OfScheme []string // what the scheme says, one line each
	Faults   int      // those of Problems, and those of the scheme
	Warnings []string
	Changes  []message.Change // what /auth would correct
	Unjudged string           // what cannot be said without more than the message
}

// Check checks a message, and holds it against what a card scheme asks for at a time, if of is not "". The error says
// that the text cannot be read, and quotes nothing of it.
func Check(in Input, of string, now time.Time) (*Report, error) {
	r := &Report{Kind: in.Kind}
	if in.XML != nil {
		var err error
		if r.Elements, err = readPARes(in.XML); err != nil {
			return nil, err
		}
		r.Unjudged = "the signature, which needs the roots of a configuration: ask /check"
		return r, nil
	}
	if in.Lines != nil {
		r.addLines(in.Lines, in.Other)
		return r, nil
	}
	// No limits apply: the question is what is wrong, not whether to accept the message.
	m, err := message.Parse(in.Data, message.Limits{Members: -1})
	if err != nil {
		return nil, err
	}
	r.Shown = m
	checked := m
	if in.Kind == "auth-body" {
		built, changes, problems, err := prepareAuthBody(in.Data)
		if err != nil {
			return nil, err
		}
		r.Changes, r.Problems = changes, problems
		if built != nil {
			checked = built
		}
		r.Unjudged = "the state of threeDSServerTransID, and the card's ranges"
	} else {
		var ctx message.Context
		if t, ok := m.Type(); ok && t == message.AReq {
			ctx.AReq = m // conditions of nested objects refer to members of the AReq
		}
		r.Problems = m.Check(ctx)
		for _, p := range m.CheckSent() {
			if !slices.ContainsFunc(r.Problems, func(q message.Problem) bool { return q.Path == p.Path }) {
				r.Problems = append(r.Problems, p)
			}
		}
		r.Unjudged = describeUnjudged(m)
	}
	r.Problems = append(r.Problems, extension.Check(checked)...)
	var isMasked bool
	if r.Problems, isMasked = withoutMasked(m, r.Problems); isMasked {
		r.Warnings = append(r.Warnings, "acctNumber is masked, and was not checked")
	}
	r.Foreign = describeForeign(m)
	var faults int
	r.OfScheme, faults = schemeFindings(of, checked, now)
	r.Faults = len(r.Problems) + faults
	return r, nil
}

// addLines adds lines of the request log: what was wrong with the requests stands there already.
func (r *Report) addLines(lines []RequestLine, other int) {
	r.Lines = lines
	r.Unjudged = "the messages themselves, which the request log does not hold"
	if other == 1 {
		r.Unjudged += ", and 1 line about no request"
	} else if other > 1 {
		r.Unjudged += fmt.Sprintf(", and %d lines about no request", other)
	}
	for i := range lines {
		l, note := &lines[i], ""
		if len(lines)+other > 1 {
			note = fmt.Sprintf("line %d", l.Number)
		}
		r.Problems = append(r.Problems, l.problems(note)...)
		if l.Code == "" && l.HTTP >= 400 {
			r.Warnings = append(r.Warnings,
				strings.TrimPrefix(fmt.Sprintf("%s: HTTP %d", note, l.HTTP), ": "))
		}
	}
	r.Faults = len(r.Problems)
}

// An Element is one of a PARes.
type Element struct{ Name, Text string }

// readPARes returns the elements of a PARes whose signature was not checked, without card number and values of
// authentication.
func readPARes(doc []byte) (all []Element, err error) {
	dec := xml.NewDecoder(bytes.NewReader(doc))
	element := ""
	for {
		token, err := dec.Token()
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, errors.New("the PARes is not well-formed XML")
		}
		switch token := token.(type) {
		case xml.StartElement:
			element = token.Name.Local
		case xml.EndElement:
			element = ""
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); slices.Contains(shownOfPARes, element) && text != "" {
				all = append(all, Element{element, text})
			}
		}
	}
}

// shownOfPARes are the elements of a PARes that say nothing secret.
var shownOfPARes = []string{
	"version", "merID", "acqBIN", "date", "purchAmount", "currency", "exponent", "time", "status", "eci",
}

// schemeFindings returns what a card scheme says about a message, in lines: what it asks for and an
// AReq lacks, or what its own codes in an answer mean. It also returns how many faults there are
// in the sense of scheme_rules: enforce.
func schemeFindings(of string, m *message.Message, now time.Time) (lines []string, faults int) {
	t, known := m.Type()
	switch {
	case !known:
	case t == message.AReq:
		for _, f := range scheme.Public(of).Check(m, now) {
			if f.Code != 0 {
				faults++
			}
			lines = append(lines, fmt.Sprintf("%s: %s\n", of, f.Text))
		}
	case t == message.ARes, t == message.RReq:
		for _, element := range []string{"eci", "transStatusReason"} {
			if meaning := scheme.Public(of).Meaning(element, m.Text(element)); meaning != "" {
				lines = append(lines, fmt.Sprintf("%s: %s: %s\n", of, element, meaning))
			}
		}
	}
	return lines, faults
}

// describeForeign returns what m is if it is not a message of the protocol but something else
// that users of this server come across; else "".
func describeForeign(m *message.Message) string {
	switch {
	case m.Text("messageType") == "CRD":
		return "a CRD is the answer of this server's /preauth, and no message of EMV 3-D Secure"
	case m.Has("messageType"):
		return ""
	case m.Has("cardRangeData"):
		return "card range files have no type: threeds ranges import reads them"
	case m.Has("threeDSMethodNotificationURL"):
		return "the data of the 3DS Method has no type, and is not checked here"
	}
	return ""
}

// DescribeProblem returns what the code of a problem means, with its note if that is not the path.
func DescribeProblem(p message.Problem) string {
	if p.Note == "" || p.Note == string(p.Path) {
		return p.Code.Description()
	}
	return fmt.Sprintf("%s (%s)", p.Code.Description(), p.Note)
}
