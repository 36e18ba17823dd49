package pages

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// An overviewView is the data of the first page.
type overviewView struct {
	*admin.Overview
	Schemes     []reportRow
	Times       []link
	All         int64
	Success     float64
	Challenged  float64
	P95         float64 // of the slowest scheme that has one
	Slowest     string
	Directories []directoryRow
	Bars        *barChart // nil: nothing has happened
	Lately      *nowView  // nil: there is no journal
	Time        string    // the chosen time, as it is written in addresses of pages
	Table       string    // where the chart is a table
	Notable     []string
	Shop        string
	Now         time.Time
}

// overviewPage says how the authentications of a time went, and what needs attention.
func overviewPage(h *Handler, v *visit) (result, error) {
	chosen := spanOf(v.URL.Query())
	view := &overviewView{Shop: h.Shop, Now: h.Now(), Time: chosen.value, Table: "/reports?" +
		url.Values{"by": {"day"}, "time": {chosen.value}}.Encode()}
	got := result{template: "overview", title: "Overview", data: view}
	for _, s := range spans[:len(spans)-1] { // all that is kept is for reports
		view.Times = append(view.Times, link{"/?time=" + s.value, s.name, s == chosen})
	}
	start := time.Now()
	var err error
	if view.Overview, err = h.Admin.Overview(v.Context(), v.session.Actor, h.beginOf(chosen), time.Time{}); err != nil {
		return result{}, err
	}
	got.db = time.Since(start)
	view.Schemes = newReportRows(view.Overview.Schemes)
	for _, r := range view.Schemes {
		view.All += r.All
		view.Success += r.SuccessRate * float64(r.All)
		view.Challenged += r.ChallengeRate * float64(r.All)
		if r.P95MS > view.P95 {
			view.P95, view.Slowest = r.P95MS, r.Value
		}
	}
	if view.All > 0 {
		view.Success /= float64(view.All)
		view.Challenged /= float64(view.All)
		view.Bars = newBarChart(view.Overview)
	}
	view.Lately = newNowView(view.Overview.Now)
	view.Directories = directoryRows(view.Overview.Directories, h.Now())
	h.nameRows("scheme", view.Schemes)
	view.Notable = notableOf(view.Schemes)
	return got, nil
}

// A nowView is what the first card says of the last 15 minutes.
type nowView struct {
	Flows   []flowRow // what became of the requests
	Results []flowRow // how the authentications ended: the results that there are now, or that are usual
	Days    int       // how many days before it is compared with; 0: none
}

// A flowRow is a number of the last 15 minutes, beside that of the days before.
type flowRow struct {
	Name  string
	Count int64
	Share string // of all, "" of all themselves
	Usual string // what is usual; "": it is not known
	Class string // "tb" if it is much worse than usual
}

// newNowView compares the last 15 minutes with the days before; nil without a journal.
func newNowView(now *admin.Present) *nowView {
	if now == nil {
		return nil
	}
	view := &nowView{}
	past := &admin.Past{Results: make([]admin.ResultCount, len(now.Results))}
	if now.Before != nil {
		past = now.Before
	}
	view.Days = past.Days
	row := func(name string, n, of, before, ofBefore int64, isBad bool) flowRow {
		r := flowRow{Name: name, Count: n}
		share, usual := shareOf(n, of), shareOf(before, ofBefore)
		r.Share = percent(share)
		if ofBefore > 0 {
			r.Usual = percent(usual)
		}
		if isBad && share > usual+muchWorse && n >= fewBad {
			r.Class = "tb"
		}
		return r
	}
	all := flowRow{Name: "Requests", Count: now.Requests}
	if past.Days > 0 {
		all.Usual = number((past.Requests + int64(past.Days)/2) / int64(past.Days))
	}
	of, before := &now.Flow, &past.Flow
	view.Flows = []flowRow{
		all, row("Refused by us", of.Refused, of.Requests, before.Refused, before.Requests, true),
		row("Refused by directories", of.Declined, of.Requests, before.Declined, before.Requests, true),
		row("Unanswered", of.Unanswered, of.Requests, before.Unanswered, before.Requests, true),
	}
	for i, r := range now.Results {
		if n := past.Results[i].Count; r.Count > 0 || n > 0 {
			view.Results = append(view.Results, row(chartNames[r.Result], r.Count, of.Sent(), n, before.Sent(), false))
		}
	}
	return view
}

