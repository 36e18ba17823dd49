// Package alerts tests the rules for Prometheus with the engine of Prometheus, for two installations in one: the right
// alert fires in its time for the installation that is broken, and none for the one that is well. It is a module of its
// own, so that no other module depends on that of Prometheus.
package alerts

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// The two installations. The first is well in all tests, the second breaks.
const (
	well   = "threeds-test"
	broken = "prod/threeds"
)

// breaks is when the second installation breaks.
const breaks = 20 * time.Minute

// nodes are the series of an installation with two nodes, both of them ready and scraped.
func nodes(job string, ready, up func(time.Duration) float64) (all []input) {
	for _, node := range []string{"one:8090", "two:8090"} {
		all = append(all, metric(job, node, "threeds_ready", ready), metric(job, node, "up", up))
	}
	return all
}

// auths are the series of /auth with an outcome, for a scheme on both nodes of an installation. They come so many times
// a second on each node until the installation breaks, and then so many.
func auths(job, scheme, outcome, component string, before, after float64) (all []input) {
	for _, node := range []string{"one:8090", "two:8090"} {
		all = append(all, metric(job, node, "threeds_operations_total", counter(breaks, before, after),
			"operation", "auth", "scheme", scheme, "outcome", outcome, "component", component))
	}
	return all
}

// healthy are the series of two installations with traffic of two schemes, of which the second has none for visa from
// breaks on.
func healthy() []input {
	return slices.Concat(
		nodes(well, constant(1), constant(1)), nodes(broken, constant(1), constant(1)),
		auths(well, "visa", "Y", "", 2, 2), auths(well, "mastercard", "Y", "", 2, 2),
		auths(broken, "visa", "Y", "", 2, 0), auths(broken, "mastercard", "Y", "", 2, 2),
	)
}

// only checks that of the named alerts those fire that are wanted, not later than so long after breaks, and not before
// it, and no other.
func only(t *testing.T, got map[firing]time.Duration, want map[firing]time.Duration) {
	t.Helper()
	for f, within := range want {
		at, ok := got[f]
		if !ok || at < breaks || at > breaks+within {
			t.Errorf("%+v fires at %v (%t), want between %v and %v; all: %v", f, at, ok, breaks, breaks+within, got)
		}
	}
	for f, at := range got {
		if _, ok := want[f]; !ok {
			t.Errorf("%+v fires at %v", f, at)
		}
	}
}

// group returns the group of rules of a name.
func group(t *testing.T, name string) []rulefmt.RuleGroup {
	t.Helper()
	all := slices.DeleteFunc(readRules(t), func(g rulefmt.RuleGroup) bool { return g.Name != name })
	if len(all) != 1 {
		t.Fatalf("%d groups are called %s", len(all), name)
	}
	return all
}

// alertsOnly returns the groups with the rules of these alerts alone.
func alertsOnly(t *testing.T, names ...string) []rulefmt.RuleGroup {
	t.Helper()
	g := group(t, "threeds")
	g[0].Rules = slices.DeleteFunc(g[0].Rules, func(r rulefmt.Rule) bool { return !slices.Contains(names, r.Alert) })
	if len(g[0].Rules) != len(names) {
		t.Fatalf("of %v there are %d rules", names, len(g[0].Rules))
	}
	return g
}

// TestNoNodeReadyNamesTheInstallation: an installation of which no node is ready, or of which Prometheus reaches none,
// or whose targets have gone, fires within 45 s, and the other does not hide it.
func TestNoNodeReadyNamesTheInstallation(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		ready, up func(time.Duration) float64
	}{
		"unready":     {change(breaks, 1, 0), constant(1)},
		"not reached": {change(breaks, 1, missing), change(breaks, 1, 0)},
		"gone":        {change(breaks, 1, missing), change(breaks, 1, missing)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newWorld(t).run(alertsOnly(t, "ThreedsNoNodeReady"), 15*time.Second, breaks+10*time.Minute,
				slices.Concat(nodes(well, constant(1), constant(1)), nodes(broken, of.ready, of.up))...)
			only(t, got, map[firing]time.Duration{{"ThreedsNoNodeReady", broken, "", "critical"}: 45 * time.Second})
		})
	}
	t.Run("nothing is scraped", func(t *testing.T) {
		t.Parallel()
		got := newWorld(t).run(alertsOnly(t, "ThreedsNoNodeReady"), 15*time.Second, 2*time.Minute)
		if at, ok := got[firing{"ThreedsNoNodeReady", "", "", "critical"}]; !ok || at > time.Minute {
			t.Errorf("it fires %v", got)
		}
	})
}

