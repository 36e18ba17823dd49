package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/protocol/inspect"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// maxMessage is how much check reads: far more than any listener takes.
const maxMessage = 64 << 20

// runCheck prints the message of a file, masked, and on stderr all that is
// wrong with it.
func runCheck(_ context.Context, cmd *invocation) error {
	of := cmd.String("scheme", "", "hold it against what this card scheme asks for as well")
	asJSON := cmd.Bool("json", false, "print the result as JSON")
	rest, err := cmd.parse(1)
	if err != nil {
		return err
	}
	if known := scheme.Names(); *of != "" && !slices.Contains(known, *of) {
		return usageErrorf("check: no scheme %q%s", *of, hint.For(*of, known...))
	}
	name, data, err := readCheckFile("check", rest, cmd.stdin)
	if err != nil {
		return err
	}
	input, ok := inspect.Read(data)
	if !ok {
		_, err := message.Parse(data, message.Limits{Members: -1})
		return unreadableError{fmt.Errorf("%s: %w%s", name, err, describeOther(data))}
	}
	report, err := inspect.Check(input, *of, time.Now())
	if err != nil {
		return unreadableError{fmt.Errorf("%s: %w%s", name, err, describeOther(data))}
	}
	if *asJSON {
		return writeCheckJSON(report, name, cmd.stdout)
	}
	return writeCheck(report, name, cmd.stdout, cmd.stderr)
}

// readCheckFile reads the file that a command is given, and returns how to call it.
func readCheckFile(command string, rest []string, stdin io.Reader) (name string, data []byte, err error) {
	if len(rest) == 0 {
		return "", nil, usageErrorf("%s: no file (- is standard input)", command)
	}
	if data, err = readInput(rest[0], stdin, maxMessage+1); err != nil {
		return "", nil, err
	}
	if name = rest[0]; name == "-" {
		name = "standard input"
	}
	if len(data) > maxMessage {
		return "", nil, fmt.Errorf("%s: longer than %d MiB, so it was not checked: no message is", name, maxMessage>>20)
	}
	return name, data, nil
}

// An unreadableError says that a text holds nothing that check can check. Its exit status is 2.
type unreadableError struct{ err error }

func (e unreadableError) Error() string { return e.err.Error() }

func (e unreadableError) Unwrap() error { return e.err }

// writeCheck prints a report: the message on stdout, and what is wrong with it on stderr.
func writeCheck(r *inspect.Report, name string, stdout, stderr io.Writer) error {
	if err := writeContent(r, stdout); err != nil {
		return err
	}
	for _, c := range r.Changes {
		fmt.Fprintf(stdout, "corrected by /auth: %s: %s\n", c.Path, c.What)
	}
	if r.Unjudged != "" {
		fmt.Fprintf(stdout, "not judged: %s\n", r.Unjudged)
	}
	for _, p := range r.Problems {
		at := name
		if p.Path != "" {
			at += ": " + oneLine(string(p.Path))
		}
		fmt.Fprintf(stderr, "%s: %s %s\n", at, p.Code, inspect.DescribeProblem(p))
	}
	if r.Foreign != "" {
		fmt.Fprintf(stderr, "%s: %s\n", name, r.Foreign)
	}
	for _, line := range r.OfScheme {
		fmt.Fprintf(stderr, "%s: %s", name, line)
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(stderr, "%s: warning: %s\n", name, text)
	}
	return verdictOf(r, name)
}

// writeContent prints what was checked: the message, the elements of a PARes, or the lines of a log.
func writeContent(r *inspect.Report, stdout io.Writer) error {
	switch {
	case r.Lines != nil:
		for i := range r.Lines {
			fmt.Fprintln(stdout, r.Lines[i].Describe())
		}
		return nil
	case r.Shown == nil:
		for _, e := range r.Elements {
			fmt.Fprintf(stdout, "%s: %q\n", e.Name, e.Text)
		}
		return nil
	}
	if err := r.Shown.Describe(stdout); err != nil {
		return err
	}
	for _, d := range extension.Describe(r.Shown) {
		if err := d.Write(stdout); err != nil {
			return err
		}
	}
	return nil
}

// writeCheckJSON prints a report as one JSON object.
func writeCheckJSON(r *inspect.Report, name string, w io.Writer) error {
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
	}{Kind: r.Kind, Verdict: "valid", Errors: []fault{}, Scheme: []string{}, Warnings: append([]string{}, r.Warnings...), Corrected: []string{}, NotJudged: r.Unjudged}
	for _, p := range r.Problems {
		out.Errors = append(out.Errors, fault{faults.Pointer(p.Path), p.Code.String(), inspect.DescribeProblem(p)})
	}
	for _, line := range r.OfScheme {
		out.Scheme = append(out.Scheme, strings.TrimSpace(line))
	}
	for _, c := range r.Changes {
		out.Corrected = append(out.Corrected, faults.Pointer(c.Path))
	}
	if r.Faults > 0 {
		out.Verdict = "invalid"
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		return err
	}
	return verdictOf(r, name)
}

// verdictOf returns an error if there are faults.
func verdictOf(r *inspect.Report, name string) error {
	if r.Faults == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", name, countOf(r.Faults, "fault"))
}

// readLine returns the first line of in, without space around it: "" if there is none.
func readLine(in io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(in, 1<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSpace(line), nil
}

// openInput opens a file, or standard input for -. closeInput closes the file, and never standard input.
func openInput(name string, stdin io.Reader) (in io.Reader, closeInput func() error, err error) {
	if name == "-" {
		return stdin, func() error { return nil }, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	return f, f.Close, nil
}

// readInput reads at most limit bytes of a file, or of standard input for -.
func readInput(name string, stdin io.Reader, limit int64) ([]byte, error) {
	in, closeInput, err := openInput(name, stdin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = closeInput() }() // only read
	return io.ReadAll(io.LimitReader(in, limit))
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

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
