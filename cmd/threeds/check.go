package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/config"
	"github.com/openthreeds/threeds/internal/scheme"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// maxMessage is how much check reads: far more than any listener takes.
const maxMessage = 64 << 20

// runCheck prints the message of a file, masked, and on stderr all that is
// wrong with it.
func runCheck(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("check", flag.ContinueOnError)
	of := fs.String("scheme", "", "hold it against what this card scheme asks for as well")
	asJSON := fs.Bool("json", false, "print the result as JSON")
	rest, err := parseFlags(fs, args, 1)
	if err != nil {
		return err
	}
	if known := scheme.Names(); *of != "" && !slices.Contains(known, *of) {
		return usageErrorf("check: no scheme %q%s", *of, config.Hint(*of, known...))
	}
	name, data, err := readCheckFile("check", rest, stdin)
	if err != nil {
		return err
	}
	input, ok := readCheckInput(data)
	if !ok {
		_, err := message.Parse(data, message.Limits{Members: -1})
		return unreadableError{fmt.Errorf("%s: %w%s", name, err, describeOther(data))}
	}
	report, err := checkMessage(input, *of)
	if err != nil {
		return unreadableError{fmt.Errorf("%s: %w%s", name, err, describeOther(data))}
	}
	if *asJSON {
		return report.writeJSON(name, stdout)
	}
	return report.write(name, stdout, stderr)
}

// readCheckFile reads the file that a command is given, and returns how to call it.
func readCheckFile(command string, rest []string, stdin io.Reader) (name string, data []byte, err error) {
	if len(rest) == 0 {
		return "", nil, usageErrorf("%s: no file (- is standard input)", command)
	}
	name, in := rest[0], stdin
	if name == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return "", nil, err
		}
		defer f.Close()
		in = f
	}
	data, all, err := readUpTo(in, maxMessage)
	if err != nil {
		return "", nil, err
	}
	if !all {
		return "", nil, fmt.Errorf("%s: longer than %d MiB, so it was not checked: no message is", name, maxMessage>>20)
	}
	return name, data, nil
}

// An unreadableError says that a text holds nothing that check can check. Its exit status is 2.
type unreadableError struct{ err error }

func (e unreadableError) Error() string { return e.err.Error() }

func (e unreadableError) Unwrap() error { return e.err }

// A checkReport is what check has found out.
type checkReport struct {
	kind     string
	shown    *message.Message // nil for a PARes and for lines of the request log
	xml      []byte           // of a PARes
	lines    []requestLine    // the lines of the request log that were read
	problems message.Problems
	foreign  string   // what it is, if it is no message of the protocol
	ofScheme []string // what the scheme says, one line each
	faults   int      // those of problems, and those of the scheme
	warnings []string
	changes  []message.Change // what /auth would correct
	unjudged string
}

// checkMessage checks a message, and holds it against what a card scheme asks for, if of is not "".
func checkMessage(in checkInput, of string) (*checkReport, error) {
	r := &checkReport{kind: in.kind, xml: in.xml}
	if in.xml != nil {
		r.unjudged = "the signature, which needs the roots of a configuration: ask /check"
		return r, nil
	}
	if in.lines != nil {
		r.addLines(in.lines, in.other)
		return r, nil
	}
	// No limits apply: the question is what is wrong, not whether to accept the message.
	m, err := message.Parse(in.data, message.Limits{Members: -1})
	if err != nil {
		return nil, err
	}
	r.shown = m
	checked := m
	if in.kind == "auth-body" {
		built, changes, problems, err := prepareAuthBody(in.data)
		if err != nil {
			return nil, err
		}
		r.changes, r.problems = changes, problems
		if built != nil {
			checked = built
		}
		r.unjudged = "the state of threeDSServerTransID, and the card's ranges"
	} else {
		var ctx message.Context
		if t, ok := m.Type(); ok && t == message.AReq {
			ctx.AReq = m // conditions of nested objects refer to members of the AReq
		}
		r.problems = m.Check(ctx)
		for _, p := range m.CheckSent() {
			if !slices.ContainsFunc(r.problems, func(q message.Problem) bool { return q.Path == p.Path }) {
				r.problems = append(r.problems, p)
			}
		}
		r.unjudged = describeUnjudged(m)
	}
	r.problems = append(r.problems, extension.Check(checked)...)
	var isMasked bool
	if r.problems, isMasked = withoutMasked(m, r.problems); isMasked {
		r.warnings = append(r.warnings, "acctNumber is masked, and was not checked")
	}
	r.foreign = describeForeign(m)
	var found strings.Builder
	r.faults = len(r.problems) + printSchemeFindings(&found, of, checked)
	r.ofScheme = slices.Collect(strings.Lines(found.String()))
	return r, nil
}

