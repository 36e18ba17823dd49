package pages

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/admin"
)

// An overviewView is the data of the first page.
type overviewView struct {
	Times      []link
	All        int64
	Success    float64
	Challenged float64
	P95        float64 // of the slowest scheme that has one
	Slowest    string
	Rows       []reportRow // by scheme, the one with most first
	Notable    []string
	Off        bool
	Shop       string
}

// overviewPage says how the authentications of a time went, by scheme.
func overviewPage(h *Handler, v *visit) (result, error) {
	span := timeOf(v.URL.Query())
	view := &overviewView{Shop: h.Shop}
	got := result{template: "overview", title: "Overview", data: view}
	query := url.Values{"by": {"scheme"}, "from": {time.Unix(0, 0).UTC().Format(time.RFC3339)}}
	for _, s := range spans {
		view.Times = append(view.Times, link{"/?time=" + s.value, s.name, s.value == span})
		if s.value == span && s.back > 0 {
			query.Set("from", h.Now().Add(-s.back).UTC().Format(time.RFC3339))
		}
	}
	var all list[reportRow]
	start := time.Now()
	err := h.call(v, http.MethodGet, "reports", query, nil, &all)
	got.db = time.Since(start)
	if p, ok := errors.AsType[*admin.Problem](err); ok && p.Status == http.StatusNotFound {
		view.Off = true
		return got, nil
	}
	if err != nil {
		return result{}, err
	}
	view.Rows = all.Data
	slices.SortStableFunc(view.Rows, func(a, b reportRow) int { return int(min(1, max(-1, b.All-a.All))) })
	for _, r := range view.Rows {
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
	}
	view.Notable = notableOf(view.Rows)
	return got, nil
}
