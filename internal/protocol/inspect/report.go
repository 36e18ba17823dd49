package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/message/extension"
)

// Write prints a report for people: the message of a file with this name on stdout, and what is wrong with it on
// stderr.
func (r *Report) Write(name string, stdout, stderr io.Writer) error {
	if err := r.writeContent(stdout); err != nil {
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
			at += ": " + terminal.OneLine(string(p.Path))
		}
		fmt.Fprintf(stderr, "%s: %s %s\n", at, p.Code, DescribeProblem(p))
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
	return nil
}

// writeContent prints what was checked: the message, the elements of a PARes, or the lines of a log.
func (r *Report) writeContent(stdout io.Writer) error {
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

// WriteJSON prints a report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
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
	}{
		Kind: r.Kind, Verdict: "valid", Errors: []fault{}, Scheme: []string{}, Warnings: append([]string{}, r.Warnings...),
		Corrected: []string{}, NotJudged: r.Unjudged,
	}
	for _, p := range r.Problems {
		out.Errors = append(out.Errors, fault{faults.Pointer(p.Path), p.Code.String(), DescribeProblem(p)})
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
	return json.NewEncoder(w).Encode(out)
}
