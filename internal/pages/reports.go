package pages

import (
	"bytes"
	"encoding/csv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A reportRow is one line of a report, as the admin API has it.
type reportRow struct {
	Value            string  `json:"value"`
	All              int64   `json:"all"`
	ChallengeRate    float64 `json:"challengeRate"`
	FrictionlessRate float64 `json:"frictionlessRate"`
	SuccessRate      float64 `json:"successRate"`
	Abandonment      float64 `json:"abandonment"`
	RReqLoss         float64 `json:"rreqLoss"`
	MedianMS         float64 `json:"medianMs"`
	P95MS            float64 `json:"p95Ms"`
}

// Name returns what a line is about, for people.
func (r reportRow) Name() string {
	if r.Value == "" {
		return "none"
	}
	return r.Value
}

// reportBys are what a report may be made by, in the order of the page.
var reportBys = [][2]string{
	{"scheme", "Scheme"}, {"merchant", "Merchant"}, {"issuer", "Issuer range"}, {"acs", "ACS"}, {"version", "Version"}, {"reason", "Reason"},
	{"day", "Day"},
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
}

// maxReportRows is how many lines a page shows; the file has all.
const maxReportRows = 50

// reportOf asks for a report, with the usual parameters where the address has none.
func (h *Handler) reportOf(v *visit) (by, span string, rows []reportRow, err error) {
	asked := v.URL.Query()
	if by = asked.Get("by"); by == "" {
		by = reportBys[0][0]
	}
	query := url.Values{"by": {by}}
	for _, s := range spans {
		if s.value == timeOf(asked) {
			from := time.Unix(0, 0)
			if s.back > 0 {
				from = h.Now().Add(-s.back)
			}
			query.Set("from", from.UTC().Format(time.RFC3339))
			span = s.value
		}
	}
	var all list[reportRow]
	err = h.call(v, http.MethodGet, "reports", query, nil, &all)
	return by, span, all.Data, err
}

// reportsPage counts authentications by something they have in common.
func reportsPage(h *Handler, v *visit) (result, error) {
	start := time.Now()
	by, span, rows, err := h.reportOf(v)
	if err != nil {
		return result{}, err
	}
	view := reportView{Rows: rows, Span: span, CSV: "/reports.csv?" + url.Values{"by": {by}, "time": {span}}.Encode()}
	for _, b := range reportBys {
		to := url.Values{"by": {b[0]}, "time": {span}}
		view.Bys = append(view.Bys, link{"/reports?" + to.Encode(), b[1], b[0] == by})
		if b[0] == by {
			view.By = b[1]
		}
	}
	for _, s := range spans {
		to := url.Values{"by": {by}, "time": {s.value}}
		view.Times = append(view.Times, link{"/reports?" + to.Encode(), s.name, s.value == span})
	}
	if by != "day" {
		slices.SortStableFunc(view.Rows, func(a, b reportRow) int { return int(min(1, max(-1, b.All-a.All))) })
	}
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
	by, _, rows, err := h.reportOf(v)
	if err != nil {
		return err
	}
	w := csv.NewWriter(to)
	_ = w.Write([]string{by, "all", "challengeRate", "frictionlessRate", "successRate", "abandonment", "rreqLoss", "medianMs", "p95Ms"})
	for _, r := range rows {
		line := []string{spreadsheetText(r.Value), strconv.FormatInt(r.All, 10)}
		for _, f := range []float64{r.ChallengeRate, r.FrictionlessRate, r.SuccessRate, r.Abandonment, r.RReqLoss, r.MedianMS, r.P95MS} {
			line = append(line, strconv.FormatFloat(f, 'f', -1, 64))
		}
		_ = w.Write(line)
	}
	w.Flush()
	return w.Error()
}

// spreadsheetText keeps a spreadsheet from taking a text for a formula.
func spreadsheetText(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
