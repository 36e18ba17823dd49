package admin

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

const (
	// nowSpan is how long back "now" goes.
	nowSpan = 15 * time.Minute

	// daysBefore is with how many days now is compared.
	daysBefore = 7

	// usualFor is how long the counts of the days before are used again. They hardly change.
	usualFor = 5 * time.Minute

	// maxUsual is for how many scopes these counts are kept.
	maxUsual = 200
)

// A Present is how requests went in the last 15 minutes.
type Present struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	journal.Flow
	Results []ResultCount `json:"results"` // of the authentications, in the order of the chart
	Before  *Past         `json:"before"`  // null: the days before have nothing to compare with
}

// A Past is how requests went in the same 15 minutes of each of the days before, all days together.
type Past struct {
	Days int `json:"days"` // how many, up to the first one with a request; 7 at most
	journal.Flow
	Results []ResultCount `json:"results"`
}

// A usualCache has the counts of the days before, by the key of a scope. Its zero value is ready to use.
type usualCache struct {
	mu  sync.Mutex
	all map[string]usual
}

// A usual is what was counted, and when.
type usual struct {
	at   time.Time
	past *Past
}

// countNow counts the requests of the last 15 minutes, of all merchants, by minute.
func (h *Handler) countNow(ctx context.Context) ([]journal.FlowCount, error) {
	if h.Journal == nil {
		return nil, nil
	}
	now := h.Now()
	return h.Journal.Flow(ctx, journal.FlowQuery{From: now.Add(-nowSpan), To: now})
}

// present adds up the counts of the last 15 minutes within a scope, and compares them with the days before.
func (h *Handler) present(ctx context.Context, scope journal.Scope, counts []journal.FlowCount) (*Present, error) {
	now := h.Now().UTC()
	p := &Present{From: now.Add(-nowSpan), To: now}
	p.Flow, p.Results = addUp(counts, scope)
	var err error
	p.Before, err = h.past(ctx, scope, now)
	return p, err
}

// addUp adds up the counts of the merchants of a scope.
func addUp(counts []journal.FlowCount, scope journal.Scope) (sum journal.Flow, results []ResultCount) {
	sums := make([]int64, len(ChartResults()))
	for i := range counts {
		c := &counts[i]
		if !scope.Has(c.Merchant) {
			continue
		}
		sum.Add(&c.Flow)
		sums[chartIndex(c.Result)] += c.Sent()
	}
	for i, result := range ChartResults() {
		results = append(results, ResultCount{result, sums[i]})
	}
	return sum, results
}

// past counts the same 15 minutes of the days before within a scope, or returns what was counted lately.
func (h *Handler) past(ctx context.Context, scope journal.Scope, now time.Time) (*Past, error) {
	c, key := &h.usual, scope.Key()
	c.mu.Lock()
	known, isKnown := c.all[key]
	c.mu.Unlock()
	if age := now.Sub(known.at); isKnown && age >= 0 && age < usualFor {
		return known.past, nil
	}
	var counts []journal.FlowCount
	days := 0
	for day := 1; day <= daysBefore; day++ {
		to := now.Add(-time.Duration(day) * 24 * time.Hour)
		some, err := journal.Within(h.Journal, scope).Flow(ctx,
			journal.FlowQuery{From: to.Add(-nowSpan), To: to, Whole: true})
		if err != nil {
			return nil, err
		}
		if len(some) > 0 {
			days = day
		}
		counts = append(counts, some...)
	}
	var past *Past
	if days > 0 {
		past = &Past{Days: days}
		past.Flow, past.Results = addUp(counts, journal.All())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil || len(c.all) >= maxUsual {
		c.all = map[string]usual{}
	}
	c.all[key] = usual{now, past}
	return past, nil
}

// countMinutes counts the authentications of a short time by minute and result, for a chart.
func countMinutes(ctx context.Context, st *journal.Reader, from, to time.Time) ([]journal.Rollup, error) {
	counts, err := st.Flow(ctx, journal.FlowQuery{From: from, To: to})
	minutes := map[time.Time]*journal.Rollup{}
	for i := range counts {
		c := &counts[i]
		if minutes[c.Minute] == nil {
			minutes[c.Minute] = journal.NewRollup()
			minutes[c.Minute].Hour = c.Minute
		}
		minutes[c.Minute].Results[c.Result] += c.Sent()
	}
	var all []journal.Rollup
	for _, minute := range slices.SortedFunc(maps.Keys(minutes), time.Time.Compare) {
		all = append(all, *minutes[minute])
	}
	return all, err
}
