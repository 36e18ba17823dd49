package obs

import (
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics counts what the server does. It is an observer of the engine.
type Metrics struct {
	registry   *prometheus.Registry
	operations *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	browsers   *prometheus.CounterVec
	directory  *prometheus.CounterVec
	exchanges  *prometheus.HistogramVec
	open       *prometheus.GaugeVec
	rules      *ruleMetrics
	ranges     *prometheus.GaugeVec
	loaded     *prometheus.GaugeVec
	held       *prometheus.GaugeVec
	ends       *prometheus.GaugeVec
	due        *prometheus.GaugeVec
	timesMu    sync.Mutex
	times      map[*prometheus.GaugeVec]map[[2]string]bool // the labels that ends and due have
	refused    *prometheus.CounterVec
	spans      *prometheus.CounterVec
	reloads    *prometheus.CounterVec
	reloaded   prometheus.Gauge
	reloadedAt prometheus.Gauge

	mu  sync.Mutex // held to change met
	met atomic.Pointer[map[operation]series]
}

// An operation is what Observe counts apart from others.
type operation struct{ name, scheme, outcome, component string }

// series are the metrics of one operation.
type series struct {
	count   prometheus.Counter
	seconds prometheus.Observer
}

// NewMetrics returns metrics in a registry of their own.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.operations = m.newCounter("threeds_operations_total",
		"Requests by operation, scheme and outcome: a transStatus, an error code, ok, or in a word why it was refused; and by the component that found the error of an Erro: S, D, A or C.",
		"operation", "scheme", "outcome", "component")
	m.seconds = m.newHistogram("threeds_operation_seconds",
		"How long operations took, the directory server's time included.",
		[]float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, "operation")
	m.browsers = m.newCounter("threeds_browser_requests_total",
		"Requests of the browsers of shoppers, by step and by the first digit of the status.", "step", "status")
	m.directory = m.newCounter("threeds_directory_requests_total",
		"Requests to directory servers by scheme, message and outcome.", "scheme", "message", "outcome")
	m.exchanges = m.newHistogram("threeds_directory_seconds",
		"How long requests to directory servers took, until the answer was there or they were given up.",
		[]float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, "scheme", "message")
	m.open = m.newGauge("threeds_directory_open",
		"1 while requests are refused immediately because the directory server cannot be reached, 0 otherwise.",
		"scheme", "message")
	m.ranges = m.newGauge("threeds_card_ranges", "Card ranges in use.", "scheme")
	m.loaded = m.newGauge("threeds_card_ranges_loaded_timestamp_seconds",
		"When the card ranges in use were loaded.", "scheme")
	m.held = m.newGauge("threeds_card_ranges_held",
		"1 while a set of card ranges is held back until an operator accepts it, 0 otherwise.", "scheme")
	m.reloads = m.newCounter("threeds_config_reloads_total",
		"Changed configurations by result: applied, or refused while the previous one stays.", "result")
	m.reloaded = m.newGauge("threeds_config_last_reload_successful",
		"Whether the configuration on disk is in use: 0 when it was refused.").WithLabelValues()
	m.reloadedAt = m.newGauge("threeds_config_last_reload_success_timestamp_seconds",
		"When the configuration in use was taken up.").WithLabelValues()
	m.ends = m.newGauge("threeds_certificate_not_after_timestamp_seconds",
		"When a certificate ends, by the key of the configuration that names its file: of several in it the first.",
		"key", "scheme")
	m.due = m.newGauge("threeds_crl_next_update_timestamp_seconds",
		"When a certificate revocation list is out of date, by the key of the configuration that names its file: of several in it the first.",
		"key", "scheme")
	m.refused = m.newCounter("threeds_refused_total",
		"Requests that were refused without looking at them, by operation and reason: overload, in_flight, rate_limit, merchant_rate, merchant_in_flight or merchant_disabled; /auth with too many of its merchant before it, per_merchant; and connections that had to go.",
		"operation", "reason")
	m.spans = m.newCounter("threeds_spans_total",
		"Spans of traces by what became of them: sent, failed (not taken by the collector) or dropped (too many waited).",
		"outcome")
	m.rules = m.newRuleMetrics()
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.reloads.WithLabelValues("applied")
	m.reloads.WithLabelValues("refused")
	m.Configured(time.Now())
	m.met.Store(new(map[operation]series{}))
	return m
}

// newCounter, newGauge and newHistogram add metrics with these labels to the registry.
func (m *Metrics) newCounter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) newGauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) newHistogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(v)
	return v
}

