package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// An Overview is what the first page of the console shows.
type Overview struct {
	From        time.Time     `json:"from"`
	To          time.Time     `json:"to"`
	HasJournal  bool          `json:"journal"`     // without a journal there are no counts
	IsUnread    bool          `json:"unread"`      // the journal cannot be read, so that there are no counts
	Now         *Present      `json:"now"`         // null without a journal
	Schemes     []ReportRow   `json:"schemes"`     // the one with most authentications first
	Results     []ResultCount `json:"results"`     // in the order of the chart
	Chart       []ChartBar    `json:"chart"`       // oldest first
	Directories []Directory   `json:"directories"` // null for those who see one merchant or a group
	Attention   []Notice      `json:"attention"`   // the most urgent first
	Over        []Notice      `json:"over"`        // what was among it in the last day, and is over; the newest first
}

// A ResultCount counts authentications by result. Those that have none yet count as unavailable.
type ResultCount struct {
	Result string `json:"result"`
	Count  int64  `json:"count"`
}

// A ChartBar counts the authentications of a part of the time, in the order of ChartResults.
type ChartBar struct {
	At     time.Time `json:"at"`
	Counts []int64   `json:"counts"`
}

// ChartResults returns the results that charts tell apart, in their order.
func ChartResults() []string {
	return []string{"authenticated", journal.AfterChallenge, "attempted", "not_authenticated", "abandoned", "unavailable"}
}

// chartIndex returns the place of a result in ChartResults.
func chartIndex(result string) int {
	switch result {
	case "informational", "data_only":
		result = "attempted"
	case "rejected", "error":
		result = "not_authenticated"
	}
	if i := slices.Index(ChartResults(), result); i >= 0 {
		return i
	}
	return len(ChartResults()) - 1
}

// maxChartBars is how many bars a chart has at most.
const maxChartBars = 62

// chartStep returns how long a bar of a chart over a time is.
func chartStep(span time.Duration) time.Duration {
	const day = 24 * time.Hour
	switch {
	case span <= time.Hour+time.Second: // From may be a whole second, and To is none
		return time.Minute
	case span <= 2*day:
		return time.Hour
	case span <= 8*day:
		return 6 * time.Hour
	}
	step := day
	for span/step >= maxChartBars {
		step += day
	}
	return step
}

func overview(h *Handler, r *request) (any, error) {
	from, to, err := readTimes(r.URL.Query().Get("from"), r.URL.Query().Get("to"))
	if err != nil {
		return nil, err
	}
	return h.Overview(r.Context(), r.actor, from, to)
}

// Overview says how the authentications of a time went, and what needs attention. Without a time it is that of a day.
func (h *Handler) Overview(ctx context.Context, by operator.Actor, from, to time.Time) (*Overview, error) {
	if err := ops.Find("journal report").Check(&by); err != nil {
		return nil, err
	}
	if to.IsZero() {
		to = h.Now()
	}
	if from.IsZero() {
		from = to.Add(-hoursOfDay * time.Hour)
	}
	o := &Overview{
		From: from.UTC(), To: to.UTC(), Schemes: []ReportRow{}, Results: []ResultCount{}, Chart: []ChartBar{},
		Attention: []Notice{}, Over: []Notice{},
	}
	f, err := h.find(ctx)
	if err != nil {
		return nil, err
	}
	if err := h.countForOverview(ctx, &by, o, &f); err != nil {
		h.Log.Error("admin API", "what", "the journal is not read for the overview", "err", err)
		o.IsUnread = true // what needs attention can be seen all the same
	}
	if !by.IsBound() {
		o.Directories = f.directories
	}
	var kept []Notice
	if h.Node != nil {
		if kept, err = h.readNotices(ctx); err != nil {
			return nil, err
		}
	}
	o.Attention, o.Over = splitNotices(mergeNotices(kept, &f, h.Now()), &by)
	return o, nil
}

// countForOverview counts the requests and authentications that the actor may see.
func (h *Handler) countForOverview(ctx context.Context, by *operator.Actor, o *Overview, f *finding) (err error) {
	if h.Journal == nil {
		return nil
	}
	o.HasJournal = true
	if f.flowError != nil {
		return f.flowError
	}
	st := journal.Within(h.Journal, by.Scope())
	if o.Now, err = h.present(ctx, by.Scope(), f.flow); err != nil {
		return err
	}
	q := journal.CountQuery{By: "scheme", From: o.From, To: o.To}
	q.Hourly = chartStep(o.To.Sub(o.From)) < 24*time.Hour
	counts, err := st.Count(ctx, q)
	if err == nil && o.From.Unix() <= 0 && len(counts) > 0 && chartStep(o.To.Sub(counts[0].Hour)) < 24*time.Hour {
		q.From, q.Hourly = counts[0].Hour, true // a journal that began lately has a bar for each hour
		counts, err = st.Count(ctx, q)
	}
	if err != nil {
		return err
	}
	first := o.To
	for i := range counts {
		if counts[i].Hour.Before(first) {
			first = counts[i].Hour
		}
	}
	o.Schemes = reportRows(counts, func(c *journal.Rollup) string { return c.Value })
	slices.SortStableFunc(o.Schemes, func(a, b ReportRow) int { return cmp.Compare(b.All, a.All) })
	step := max(chartStep(o.To.Sub(first)), time.Hour) // counts are of hours
	if o.From.Unix() > 0 {
		first = o.From
		step = chartStep(o.To.Sub(first))
	}
	if step < time.Hour {
		if counts, err = countMinutes(ctx, st, o.From, o.To); err != nil {
			return err
		}
	}
	o.addChart(counts, first, step)
	return nil
}

// addChart adds the bars from a moment until To, and the counts of all of them together.
func (o *Overview) addChart(counts []journal.Rollup, first time.Time, step time.Duration) {
	begin := first.UTC().Truncate(step)
	for at := begin; at.Before(o.To) && len(o.Chart) <= maxChartBars; at = at.Add(step) {
		o.Chart = append(o.Chart, ChartBar{at, make([]int64, len(ChartResults()))})
	}
	sums := make([]int64, len(ChartResults()))
	for i := range counts {
		bar := int(counts[i].Hour.Sub(begin) / step)
		for result, n := range counts[i].Results {
			sums[chartIndex(result)] += n
			if bar >= 0 && bar < len(o.Chart) {
				o.Chart[bar].Counts[chartIndex(result)] += n
			}
		}
	}
	for i, result := range ChartResults() {
		o.Results = append(o.Results, ResultCount{result, sums[i]})
	}
}

// noticesOfServer says what needs attention at the directories, and in the parts of the server that are the same on all
// nodes.
func (h *Handler) noticesOfServer(directories []Directory) []Notice {
	problems := maps.Clone(h.Node.Problems())
	maps.DeleteFunc(problems, func(part, _ string) bool { return isOfNode(part) })
	all := h.noticesOfCertificates(directories, problems)
	for i := range directories {
		all = append(all, noticesOfDirectory(&directories[i], h.Now(), problems)...)
	}
	for _, part := range slices.Sorted(maps.Keys(problems)) {
		link, do := "/readyz", "See /readyz"
		if strings.HasPrefix(part, "directory ") {
			link, do = "/directories", "See directories"
		}
		all = append(all, Notice{
			Key: "problem " + part, Level: LevelBad, Title: "Not all is well with " + part, Text: problems[part] + ".",
			Link: link, Do: do, Help: stateHelp + "degraded",
		})
	}
	return all
}

// soon is how long before its end a certificate needs attention, and urgent how long before its end it needs attention
// immediately.
const soon, urgent = 30 * 24 * time.Hour, 14 * 24 * time.Hour

// noticesOfCertificates says which certificates end, and takes the problems that say the same out of the others.
func (h *Handler) noticesOfCertificates(directories []Directory, problems map[string]string) (all []Notice) {
	ends := h.Node.Endings()
	earliest := func(a, b string) int { return cmp.Or(ends[a].Compare(ends[b]), strings.Compare(a, b)) }
	for _, key := range slices.SortedFunc(maps.Keys(ends), earliest) {
		left := ends[key].Sub(h.Now())
		if left >= soon {
			break
		}
		name := key
		for _, d := range directories {
			if strings.HasPrefix(key, d.Key+".") {
				name = d.Scheme + ", " + key
			}
		}
		n := Notice{
			Key: "certificate " + key, Level: LevelWarning,
			Title: fmt.Sprintf("A certificate ends in %s: %s", describeDays(left), name),
			Text: fmt.Sprintf("It is good until %s. Get its successor now; who checks it refuses connections from then on.",
				formatMoment(ends[key])),
			Link: "/directories", Do: "See directories", Help: stateHelp + "certificateends", Since: ends[key].Add(-soon),
		}
		switch {
		case left <= 0:
			n.Level, n.Title = LevelBad, "A certificate has expired: "+name
			n.Text = fmt.Sprintf("It was good until %s. It is still shown; the other side decides. Replace it now.",
				formatMoment(ends[key]))
		case left < urgent:
			n.Level = LevelBad
		}
		all = append(all, n)
		maps.DeleteFunc(problems, func(_, text string) bool { return strings.HasPrefix(text, key+": the certificate ") })
	}
	return all
}

