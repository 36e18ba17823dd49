package obs

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Defaults of the queue before the collector. The variables OTEL_BSP_… of the environment change them.
const (
	maxWaitingSpans = 4096             // spans that wait for the collector, about 1 KiB each
	exportTimeout   = 10 * time.Second // for the collector to take a batch
)

// TracingFromEnvironment returns where traces go by the variables OTEL_… of the environment, for a server whose
// configuration does not say it. It returns nil if none of them names a collector, or one of them switches traces off.
func TracingFromEnvironment(lookup func(string) (string, bool), version string) *Tracing {
	value := func(name string) string {
		v, _ := lookup(name)
		return strings.TrimSpace(v)
	}
	namesCollector := value("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	isOff := strings.EqualFold(value("OTEL_SDK_DISABLED"), "true") || value("OTEL_TRACES_EXPORTER") == "none"
	if !namesCollector || isOff {
		return nil
	}
	return &Tracing{Version: version}
}

// spanExporter sends batches of spans to the collector and counts those that are lost. It keeps the errors of the
// library from its global handler, which would print them with what the collector answered.
type spanExporter struct {
	sdktrace.SpanExporter
	metrics *Metrics
	log     *slog.Logger

	waiting  atomic.Int64 // spans that have ended and were neither sent nor lost yet
	dropped  atomic.Int64 // spans lost for lack of room since the log last said so
	failed   atomic.Int64 // spans that the collector did not take since the log last said so
	throttle LogThrottle
}

func newSpanExporter(cfg Tracing, m *Metrics, log *slog.Logger) (*spanExporter, error) {
	muteLibrary()
	to, err := newCollector(cfg)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(context.Background(), to)
	if err != nil {
		return nil, err
	}
	e := &spanExporter{SpanExporter: exporter, metrics: m, log: log}
	for _, outcome := range []string{"sent", "failed", "dropped"} {
		m.span(outcome, 0)
	}
	return e, nil
}

// muteLibrary keeps the library from printing what it does not like. It quotes the variables of the environment, also
// those with a token.
var muteLibrary = sync.OnceFunc(func() {
	setZero(otel.SetLogger) // the zero value of its logger discards everything
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
})

// setZero calls a setter with the zero value of what it sets.
func setZero[T any](set func(T)) {
	var zero T
	set(zero)
}

// newResource returns what the spans say of this process. The environment may change and extend it.
func newResource(version string) *resource.Resource {
	host, _ := os.Hostname()
	r, _ := resource.New(context.Background(), resource.WithAttributes(
		attribute.String("service.name", "threeds"), attribute.String("service.version", version),
		attribute.String("host.name", host)), resource.WithFromEnv()) // what is wrong in the environment is left out
	return r
}

// spanQueue keeps spans until the next batch. It counts the spans that it has no room for, which the queue of the
// library drops without a word.
type spanQueue struct {
	sdktrace.SpanProcessor
	to  *spanExporter
	max int64
}

func newSpanQueue(e *spanExporter) *spanQueue {
	most := maxWaitingSpans
	if n, err := strconv.Atoi(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE")); err == nil && n > 0 {
		most = n
	}
	options := []sdktrace.BatchSpanProcessorOption{sdktrace.WithMaxQueueSize(most)}
	if os.Getenv("OTEL_BSP_EXPORT_TIMEOUT") == "" {
		options = append(options, sdktrace.WithExportTimeout(exportTimeout))
	}
	return &spanQueue{sdktrace.NewBatchSpanProcessor(e, options...), e, int64(most)}
}

// OnEnd takes a span that has ended.
func (q *spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if q.to.waiting.Add(1) > q.max {
		q.to.waiting.Add(-1)
		q.to.dropped.Add(1)
		q.to.metrics.span("dropped", 1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// ExportSpans sends a batch. One goroutine calls it. It returns no error, because the library would print it.
func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	lost, reason := lostSpans(e.SpanExporter.ExportSpans(ctx, spans), len(spans))
	e.waiting.Add(-int64(len(spans)))
	e.metrics.span("sent", len(spans)-lost)
	e.metrics.span("failed", lost)
	failed, dropped := e.failed.Add(int64(lost)), e.dropped.Load()
	if failed+dropped == 0 {
		return nil
	}
	if _, ok := e.throttle.Due(time.Now()); ok {
		e.log.Warn("spans lost", "failed", failed, "dropped", dropped, "err", reason)
		e.failed.Add(-failed)
		e.dropped.Add(-dropped)
	}
	return nil
}

// close ends what is being sent, and logs how many spans are lost by that.
func (e *spanExporter) close() {
	if n := e.waiting.Load() + e.failed.Load() + e.dropped.Load(); n > 0 {
		e.throttle.Due(time.Now()) // so that ExportSpans logs nothing after this line
		e.log.Warn("spans lost at the end", "spans", n)
	}
	_ = e.Shutdown(context.Background()) // interrupts the request in flight
}

// lostSpans returns how many spans of a batch are lost, and why, by the error of their export. The reason has nothing
// in it that the collector wrote.
func lostSpans(err error, batch int) (lost int, reason string) {
	var failure net.Error
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case err == nil:
		return 0, ""
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &failure) && failure.Timeout():
		return batch, "timeout"
	case errors.Is(err, context.Canceled):
		return batch, "cancelled at the end"
	case errors.As(err, &certificate):
		return batch, "certificate not trusted"
	case errors.As(err, &op):
		return batch, op.Op + ": " + op.Err.Error()
	}
	var rejected rejectedError
	var status statusError
	switch {
	case errors.As(err, &rejected):
		return min(int(rejected), batch), rejected.Error()
	case errors.As(err, &status):
		return batch, status.Error()
	}
	return batch, "no exchange with the collector"
}
