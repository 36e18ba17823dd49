package obs

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/openthreeds/threeds/internal/gate"
)

// Metrics counts what the server does. It is an observer of the engine.
type Metrics struct {
	registry   *prometheus.Registry
	operations *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	directory  *prometheus.CounterVec
	findings   *prometheus.CounterVec
	ranges     *prometheus.GaugeVec
	loaded     *prometheus.GaugeVec
	refused    *prometheus.CounterVec
}

// NewMetrics returns metrics in a registry of their own.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "threeds_operations_total",
			Help: "Operations by scheme and outcome: a transStatus, an error code, or ok.",
		}, []string{"operation", "scheme", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "threeds_operation_seconds",
			Help:    "How long operations took, the directory server's time included.",
			Buckets: []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"operation"}),
		directory: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "threeds_directory_requests_total",
			Help: "Requests to directory servers by scheme, message and outcome.",
		}, []string{"scheme", "message", "outcome"}),
		findings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "threeds_scheme_findings_total",
			Help: "Elements of requests that do not keep a rule of the scheme's own: require, advise, format or closed.",
		}, []string{"scheme", "element", "rule"}),
		ranges: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "threeds_card_ranges",
			Help: "Card ranges in use.",
		}, []string{"scheme"}),
		loaded: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "threeds_card_ranges_loaded_timestamp_seconds",
			Help: "When the card ranges in use were loaded.",
		}, []string{"scheme"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "threeds_refused_total",
			Help: "Requests that were refused without looking at them, by operation and reason: overload, in_flight or rate_limit.",
		}, []string{"operation", "reason"}),
	}
	m.registry.MustRegister(m.operations, m.seconds, m.directory, m.findings, m.ranges, m.loaded, m.refused,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Observe counts one operation of the engine.
func (m *Metrics) Observe(operation, scheme, outcome string, took time.Duration) {
	m.operations.WithLabelValues(operation, scheme, outcome).Inc()
	m.seconds.WithLabelValues(operation).Observe(took.Seconds())
}

// Finding counts one element of a request that does not keep a scheme's rule.
func (m *Metrics) Finding(scheme, element, rule string) {
	m.findings.WithLabelValues(scheme, element, rule).Inc()
}

// Request counts one request to a directory server.
func (m *Metrics) Request(scheme, message, outcome string) {
	m.directory.WithLabelValues(scheme, message, outcome).Inc()
}

// Ranges notes a scheme's new card ranges.
func (m *Metrics) Ranges(scheme string, count int, at time.Time) {
	m.ranges.WithLabelValues(scheme).Set(float64(count))
	m.loaded.WithLabelValues(scheme).Set(float64(at.Unix()))
}

// Refused counts one request that was refused.
func (m *Metrics) Refused(operation, reason string) {
	m.refused.WithLabelValues(operation, reason).Inc()
}

// Gate shows what a gate does: which share of each class it admits, and the wait
// that it goes by.
func (m *Metrics) Gate(g *gate.Gate) {
	for _, c := range gate.Classes() {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "threeds_admitted_share",
			Help:        "Share of requests that is admitted now, by class: begin, proceed, conclude. Less than 1 is overload.",
			ConstLabels: prometheus.Labels{"class": c.String()},
		}, func() float64 { return g.Admitted(c) }))
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "threeds_processor_wait_seconds",
		Help: "How long work last waited for a processor.",
	}, func() float64 { return g.Wait().Seconds() }))
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