// Observe counts one operation that an engine has served, and that is not counted with its request. component is the
// errorComponent of its Erro, "" if it has none.
func (m *Metrics) Observe(name, scheme, outcome, component string, took time.Duration) {
	m.count(operation{name, scheme, outcome, knownComponent(component)}, took, true)
}

// knownComponent returns an errorComponent of EMV 3DS: C is the SDK, S this server, D the directory server, A the ACS.
// It returns "" for any other text, since other parties write it, and a label must have few values.
func knownComponent(component string) string {
	switch component {
	case "C", "S", "D", "A":
		return component
	}
	return ""
}

// count counts one request. Its time counts if an engine has served it: to refuse a
// request takes no time that says anything of the others.
func (m *Metrics) count(op operation, took time.Duration, served bool) {
	s, ok := (*m.met.Load())[op]
	if !ok {
		s = m.meet(op)
	}
	s.count.Inc()
	if served {
		s.seconds.Observe(took.Seconds())
	}
}

// meet finds the metrics of an operation that is observed for the first time, and keeps
// them: to look up four labels for every request would be slow. There are few
// operations, since outcomes are codes.
func (m *Metrics) meet(op operation) series {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := series{
		m.operations.WithLabelValues(op.name, op.scheme, op.outcome, op.component),
		m.seconds.WithLabelValues(op.name),
	}
	met := maps.Clone(*m.met.Load())
	met[op] = s
	m.met.Store(&met)
	return s
}

// Request counts one request to a directory server.
func (m *Metrics) Request(scheme, message, outcome string) {
	m.directory.WithLabelValues(scheme, message, outcome).Inc()
}

// Took notes how long a request to a directory server took.
func (m *Metrics) Took(scheme, message string, took time.Duration) {
	m.exchanges.WithLabelValues(scheme, message).Observe(took.Seconds())
}

// Open notes whether requests to a directory server are refused at once.
func (m *Metrics) Open(scheme, message string, open bool) {
	m.open.WithLabelValues(scheme, message).Set(flag(open))
}

// flag is 1 for what is, 0 for what is not.
func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Known shows the metrics of a scheme with the value 0 before there are card ranges or
// operation messages: an alert cannot tell 0 from a series that is not there, and does not
// see an increase with which a series begins.
func (m *Metrics) Known(scheme string) {
	m.ranges.WithLabelValues(scheme)
	m.loaded.WithLabelValues(scheme)
	m.held.WithLabelValues(scheme)
	for _, outcome := range []string{"received", "01", "02"} {
		m.operations.WithLabelValues("oreq", scheme, outcome, "")
	}
}

// Ranges notes a scheme's new card ranges.
func (m *Metrics) Ranges(scheme string, count int, at time.Time) {
	m.ranges.WithLabelValues(scheme).Set(float64(count))
	m.loaded.WithLabelValues(scheme).Set(float64(at.Unix()))
}

// Held notes whether a set of a scheme's card ranges is held back.
func (m *Metrics) Held(scheme string, held bool) { m.held.WithLabelValues(scheme).Set(flag(held)) }

// Forget removes the state of a scheme whose directory was removed from the configuration.
func (m *Metrics) Forget(scheme string) {
	m.open.DeleteLabelValues(scheme, "AReq")
	m.ranges.DeleteLabelValues(scheme)
	m.loaded.DeleteLabelValues(scheme)
	m.held.DeleteLabelValues(scheme)
}

// ForgetV1 is Forget for a directory of 3-D Secure 1.0.2.
func (m *Metrics) ForgetV1(scheme string) { m.open.DeleteLabelValues(scheme, "VEReq") }

// Certificates notes when the certificates of the configuration in use end. schemeOf tells
// the scheme of a key, "" if it is of none.
func (m *Metrics) Certificates(ends map[string]time.Time, schemeOf func(key string) string) {
	m.setTimes(m.ends, ends, schemeOf)
}

// Lists notes when the revocation lists of the configuration in use are out of date.
func (m *Metrics) Lists(ends map[string]time.Time, schemeOf func(key string) string) {
	m.setTimes(m.due, ends, schemeOf)
}

// setTimes makes a gauge show exactly these times. A scrape at the same moment sees every time that stays.
func (m *Metrics) setTimes(gauge *prometheus.GaugeVec, ends map[string]time.Time, schemeOf func(key string) string) {
	m.timesMu.Lock()
	defer m.timesMu.Unlock()
	shown := map[[2]string]bool{}
	for key, at := range ends {
		labels := [2]string{key, schemeOf(key)}
		gauge.WithLabelValues(labels[:]...).Set(float64(at.Unix()))
		shown[labels] = true
	}
	for labels := range m.times[gauge] {
		if !shown[labels] {
			gauge.DeleteLabelValues(labels[:]...)
		}
	}
	if m.times == nil {
		m.times = map[*prometheus.GaugeVec]map[[2]string]bool{}
	}
	m.times[gauge] = shown
}

// Configured notes that a configuration is in use since at.
func (m *Metrics) Configured(at time.Time) {
	m.reloaded.Set(1)
	m.reloadedAt.Set(float64(at.UnixMilli()) / 1000)
}

// Reloaded counts a changed configuration, applied or refused.
func (m *Metrics) Reloaded(applied bool) {
	if !applied {
		m.reloads.WithLabelValues("refused").Inc()
		m.reloaded.Set(0)
		return
	}
	m.reloads.WithLabelValues("applied").Inc()
	m.Configured(time.Now())
}

// Degraded adds a metric with the value 1 for each degraded part of the server, and 0 for each other part. ask is
// called when the metrics are read.
func (m *Metrics) Degraded(ask func() map[string]bool) {
	m.addFlags("threeds_degraded", "1 while a part of the server, as /readyz names it, is not well, 0 otherwise.", "what",
		ask)
}

// HelperKeys adds a metric with the value 1 for each key of the key helper that is well, and 0 for each other one. ask
// is called when the metrics are read, and returns the labels of keys.
func (m *Metrics) HelperKeys(ask func() map[string]bool) {
	m.addFlags("threeds_key_helper_key_up",
		"1 while all that a key of the key helper was asked for works, 0 otherwise.", "key", ask)
}

// addFlags adds a metric with the value 1 for each value of its label for which ask returns true, and 0 for each other
// one that it returns. ask is called when the metrics are read.
func (m *Metrics) addFlags(name, help, label string, ask func() map[string]bool) {
	desc := prometheus.NewDesc(name, help, []string{label}, nil)
	m.registry.MustRegister(askedMetric{desc, func(to chan<- prometheus.Metric) {
		for value, is := range ask() {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, flag(is), value)
		}
	}})
}

// Info adds a metric with the value 1 whose labels say something of the server that may change. Ask is called when the
// metrics are read. It returns the values of the labels, or none when there is nothing to say.
func (m *Metrics) Info(name, help string, labels []string, ask func() []string) {
	desc := prometheus.NewDesc(name, help, labels, nil)
	m.registry.MustRegister(askedMetric{desc, func(to chan<- prometheus.Metric) {
		if values := ask(); len(values) > 0 {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1, values...)
		}
	}})
}

// An askedMetric is a metric whose values are asked for when the metrics are read, and not before.
type askedMetric struct {
	desc    *prometheus.Desc
	collect func(to chan<- prometheus.Metric)
}

func (a askedMetric) Describe(to chan<- *prometheus.Desc) { to <- a.desc }

func (a askedMetric) Collect(to chan<- prometheus.Metric) { a.collect(to) }

// Gauge adds a metric whose value is asked for when the metrics are read. It has one
// label with one value, or none if label is "".
func (m *Metrics) Gauge(name, help, label, value string, ask func() float64) {
	opts := prometheus.GaugeOpts{Name: name, Help: help}
	if label != "" {
		opts.ConstLabels = prometheus.Labels{label: value}
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(opts, ask))
}

// Counter is Gauge for a metric that never falls, without labels.
func (m *Metrics) Counter(name, help string, ask func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, ask))
}

// CounterOf is Counter with one label that has one value.
func (m *Metrics) CounterOf(name, help, label, value string, ask func() float64) {
	opts := prometheus.CounterOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{label: value}}
	m.registry.MustRegister(prometheus.NewCounterFunc(opts, ask))
}

// BrowserRequest counts one request of a shopper's browser by its step and the status of the answer.
func (m *Metrics) BrowserRequest(step string, status int) {
	m.browsers.WithLabelValues(step, strconv.Itoa(status/100)+"xx").Inc()
}

// Refused counts one request that was refused.
func (m *Metrics) Refused(operation, reason string) {
	m.refused.WithLabelValues(operation, reason).Inc()
}

// span counts spans of traces.
func (m *Metrics) span(outcome string, n int) {
	m.spans.WithLabelValues(outcome).Add(float64(n))
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