// muchWorse is by how much a share must be above the usual one to be marked, and fewBad how many requests it takes.
const (
	muchWorse = 0.05
	fewBad    = 5
)

// shareOf returns the share of a part, 0 of none.
func shareOf(part, all int64) float64 {
	if all <= 0 {
		return 0
	}
	return float64(part) / float64(all)
}

// A barChart is a drawing of counts by result over time.
type barChart struct {
	Rects  []chartRect
	Scale  []string // next to the drawing, from the top
	Times  []string // below it
	Legend []chartPart
}

// A chartRect is a part of a bar.
type chartRect struct {
	Class, X, Y, Width, Height string
	IsHatched                  bool
}

// A chartPart is a result with what it is called and how much of all it is.
type chartPart struct {
	Class, Name string
	Count       int64
	Share       float64
	IsHatched   bool
}

// Measures of the drawing, in its own units.
const (
	chartWidth, chartHeight = 960.0, 190.0
	chartGap                = 8.0 // between two bars
	chartLines              = 4   // of the scale
)

// chartNames are what the results of a chart are called, in the order of [admin.ChartResults].
var chartNames = map[string]string{
	"authenticated": "Authenticated, no challenge", journal.AfterChallenge: "Authenticated after a challenge",
	"attempted": "Attempted", "not_authenticated": "Not authenticated", "abandoned": "Abandoned by the shopper",
	"unavailable": "Unavailable, or no result yet",
}

// newBarChart draws the bars of an overview.
func newBarChart(o *admin.Overview) *barChart {
	c := &barChart{}
	var all, highest int64
	for _, bar := range o.Chart {
		highest = max(highest, sum(bar.Counts))
	}
	top := roundUp(highest)
	for line := chartLines; line >= 0; line-- {
		c.Scale = append(c.Scale, shortNumber(top*int64(line)/chartLines))
	}
	step := chartWidth / float64(max(len(o.Chart), 1))
	for i, bar := range o.Chart {
		y := chartHeight
		for part, n := range bar.Counts {
			height := float64(n) / float64(top) * chartHeight
			if n == 0 {
				continue
			}
			y -= height
			c.Rects = append(c.Rects, chartRect{
				"f" + strconv.Itoa(part+1), coordinate(float64(i)*step + min(chartGap, step/4)/2), coordinate(y),
				coordinate(step - min(chartGap, step/4)), coordinate(max(height-1, 0.6)), isHatched(part),
			})
		}
	}
	c.Times = chartTimes(o)
	for _, r := range o.Results {
		all += r.Count
	}
	for i, r := range o.Results {
		part := chartPart{"f" + strconv.Itoa(i+1), chartNames[r.Result], r.Count, 0, isHatched(i)}
		if all > 0 {
			part.Share = float64(r.Count) / float64(all)
		}
		c.Legend = append(c.Legend, part)
	}
	return c
}

// isHatched reports whether a part of a chart is hatched: the fourth, which means that something went wrong.
func isHatched(part int) bool { return admin.ChartResults()[part] == "not_authenticated" }

// chartTimes returns a few times below a chart.
func chartTimes(o *admin.Overview) (all []string) {
	const marks = 4
	if len(o.Chart) == 0 {
		return nil
	}
	form := "2 Jan"
	if o.To.Sub(o.Chart[0].At) <= 48*time.Hour {
		form = "15:04"
	}
	for i := range marks {
		all = append(all, o.Chart[i*len(o.Chart)/marks].At.Format(form))
	}
	return append(all, "now")
}

func sum(all []int64) (n int64) {
	for _, part := range all {
		n += part
	}
	return n
}

// roundUp returns a round number that is not less than n, and can be divided by the lines of a scale.
func roundUp(n int64) int64 {
	for unit := int64(1); ; unit *= 10 {
		for _, round := range []int64{4, 8, 12, 20, 28} {
			if round*unit >= n {
				return round * unit
			}
		}
	}
}

// shortNumber returns a number for a scale, which has little room.
func shortNumber(n int64) string {
	switch {
	case n >= 1_000_000:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1e6), ".0") + "M"
	case n >= 1000:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1e3), ".0") + "k"
	}
	return strconv.FormatInt(n, 10)
}

// coordinate returns a number of a drawing.
func coordinate(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }
