package pages

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/edge/lanes"
	"github.com/openthreeds/threeds/internal/protocol/outcome"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
)

// A reportRow is one line of a report.
type reportRow struct {
	admin.ReportRow
	name string // The name of the value for people; "" if they know it by the value itself.
}

// Name returns what a line is about, for people.
func (r reportRow) Name() string { return cmp.Or(r.name, r.Value, "none") }

// nameRows gives schemes their names, and reasons their meanings.
func (h *Handler) nameRows(by string, rows []reportRow) {
	for i := range rows {
		r := &rows[i]
		switch {
		case r.Value == "":
		case by == "scheme":
			r.name = h.schemeName(r.Value)
		case by == "reason":
			r.name = lanes.Join(": ", r.Value, outcome.ReasonMeaning(r.Value))
		}
	}
}

// reportBys are what a report may be made by, in the order of the page.
var reportBys = [][2]string{
	{"scheme", "Scheme"}, {"merchant", "Merchant"}, {"issuer", "Issuer range"}, {"acs", "ACS"}, {"version", "Version"},
	{"reason", "Reason"}, {"day", "Day"}, {byMandates, "Scheme rules"},
}

// byMandates is the report of requests that do not keep a rule of their scheme, which has rows of its own.
const byMandates = "mandates"

// A mandateRow is one line of that report.
type mandateRow struct{ admin.MandateRow }

// Elements are the elements that the rule is about. Of several, one is enough.
func (m mandateRow) Elements() []string { return strings.Split(m.Element, "|") }

// Words returns what the rule says of its elements.
func (m mandateRow) Words() string {
	switch scheme.Kind(m.Rule.Rule) {
	case scheme.Require:
		return "must be sent"
	case scheme.Forbid:
		return "must not be sent"
	case scheme.Format:
		return "must have the form of the scheme"
	case scheme.Closed:
		return "must not be a code without a meaning"
	case scheme.Ended:
		return "has ended"
	case scheme.Ignore:
		return "is not acted on"
	}
	return "should be sent"
}

// Pill returns from when on the rule counts.
func (m mandateRow) Pill() pill {
	kind := scheme.Kind(m.Rule.Rule)
	switch {
	case kind == scheme.Advise, kind == scheme.Ignore:
		return pill{"calm", "dash", "Advice"}
	case m.InForce:
		return pill{"bad", "cross", "Now"}
	case m.HasEnded:
		return pill{"calm", "dash", "No more"}
	}
	return pill{"warn", "clock", "From " + dayWords(m.Since)}
}

// A reportView is the data of the page of reports.
type reportView struct {
	By      string
	Bys     []link
	Times   []link
	Rows    []reportRow
	Left    int // how many lines are not shown
	CSV     string
	Span    string
	Notable []string // what stands out, in words

	Mandates []mandateRow // in place of Rows
}

// maxReportRows is how many lines a page shows; the file has all.
const maxReportRows = 50

// queryOf returns the grouping and the period of a report, with the usual values where the address has none.
func queryOf(v *visit) (by string, of span) {
	asked := v.URL.Query()
	return cmp.Or(asked.Get("by"), reportBys[0][0]), spanOf(asked)
}

// newReportRows returns the lines of a report.
func newReportRows(rows []admin.ReportRow) (all []reportRow) {
	for _, r := range rows {
		all = append(all, reportRow{ReportRow: r})
	}
	return all
}

// reportOf returns the lines of a report of a span.
func (h *Handler) reportOf(v *visit, by string, of span) ([]reportRow, error) {
	rows, err := h.Admin.Report(v.Context(), v.session.Actor, by, h.beginOf(of), time.Time{})
	return newReportRows(rows), err
}

// mandatesOf returns the lines of the report of rules that are not kept, of a span.
func (h *Handler) mandatesOf(v *visit, of span) (all []mandateRow, err error) {
	rows, err := h.Admin.Mandates(v.Context(), v.session.Actor, h.beginOf(of), time.Time{})
	for _, m := range rows {
		all = append(all, mandateRow{m})
	}
	return all, err
}

// newReportView returns a page of reports without rows.
func newReportView(by string, of span) reportView {
	view := reportView{Span: of.value, CSV: "/reports.csv?" + url.Values{"by": {by}, "time": {of.value}}.Encode()}
	for _, b := range reportBys {
		to := url.Values{"by": {b[0]}, "time": {of.value}}
		view.Bys = append(view.Bys, link{"/reports?" + to.Encode(), b[1], b[0] == by})
		if b[0] == by {
			view.By = b[1]
		}
	}
	for _, s := range spans {
		to := url.Values{"by": {by}, "time": {s.value}}
		view.Times = append(view.Times, link{"/reports?" + to.Encode(), s.name, s == of})
	}
	return view
}