// TestDirectoryThatRefusesIsCriticalWithinTwoMinutes: more than half of the /auth of a scheme are refused by its
// directory server. The warning about refused requests comes later, and names the component.
func TestDirectoryThatRefusesIsCriticalWithinTwoMinutes(t *testing.T) {
	t.Parallel()
	names := []string{"ThreedsDirectoryRefuses", "ThreedsAuthFailing", "ThreedsAuthRefused"}
	for name, tt := range map[string]struct {
		refused []input
		want    map[firing]time.Duration
	}{
		"all": {auths(broken, "visa", "303", "D", 0, 2), map[firing]time.Duration{
			{"ThreedsDirectoryRefuses", broken, "visa", "critical"}: 2 * time.Minute,
			{"ThreedsAuthRefused", broken, "visa", "warning"}:       20 * time.Minute,
		}},
		"some of little traffic": {
			// 6 in a minute from each node, of which good ones are none: the other scheme has its own traffic.
			auths(broken, "visa", "303", "D", 0, 0.1), map[firing]time.Duration{
				{"ThreedsDirectoryRefuses", broken, "visa", "critical"}: 2 * time.Minute,
				{"ThreedsAuthRefused", broken, "visa", "warning"}:       30 * time.Minute,
			},
		},
		"three in all": {auths(broken, "visa", "303", "D", 0, 0.001), nil},
		"requests that merchants spoil": {auths(broken, "visa", "203", "S", 0, 2), map[firing]time.Duration{
			{"ThreedsAuthRefused", broken, "visa", "warning"}: 20 * time.Minute,
		}},
		"a directory that does not answer": {auths(broken, "visa", "405", "S", 0, 2), map[firing]time.Duration{
			{"ThreedsAuthFailing", broken, "visa", "critical"}: 5 * time.Minute,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newWorld(t).run(alertsOnly(t, names...), 15*time.Second, breaks+35*time.Minute, append(healthy(), tt.refused...)...)
			only(t, got, tt.want)
		})
	}
}

// seconds are the series of how long the /auth of an installation take: so many a second in all on its one node, and
// so many of them within 5 s, before it breaks and after.
func seconds(job string, all, fastBefore, fastAfter float64) []input {
	const node = "one:8090"
	return []input{
		metric(job, node, "threeds_operation_seconds_count", counter(breaks, all, all), "operation", "auth"),
		metric(job, node, "threeds_operation_seconds_bucket", counter(breaks, all, all), "operation", "auth", "le", "+Inf"),
		metric(job, node, "threeds_operation_seconds_bucket", counter(breaks, fastBefore, fastAfter), "operation", "auth", "le", "5"),
		// Prometheus 3 writes the bound of a bucket as a number with a fraction.
		metric(job, "two:8090", "threeds_operation_seconds_count", counter(breaks, all, all), "operation", "auth"),
		metric(job, "two:8090", "threeds_operation_seconds_bucket", counter(breaks, fastBefore, fastAfter), "operation", "auth", "le", "5.0"),
	}
}

