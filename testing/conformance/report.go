package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A Report is what is known about every row after a run.
type Report struct {
	Verdicts []Verdict `json:"rows"`
}

// A Verdict is what is known about a row.
type Verdict struct {
	ID       string `json:"row"`
	Versions string `json:"versions"`
	Text     string `json:"text"`
	How      How    `json:"how"`
	By       string `json:"by,omitempty"`
	// Faults are what the check of the row has found wrong.
	Faults []string `json:"faults,omitempty"`
	// Exchanges are the messages of the check, masked.
	Exchanges []Exchange    `json:"exchanges,omitempty"`
	Took      time.Duration `json:"-"`
}

// NewReport puts the results of a run beside the rows.
func NewReport(results []Result) *Report {
	byID := make(map[string]Result)
	for _, r := range results {
		byID[r.ID] = r
	}
	var report Report
	for _, row := range Rows() {
		got := byID[row.ID]
		report.Verdicts = append(report.Verdicts, Verdict{
			ID: row.ID, Versions: row.Versions, Text: row.Text, How: row.How, By: row.By,
			Faults: got.Faults, Exchanges: got.Exchanges, Took: got.Took,
		})
	}
	return &report
}

// NewRequestorReport is NewReport for a server that was running already (API of a [Suite]): it
// has only the rows whose checks judged an answer of the API.
func NewRequestorReport(results []Result) *Report {
	report := NewReport(results)
	report.Verdicts = slices.DeleteFunc(report.Verdicts, func(v Verdict) bool {
		return !slices.ContainsFunc(results, func(r Result) bool { return r.ID == v.ID && (r.Judged > 0 || len(r.Faults) > 0) })
	})
	return report
}

// Failing are the rows whose checks found a fault that is not known as open.
func (r *Report) Failing() []Verdict { return failing(r.Verdicts) }

func failing(all []Verdict) []Verdict {
	return slices.DeleteFunc(slices.Clone(all), func(v Verdict) bool { return len(v.Faults) == 0 || v.How == Open })
}

// JSON writes the report for programs.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// Text writes the report for people: a table of the groups, then the rows that
// do not apply or are deliberately broken with their reasons, those that nothing shows, and the faults.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-48s %5s %9s %9s %9s %5s %14s %9s %7s %5s %8s\n",
		"group", "rows", "black box", "demo shop", "unit test", "docs", "not applicable", "deviation", "missing", "open", "failing")
	r.counts(&b, "%-48s %5d %9d %9d %9d %5d %14d %9d %7d %5d %8d\n", "all")
	r.list(&b, "not applicable", NotApplicable)
	r.list(&b, "deliberate deviations", Deviation)
	r.list(&b, "missing features", Missing)
	r.list(&b, "open", Open)
	for _, v := range r.Failing() {
		fmt.Fprintf(&b, "\nFAILING %s %s\n", v.ID, v.Text)
		for _, fault := range v.Faults {
			fmt.Fprintf(&b, "    %s\n", fault)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// counts writes a line for each group, and one for all rows: name, rows, those of each How,
// and those that fail.
func (r *Report) counts(b *strings.Builder, format, all string) {
	line := func(name string, verdicts []Verdict) {
		n := make(map[How]int)
		for _, v := range verdicts {
			n[v.How]++
		}
		fmt.Fprintf(b, format, name, len(verdicts), n[Box], n[Shop], n[Unit], n[Docs], n[NotApplicable], n[Deviation], n[Missing], n[Open],
			len(failing(verdicts)))
	}
	for _, g := range groups {
		line(g.prefix+" "+g.name, r.of(g.prefix+"-"))
	}
	line(all, r.Verdicts)
}

func (r *Report) of(prefix string) []Verdict {
	return slices.DeleteFunc(slices.Clone(r.Verdicts), func(v Verdict) bool { return !strings.HasPrefix(v.ID, prefix) })
}

func (r *Report) list(b *strings.Builder, title string, how How) {
	first := true
	for _, v := range r.Verdicts {
		if v.How != how {
			continue
		}
		if first {
			fmt.Fprintf(b, "\n%s\n", title)
			first = false
		}
		fmt.Fprintf(b, "    %s %s: %s\n", v.ID, v.Text, v.By)
	}
}