// addLines adds lines of the request log: what was wrong with the requests stands there already.
func (r *checkReport) addLines(lines []requestLine, other int) {
	r.lines = lines
	r.unjudged = "the messages themselves, which the request log does not hold"
	if other > 0 {
		r.unjudged += ", and " + countOf(other, "line") + " about no request"
	}
	for i := range lines {
		l, note := &lines[i], ""
		if len(lines)+other > 1 {
			note = fmt.Sprintf("line %d", l.Number)
		}
		r.problems = append(r.problems, l.problems(note)...)
		if l.Code == "" && l.HTTP >= 400 {
			r.warnings = append(r.warnings, strings.TrimPrefix(fmt.Sprintf("%s: HTTP %d %s", note, l.HTTP, http.StatusText(l.HTTP)), ": "))
		}
	}
	r.faults = len(r.problems)
}

// write prints a report: the message on stdout, and what is wrong with it on stderr.
func (r *checkReport) write(name string, stdout, stderr io.Writer) error {
	if err := r.writeContent(name, stdout); err != nil {
		return err
	}
	for _, c := range r.changes {
		fmt.Fprintf(stdout, "corrected by /auth: %s: %s\n", c.Path, c.What)
	}
	if r.unjudged != "" {
		fmt.Fprintf(stdout, "not judged: %s\n", r.unjudged)
	}
	for _, p := range r.problems {
		at := name
		if p.Path != "" {
			at += ": " + oneLine(string(p.Path))
		}
		fmt.Fprintf(stderr, "%s: %s %s\n", at, p.Code, describeProblem(p))
	}
	if r.foreign != "" {
		fmt.Fprintf(stderr, "%s: %s\n", name, r.foreign)
	}
	for _, line := range r.ofScheme {
		fmt.Fprintf(stderr, "%s: %s", name, line)
	}
	for _, text := range r.warnings {
		fmt.Fprintf(stderr, "%s: warning: %s\n", name, text)
	}
	return r.verdict(name)
}

// writeContent prints what was checked: the message, the elements of a PARes, or the lines of a log.
func (r *checkReport) writeContent(name string, stdout io.Writer) error {
	switch {
	case r.lines != nil:
		for i := range r.lines {
			fmt.Fprintln(stdout, r.lines[i].describe())
		}
		return nil
	case r.shown == nil:
		if err := describePARes(stdout, r.xml); err != nil {
			return unreadableError{fmt.Errorf("%s: %w", name, err)}
		}
		return nil
	}
	if err := r.shown.Describe(stdout); err != nil {
		return err
	}
	for _, d := range extension.Describe(r.shown) {
		if err := d.Write(stdout); err != nil {
			return err
		}
	}
	return nil
}

