package obs

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/openthreeds/threeds/internal/base/answered"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
)

// Tracing says which requests are traced, and where their spans are sent.
type Tracing struct {
	Endpoint string      // takes OTLP over HTTP; "" if the variables OTEL_… of the environment say where and which
	TLS      *tls.Config // of an https endpoint
	Header   http.Header // is sent to the endpoint; if it is empty, the headers of the environment are
	Fraction float64     // share of the traces beginning here that is sampled, from 0 to 1; unused without Endpoint
	Version  string      // of the program
}

// Traces follows sampled requests on their way through the server and sends their spans to a collector. A nil *Traces
// follows none. No request waits for the collector: a span that it does not accept is lost, and is counted and logged.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	sampler  *sampler // nil means that the environment chooses the sampler
	exporter *spanExporter
}

// NewTraces returns Traces that send to a collector; Close ends them. The error is one of the settings: no connection
// is made here.
func NewTraces(cfg Tracing, m *Metrics, log *slog.Logger) (*Traces, error) {
	exporter, err := newSpanExporter(cfg, m, log)
	if err != nil {
		return nil, err
	}
	t := &Traces{exporter: exporter}
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(newResource(cfg.Version)),
		sdktrace.WithSpanProcessor(newSpanQueue(exporter)),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: 256, AttributeCountLimit: 32, EventCountLimit: 32, AttributePerEventCountLimit: 8,
		}),
		sdktrace.WithoutPanicRecording(), // the text of a panic may quote a request
	}
	if cfg.Endpoint != "" {
		t.sampler = new(sampler)
		t.Sample(cfg.Fraction)
		options = append(options, sdktrace.WithSampler(t.sampler))
	}
	t.provider = sdktrace.NewTracerProvider(options...)
	t.tracer = t.provider.Tracer("github.com/openthreeds/threeds")
	return t, nil
}

// Close sends the spans that wait, until ctx ends, and logs how many are lost.
func (t *Traces) Close(ctx context.Context) {
	if t != nil {
		_ = t.provider.Shutdown(ctx) // the exporter logs what is lost
		t.exporter.close()
	}
}

// Sample changes the share of the traces beginning here that is sampled. The sampler of the environment stays.
func (t *Traces) Sample(fraction float64) {
	if t.sampler == nil {
		return
	}
	now := sdktrace.ParentBased(sdktrace.TraceIDRatioBased(fraction))
	t.sampler.now.Store(&now)
}

// sampler is a sampler that can be changed at any time.
type sampler struct {
	now atomic.Pointer[sdktrace.Sampler]
}

func (s *sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	return (*s.now.Load()).ShouldSample(p)
}

func (s *sampler) Description() string { return (*s.now.Load()).Description() }

// Request begins the span of a request, and returns what to go on with, and what to call
// when it is answered. Parent is the traceparent (W3C Trace Context) of a client that is
// trusted to decide whether the request is sampled; the trace begins here when it is "" or
// not good.
func (t *Traces) Request(w http.ResponseWriter, r *http.Request,
	route, parent string) (http.ResponseWriter, *http.Request, func()) {
	if t == nil {
		return w, r, func() {}
	}
	ctx, span := t.tracer.Start(within(r.Context(), parent), r.Method+" "+route, trace.WithSpanKind(trace.SpanKindServer))
	if line := RequestOf(ctx); line != nil {
		line.ctx = ctx // its line has the ids of the trace
	}
	r = r.WithContext(ctx)
	if !span.IsRecording() {
		return w, r, func() {}
	}
	span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", route))
	seen := &answered.Writer{ResponseWriter: w}
	return seen, r, func() {
		switch {
		case seen.Status == 0:
			fail(span, "no answer")
		case seen.Status >= http.StatusInternalServerError:
			fail(span, strconv.Itoa(seen.Status))
		}
		span.SetAttributes(attribute.Int("http.response.status_code", seen.Status))
		span.End()
	}
}

// within is ctx within the span that a traceparent names, if it is a good one. What else
// a client may send with it, as a tracestate, is text of its own and is left alone; so are
// ids of decimal digits alone, for they may be the digits of something.
func within(ctx context.Context, parent string) context.Context {
	if parent == "" {
		return ctx
	}
	inside := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
	of := trace.SpanContextFromContext(inside)
	if decimal(of.TraceID().String()) || decimal(of.SpanID().String()) {
		return ctx
	}
	return inside
}

func decimal(s string) bool { return strings.Trim(s, "0123456789") == "" }

// Message begins the span of a message to another server, and returns the context of the
// exchange, and what is called with what went wrong, in a word, "" if nothing did.
// Nothing of a trace is in the message.
func (t *Traces) Message(ctx context.Context, name string) (context.Context, func(fault string)) {
	return t.startSpan(ctx, name, trace.SpanKindClient)
}

// Step is Message for a part of a request. Without a request that is sampled there is no
// span.
func (t *Traces) Step(ctx context.Context, name string) (context.Context, func(fault string)) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, func(string) {}
	}
	return t.startSpan(ctx, name, trace.SpanKindInternal)
}

func (t *Traces) startSpan(ctx context.Context, name string,
	kind trace.SpanKind) (context.Context, func(fault string)) {
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind))
	return ctx, func(fault string) {
		if fault != "" {
			fail(span, fault)
		}
		span.End()
	}
}

func fail(span trace.Span, fault string) {
	span.SetAttributes(attribute.String("error.type", fault))
	span.SetStatus(codes.Error, "")
}

// Note says something of what ctx is the context of: in the line of its request, and in
// its span, if it has them. In the span what could be a card number is hidden, as it is in
// every line of the log.
func Note(ctx context.Context, name, value string) {
	if r := RequestOf(ctx); r != nil {
		r.set(name, value)
	}
	if isForJournal(name) {
		return
	}
	NoteSpan(ctx, name, value)
}

// NoteSpan says something of what ctx is the context of in its span, if it has one. Unlike
// [Note] it may be called from any goroutine, after the request was answered too.
func NoteSpan(ctx context.Context, name, value string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String(name, cardnumber.Mask(value)))
	}
}

// Happened notes an event of what ctx is the context of, and why, in a word.
func Happened(ctx context.Context, event, fault string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent(event, trace.WithAttributes(attribute.String("error.type", fault)))
	}
}
