package obs

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// maxRuleMerchants is how many merchants have series of their own. Those that come later share
// the series with an empty name, so that the number of series stays bounded.
const maxRuleMerchants = 500

// ruleMetrics count how far requests agree with the rules of schemes.
type ruleMetrics struct {
	checked  *prometheus.CounterVec
	findings *prometheus.CounterVec

	mu        sync.Mutex
	merchants map[string]bool // those that have series of their own
}

func (m *Metrics) newRuleMetrics() *ruleMetrics {
	return &ruleMetrics{
		checked: m.newCounter("threeds_scheme_checked_total",
			"Requests that were checked against the rules of their scheme; an empty merchant is all beyond the first 500.",
			"merchant", "scheme"),
		findings: m.newCounter("threeds_scheme_findings_total",
			"Requests that do not agree with a rule of their scheme. in_force is false before the day since.",
			"merchant", "scheme", "element", "rule", "since", "in_force"),
		merchants: make(map[string]bool),
	}
}

// label returns the name of a merchant if it has series of its own, else "".
func (m *ruleMetrics) label(merchant string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.merchants[merchant] && len(m.merchants) >= maxRuleMerchants {
		return ""
	}
	m.merchants[merchant] = true
	return merchant
}

// A BrokenRule is a rule of a scheme that a request does not agree with.
type BrokenRule struct {
	Element string // such as email|homePhone
	Rule    string // require, advise or forbid
	Since   string // a day, or ""
	InForce bool
}

// RulesChecked counts one request that was checked against the rules of its scheme, and what
// does not agree with them. A rule counts once for a request.
func (m *Metrics) RulesChecked(merchant, scheme string, broken []BrokenRule) {
	merchant = m.rules.label(merchant)
	m.rules.checked.WithLabelValues(merchant, scheme).Inc()
	for _, b := range broken {
		m.rules.findings.WithLabelValues(merchant, scheme, b.Element, b.Rule, b.Since, strconv.FormatBool(b.InForce)).Inc()
	}
}
