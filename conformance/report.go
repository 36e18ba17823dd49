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
	// Faults are what was wrong; of rows with a check only.
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

// NewRequestorReport holds the rows of which a server that runs somewhere has
// shown something: the requestor's side.
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
// do not apply with their reasons, those that nothing shows, and the faults.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	line := func(name string, all []Verdict) {
		n := make(map[How]int)
		for _, v := range all {
			n[v.How]++
		}
		fmt.Fprintf(&b, "%-48s %5d %9d %9d %5d %14d %5d %8d\n",
			name, len(all), n[Box], n[Unit], n[Docs], n[NotApplicable], n[Open], len(failing(all)))
	}
	fmt.Fprintf(&b, "%-48s %5s %9s %9s %5s %14s %5s %8s\n", "group", "rows", "black box", "unit test", "docs", "not applicable", "open", "failing")
	for _, g := range groups {
		line(g.prefix+" "+g.name, r.of(g.prefix+"-"))
	}
	line("all", r.Verdicts)
	r.list(&b, "not applicable", NotApplicable)
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