// writeJSON prints a report as one JSON object.
func (r *checkReport) writeJSON(name string, w io.Writer) error {
	type fault struct {
		Pointer string `json:"pointer"`
		Code    string `json:"code"`
		Text    string `json:"text"`
	}
	out := struct {
		Kind      string   `json:"kind"`
		Verdict   string   `json:"verdict"`
		Errors    []fault  `json:"errors"`
		Scheme    []string `json:"scheme"`
		Warnings  []string `json:"warnings"`
		Corrected []string `json:"corrected"`
		NotJudged string   `json:"notJudged,omitempty"`
	}{Kind: r.kind, Verdict: "valid", Errors: []fault{}, Scheme: []string{}, Warnings: append([]string{}, r.warnings...), Corrected: []string{}, NotJudged: r.unjudged}
	for _, p := range r.problems {
		out.Errors = append(out.Errors, fault{pointerOf(p.Path), p.Code.String(), describeProblem(p)})
	}
	for _, line := range r.ofScheme {
		out.Scheme = append(out.Scheme, strings.TrimSpace(line))
	}
	for _, c := range r.changes {
		out.Corrected = append(out.Corrected, pointerOf(c.Path))
	}
	if r.faults > 0 {
		out.Verdict = "invalid"
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		return err
	}
	return r.verdict(name)
}

// verdict is an error if there are faults.
func (r *checkReport) verdict(name string) error {
	if r.faults == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", name, countOf(r.faults, "fault"))
}

// describePARes prints the elements of a PARes whose signature was not checked, without card number
// and values of authentication.
func describePARes(w io.Writer, doc []byte) error {
	dec := xml.NewDecoder(bytes.NewReader(doc))
	element := ""
	for {
		token, err := dec.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errors.New("the PARes is not well-formed XML")
		}
		switch token := token.(type) {
		case xml.StartElement:
			element = token.Name.Local
		case xml.EndElement:
			element = ""
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); slices.Contains(shownOfPARes, element) && text != "" {
				fmt.Fprintf(w, "%s: %q\n", element, text)
			}
		}
	}
}

// shownOfPARes are the elements of a PARes that say nothing secret.
var shownOfPARes = []string{"version", "merID", "acqBIN", "date", "purchAmount", "currency", "exponent", "time", "status", "eci"}

// printSchemeFindings prints what a card scheme says about a message: what it asks for and an
// AReq lacks, or what its own codes in an answer mean. It returns how many faults there are
// in the sense of scheme_rules: enforce.
func printSchemeFindings(w io.Writer, of string, m *message.Message) (faults int) {
	t, known := m.Type()
	switch {
	case !known:
	case t == message.AReq:
		for _, f := range scheme.Check(of, m, time.Now()) {
			if f.Code != 0 {
				faults++
			}
			fmt.Fprintf(w, "%s: %s\n", of, f.Text)
		}
	case t == message.ARes, t == message.RReq:
		for _, element := range []string{"eci", "transStatusReason"} {
			if meaning := scheme.Meaning(of, element, m.Text(element)); meaning != "" {
				fmt.Fprintf(w, "%s: %s: %s\n", of, element, meaning)
			}
		}
	}
	return faults
}

// readLine returns the first line of in, without space around it: "" if there is none.
func readLine(in io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(in, 1<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSpace(line), nil
}

// readUpTo reads at most limit bytes, and says whether that is all.
func readUpTo(in io.Reader, limit int) (data []byte, all bool, err error) {
	data, err = io.ReadAll(io.LimitReader(in, int64(limit)+1))
	return data[:min(len(data), limit)], len(data) <= limit, err
}

// describeOther returns what a text that is not JSON may be. It quotes nothing.
func describeOther(data []byte) string {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return ": it is empty"
	case data[0] == '<':
		return ": XML, like the messages of 3-D Secure 1, is not checked here"
	}
	return ""
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

// describeProblem returns what the code of a problem means, with its note if that is not the path.
func describeProblem(p message.Problem) string {
	if p.Note == "" || p.Note == string(p.Path) {
		return p.Code.Description()
	}
	return fmt.Sprintf("%s (%s)", p.Code.Description(), p.Note)
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