// noticesOfDirectory says what needs attention at one directory, and takes the problems that say the
// same out of the others.
func noticesOfDirectory(d *Directory, now time.Time, problems map[string]string) (all []Notice) {
	part := rangesOf(d.Scheme)
	r := &d.Ranges
	switch problem := problems[part]; {
	case problem != "":
		text := "There are " + problem + "."
		if r.Fault != "" {
			text += " The last answer: " + r.Fault + "."
		}
		all = append(all, Notice{
			Key: "no ranges " + d.Scheme, Level: LevelBad, Title: d.Scheme + " has no card ranges", Text: text, Link: "/ranges",
			Do: "See card ranges", Help: stateHelp + "nocardranges",
		})
	case r.IsOld:
		text := "Those are in use; new cards may be called not enrolled."
		if r.Fault != "" {
			text += " The last exchange failed: " + r.Fault + "."
		}
		age := now.Sub(*r.Loaded)
		level := LevelWarning
		if age >= soonOld {
			level = LevelBad
		}
		all = append(all, Notice{
			Key: "old ranges " + d.Scheme, Level: level,
			Title: fmt.Sprintf("The card ranges of %s are %s old", d.Scheme, describeAge(age)), Text: text, Link: "/ranges",
			Do: "See card ranges", Help: stateHelp + "cardrangesold",
		})
	}
	delete(problems, part)
	if r.Held != 0 && !r.Accepted {
		all = append(all, Notice{
			Key: "held ranges " + d.Scheme, Level: LevelWarning,
			Title: fmt.Sprintf("New card ranges of %s are held back", d.Scheme),
			Text: fmt.Sprintf(
				"The directory server sent %d of them in place of %d. They wait until an operator accepts them, or until an answer is as usual again.",
				r.HeldRanges, r.Ranges),
			Link: "/ranges", Do: "Compare them", Help: stateHelp + "cardrangesheld",
		})
	}
	return all
}

// soonOld is the age from which on old card ranges are urgent.
const soonOld = 24 * time.Hour

// failsFor is how long no delivery to an endpoint must have succeeded before that is worth a notice.
const failsFor = 30 * time.Second

// noticesOfWebhooks says which webhook endpoints get nothing.
func (h *Handler) noticesOfWebhooks(ctx context.Context) ([]Notice, error) {
	endpoints, err := h.Node.TroubledEndpoints(ctx)
	var all []Notice
	for _, e := range endpoints {
		n := Notice{
			Key: "webhook " + e.ID, Level: LevelWarning, Merchant: e.Merchant, Since: e.Failing, Do: "See the endpoint",
			Title: fmt.Sprintf("%s gets no webhooks at one endpoint", e.Merchant), Link: "/webhooks/" + url.PathEscape(e.ID),
			Help: stateHelp + "webhooksfailing",
		}
		switch {
		case !e.IsDisabled && h.Now().Sub(e.Failing) < failsFor:
			continue
		case !e.IsDisabled:
			n.Title = fmt.Sprintf("Webhooks of %s fail at one endpoint", e.Merchant)
			n.Text = "No delivery has succeeded since " + formatMoment(e.Failing) + ". Deliveries are tried again."
		case e.Failing.IsZero():
			n.Text = "Somebody has disabled it. Its events are kept. Enable it when the receiver is well."
		default:
			n.Text = "It was disabled, for no delivery has succeeded since " + formatMoment(e.Failing) +
				". Its events are kept. Enable it when the receiver is well."
		}
		all = append(all, n)
	}
	return all, err
}

func formatMoment(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") }

// describeDays says how many days are left.
func describeDays(left time.Duration) string {
	switch days := int(left / (24 * time.Hour)); days {
	case 0:
		return "less than a day"
	case 1:
		return "1 day"
	default:
		return fmt.Sprintf("%d days", days)
	}
}

// describeAge says how old something is, in hours or minutes.
func describeAge(age time.Duration) string {
	if age < 2*time.Hour {
		return fmt.Sprintf("%d min", int(age.Minutes()))
	}
	return fmt.Sprintf("%d h", int(age.Hours()))
}