// TestBudgetsBurnForTheirInstallation: what uses up the budget of an objective within days is critical within minutes,
// what uses it up within weeks is a warning, and what keeps the objective is neither.
func TestBudgetsBurnForTheirInstallation(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		bad    []input
		until  time.Duration
		wanted map[firing]time.Duration
	}{
		"no answers": {auths(broken, "visa", "405", "S", 0, 2), time.Hour, map[firing]time.Duration{
			{"ThreedsAnsweredBudgetFast", broken, "", "critical"}: 15 * time.Minute,
			{"ThreedsAnsweredBudgetSlow", broken, "", "warning"}:  15 * time.Minute,
		}},
		"a directory that refuses all": {auths(broken, "visa", "303", "D", 0, 2), time.Hour, map[firing]time.Duration{
			{"ThreedsAnsweredBudgetFast", broken, "", "critical"}: 15 * time.Minute,
			{"ThreedsAnsweredBudgetSlow", broken, "", "warning"}:  15 * time.Minute,
		}},
		"one in fifty without an answer": {auths(broken, "mastercard", "405", "S", 0, 0.04), 3 * time.Hour, map[firing]time.Duration{
			{"ThreedsAnsweredBudgetSlow", broken, "", "warning"}: 2 * time.Hour,
		}},
		"one in a thousand without an answer": {auths(broken, "mastercard", "405", "S", 0, 0.002), 3 * time.Hour, nil},
		"requests that merchants spoil":       {auths(broken, "visa", "203", "S", 0, 2), time.Hour, nil},
		"slow": {seconds(broken, 10, 10, 5), time.Hour, map[firing]time.Duration{
			{"ThreedsLatencyBudgetFast", broken, "", "critical"}: 25 * time.Minute,
			{"ThreedsLatencyBudgetSlow", broken, "", "warning"}:  15 * time.Minute,
		}},
		"one in twenty-five slow": {seconds(broken, 10, 10, 9.6), 3 * time.Hour, map[firing]time.Duration{
			{"ThreedsLatencyBudgetSlow", broken, "", "warning"}: 2 * time.Hour,
		}},
		"one in two hundred slow": {seconds(broken, 10, 10, 9.95), 3 * time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inputs := slices.Concat(healthy(), seconds(well, 10, 10, 10), tt.bad)
			got := newWorld(t).run(group(t, "threeds-objectives"), time.Minute, breaks+tt.until, inputs...)
			only(t, got, tt.wanted)
		})
	}
}

// keepsJob reports whether a result of the expression always has the label job: whatever it adds up, it adds up for
// each installation.
func keepsJob(expr parser.Node) (kept bool) {
	kept = true
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			kept = kept && n.Without != slices.Contains(n.Grouping, "job")
		case *parser.BinaryExpr:
			if m := n.VectorMatching; m != nil && (m.On || len(m.MatchingLabels) > 0) {
				kept = kept && m.On == slices.Contains(m.MatchingLabels, "job")
			}
		}
		return nil
	})
	return kept
}

// TestEveryExpressionKeepsInstallationsApart: all rules, and all panels of the dashboard, which also have only the
// chosen installations.
func TestEveryExpressionKeepsInstallationsApart(t *testing.T) {
	t.Parallel()
	p := parser.NewParser(parser.Options{})
	rules := 0
	for _, g := range readRules(t) {
		for _, r := range g.Rules {
			rules++
			expr, err := p.ParseExpr(r.Expr)
			if err != nil || !keepsJob(expr) {
				t.Errorf("%s%s mixes installations (%v): %s", r.Alert, r.Record, err, r.Expr)
			}
			if summary := r.Annotations["summary"]; r.Alert != "" && !strings.Contains(summary, "$labels.job") {
				t.Errorf("%s does not name the installation: %s", r.Alert, summary)
			}
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	data, err := os.ReadFile("../../deploy/grafana/threeds.json")
	if err == nil {
		err = json.Unmarshal(data, &dashboard)
	}
	if err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, panel := range dashboard.Panels {
		for _, q := range panel.Targets {
			queries++
			expr, err := p.ParseExpr(strings.ReplaceAll(q.Expr, "$__rate_interval", "5m"))
			if err != nil || !keepsJob(expr) || !strings.Contains(q.LegendFormat, "{{job}}") {
				t.Errorf("%q mixes installations (%v): %s, shown as %s", panel.Title, err, q.Expr, q.LegendFormat)
				continue
			}
			for _, all := range parser.ExtractSelectors(expr) {
				if !slices.ContainsFunc(all, func(m *labels.Matcher) bool { return m.Name == "job" && m.Value == "$job" }) {
					t.Errorf("%q shows installations that were not chosen: %s", panel.Title, q.Expr)
				}
			}
		}
	}
	if rules < 30 || queries < 30 {
		t.Errorf("%d rules and %d queries", rules, queries)
	}
}
