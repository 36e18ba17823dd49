package server

import (
	"github.com/openthreeds/threeds/internal/base/keyhelper"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/edge/console"
)

// keyHelperCondition says whether the key helper answers; nil means that there is none. What it has opened before is in
// memory. So requests are served without it, except through directories that have to see a certificate whose key it
// holds.
func keyHelperCondition(h *keyhelper.Helper) console.Condition {
	return console.Condition{Name: "key helper", Check: func() (string, bool) {
		if h == nil {
			return "", true
		}
		return h.Problem(), true
	}}
}

// registerKeyHelperMetrics adds the metrics of a key helper; nil means that there is none, and nothing is wrong with
// it.
func registerKeyHelperMetrics(m *obs.Metrics, h *keyhelper.Helper) {
	if h == nil {
		h = keyhelper.New(nil, 0)
	}
	m.HelperKeys(h.Keys)
	m.Gauge("threeds_key_helper_up", "1 while the key helper answers for all keys, or there is none, 0 otherwise.", "", "",
		func() float64 {
			if h.Problem() == "" {
				return 1
			}
			return 0
		})
	m.Counter("threeds_key_helper_starts_total", "Times that the process of the key helper was started.",
		func() float64 { return float64(h.Starts()) })
	for _, verb := range keyhelper.Verbs() {
		m.CounterOf("threeds_key_helper_requests_total", "Requests to the key helper.", "verb", verb,
			func() float64 { return float64(h.Counts(verb).All) })
		m.CounterOf("threeds_key_helper_failures_total", "Requests to the key helper that failed.", "verb", verb,
			func() float64 { return float64(h.Counts(verb).Failed) })
	}
}