// reportsPage counts authentications by something they have in common.
func reportsPage(h *Handler, v *visit) (result, error) {
	start := time.Now()
	by, of := queryOf(v)
	view := newReportView(by, of)
	if by == byMandates {
		rows, err := h.mandatesOf(v, of)
		if err != nil {
			return result{}, err
		}
		n := min(len(rows), maxReportRows)
		view.Mandates, view.Left = rows[:n], len(rows)-n
		return result{template: "mandates", title: "Reports", data: view, db: time.Since(start)}, nil
	}
	var err error
	if view.Rows, err = h.reportOf(v, by, of); err != nil {
		return result{}, err
	}
	if by != "day" {
		slices.SortStableFunc(view.Rows, func(a, b reportRow) int { return cmp.Compare(b.All, a.All) })
	}
	h.nameRows(by, view.Rows)
	view.Notable = notableOf(view.Rows)
	if n := len(view.Rows); n > maxReportRows {
		view.Rows, view.Left = view.Rows[:maxReportRows], n-maxReportRows
	}
	return result{template: "reports", title: "Reports", data: view, db: time.Since(start)}, nil
}

// notableOf says which lines lose results, or fail much more often than all together.
func notableOf(rows []reportRow) (all []string) {
	var sum, good float64
	for _, r := range rows {
		sum += float64(r.All)
		good += float64(r.All) * r.SuccessRate
	}
	if sum == 0 {
		return nil
	}
	for _, r := range rows {
		switch {
		case r.All < 100:
		case r.RReqLoss > 0.02:
			all = append(all, r.Name()+" loses "+percent(r.RReqLoss)+" of its results.")
		case r.SuccessRate < good/sum-0.1:
			all = append(all, r.Name()+" succeeds in "+percent(r.SuccessRate)+", all together in "+percent(good/sum)+".")
		}
	}
	return all[:min(len(all), 3)]
}

// writeReport writes a report for spreadsheets.
func writeReport(h *Handler, v *visit, to *bytes.Buffer) error {
	by, of := queryOf(v)
	if by == byMandates {
		return writeMandates(h, v, of, to)
	}
	rows, err := h.reportOf(v, by, of)
	if err != nil {
		return err
	}
	w := csv.NewWriter(to)
	_ = w.Write([]string{by, "all", "challengeRate", "frictionlessRate", "successRate", "abandonment", "rreqLoss",
		"medianMs", "p95Ms"})
	for _, r := range rows {
		line := []string{spreadsheetText(r.Value), strconv.FormatInt(r.All, 10)}
		for _, f := range []float64{r.ChallengeRate, r.FrictionlessRate, r.SuccessRate, r.Abandonment, r.RReqLoss,
			r.MedianMS, r.P95MS} {
			line = append(line, strconv.FormatFloat(f, 'f', -1, 64))
		}
		_ = w.Write(line)
	}
	w.Flush()
	return w.Error()
}

// writeMandates writes the report of requests that do not keep a rule of their scheme for spreadsheets.
func writeMandates(h *Handler, v *visit, of span, to *bytes.Buffer) error {
	rows, err := h.mandatesOf(v, of)
	if err != nil {
		return err
	}
	w := csv.NewWriter(to)
	_ = w.Write([]string{"merchant", "scheme", "element", "rule", "since", "until", "inForce", "requests", "all", "share",
		"last", "example"})
	for _, m := range rows {
		_ = w.Write([]string{
			spreadsheetText(m.Merchant), spreadsheetText(m.Scheme), spreadsheetText(m.Element), spreadsheetText(m.Rule.Rule),
			spreadsheetText(m.Since), spreadsheetText(m.Until), strconv.FormatBool(m.InForce), strconv.FormatInt(m.Requests, 10),
			strconv.FormatInt(m.All, 10), strconv.FormatFloat(m.Share, 'f', -1, 64), m.Last.UTC().Format(time.RFC3339),
			spreadsheetText(m.Example),
		})
	}
	w.Flush()
	return w.Error()
}

// dayWords returns a day such as 2027-02-01 for people.
func dayWords(day string) string {
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return day
	}
	return t.Format("2 Jan 2006")
}

// spreadsheetText keeps a spreadsheet from taking a text for a formula.
func spreadsheetText(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
