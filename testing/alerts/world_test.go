package alerts

import (
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// rulesFile has the rules that operators load into their Prometheus.
const rulesFile = "../../deploy/prometheus/threeds.rules.yaml"

// readRules returns the groups of rules in rulesFile, which Prometheus accepts: expressions, templates and durations.
func readRules(t *testing.T) []rulefmt.RuleGroup {
	t.Helper()
	file, errs := rulefmt.ParseFile(rulesFile, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return file.Groups
}

// missing is the value of a series that has no sample at a time.
var missing = math.NaN()

// An input is a series that Prometheus scrapes, with its value at a time since the start; [missing] is no sample.
type input struct {
	labels map[string]string
	value  func(at time.Duration) float64
}

// metric returns an input of a job and a node. labels are pairs of a name and a value.
func metric(job, node, name string, value func(at time.Duration) float64, pairs ...string) input {
	all := map[string]string{model.MetricNameLabel: name, "job": job, "instance": node}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return input{all, value}
}

// constant is a value that stays.
func constant(v float64) func(time.Duration) float64 { return func(time.Duration) float64 { return v } }

// change is a value that is before until a time, and after from then on.
func change(at time.Duration, before, after float64) func(time.Duration) float64 {
	return func(now time.Duration) float64 {
		if now < at {
			return before
		}
		return after
	}
}

// counter is a counter that rises by so much a second until a time, and by another amount from then on. It is missing
// until it has risen, as the counters of the server are.
func counter(at time.Duration, before, after float64) func(time.Duration) float64 {
	return func(now time.Duration) float64 {
		v := before*min(now, at).Seconds() + after*max(now-at, 0).Seconds()
		if v == 0 {
			return missing
		}
		return math.Floor(v)
	}
}

// A firing is an alert that fires.
type firing struct {
	alert, job string
	other      string // the scheme, instance or component of the alert, "" for none of them
	severity   string
}

// A world is a Prometheus with its samples in memory.
type world struct {
	t      *testing.T
	engine *promql.Engine
	series map[string]*promql.Series
	order  []string // the keys of series, sorted
}

func newWorld(t *testing.T) *world {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 26, Timeout: time.Hour, LookbackDelta: 5 * time.Minute})
	t.Cleanup(func() { _ = engine.Close() })
	return &world{t: t, engine: engine, series: map[string]*promql.Series{}}
}

// start is the time at which each test begins.
var start = time.Unix(1_800_000_000, 0)

// run scrapes and evaluates from the start until a time, once in each step. It returns when each alert began to fire.
func (w *world) run(groups []rulefmt.RuleGroup, step, until time.Duration, inputs ...input) map[firing]time.Duration {
	w.t.Helper()
	since, fired := map[string]time.Duration{}, map[firing]time.Duration{}
	for now := time.Duration(0); now <= until; now += step {
		for _, in := range inputs {
			of := labels.FromMap(in.labels)
			v := in.value(now)
			if math.IsNaN(v) { // Prometheus marks the end of a series
				if s := w.series[of.String()]; s == nil || value.IsStaleNaN(s.Floats[len(s.Floats)-1].F) {
					continue
				}
				v = math.Float64frombits(value.StaleNaN)
			}
			w.add(of, now, v)
		}
		for _, g := range groups {
			for _, r := range g.Rules {
				found := w.query(r.Expr, now)
				if r.Record != "" {
					for _, s := range found {
						b := labels.NewBuilder(s.Metric)
						b.Set(model.MetricNameLabel, r.Record)
						w.add(b.Labels(), now, s.F)
					}
					continue
				}
				active := map[string]bool{}
				for _, s := range found {
					key := r.Alert + s.Metric.String()
					active[key] = true
					if _, ok := since[key]; !ok {
						since[key] = now
					}
					f := firing{alert: r.Alert, job: s.Metric.Get("job"), severity: r.Labels["severity"]}
					for _, name := range []string{"scheme", "component", "instance"} {
						if v := s.Metric.Get(name); v != "" && f.other == "" {
							f.other = v
						}
					}
					if _, ok := fired[f]; !ok && now-since[key] >= time.Duration(r.For) {
						fired[f] = now
					}
				}
				maps.DeleteFunc(since, func(key string, _ time.Duration) bool {
					return !active[key] && len(key) > len(r.Alert) && key[:len(r.Alert)+1] == r.Alert+"{"
				})
			}
		}
	}
	return fired
}

// add adds a sample.
func (w *world) add(of labels.Labels, now time.Duration, v float64) {
	key := of.String()
	s := w.series[key]
	if s == nil {
		s = &promql.Series{Metric: of}
		w.series[key] = s
		w.order = slices.Sorted(maps.Keys(w.series))
	}
	s.Floats = append(s.Floats, promql.FPoint{T: start.Add(now).UnixMilli(), F: v})
}

func (w *world) query(expr string, now time.Duration) promql.Vector {
	w.t.Helper()
	q, err := w.engine.NewInstantQuery(w.t.Context(), w, nil, expr, start.Add(now))
	if err != nil {
		w.t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	got := q.Exec(w.t.Context())
	found, err := got.Vector()
	if err != nil {
		w.t.Fatalf("%s: %v", expr, err)
	}
	return slices.Clone(found)
}

// Querier returns what reads the samples between two times in milliseconds.
func (w *world) Querier(from, to int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		set := &seriesSet{at: -1}
		for _, key := range w.order {
			s := w.series[key]
			if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Metric.Get(m.Name)) }) {
				continue
			}
			first := sort.Search(len(s.Floats), func(i int) bool { return s.Floats[i].T >= from })
			last := sort.Search(len(s.Floats), func(i int) bool { return s.Floats[i].T > to })
			set.all = append(set.all, promql.NewStorageSeries(promql.Series{Metric: s.Metric, Floats: s.Floats[first:last]}))
		}
		return set
	}}, nil
}

// A seriesSet is a list of series.
type seriesSet struct {
	all []storage.Series
	at  int
}

func (s *seriesSet) Next() bool                      { s.at++; return s.at < len(s.all) }
func (s *seriesSet) At() storage.Series              { return s.all[s.at] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }
