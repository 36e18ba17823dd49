package obs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	maxSpans   = 4096             // that wait for the collector, some 1 KiB each
	batchSize  = 512              // spans that are sent at once
	batchEvery = 5 * time.Second  // how long one waits for others
	batchTime  = 10 * time.Second // for the collector to take them
	maxReply   = 64 << 10         // bytes of what it says to that
)

// A collector is where spans are sent: an exporter of the library. The library's own
// exporter brings gRPC and goes by the environment.
type collector struct {
	endpoint string
	header   http.Header
	client   *http.Client
	about    *resourcepb.Resource // us
	metrics  *Metrics
	log      *slog.Logger

	life    context.Context //nolint:containedctx // of what is sent; ends with close
	end     context.CancelFunc
	waiting atomic.Int64 // spans that have ended and are not dealt with

	dropped atomic.Int64 // spans that were lost since the log last said so, for lack of room
	failed  atomic.Int64 // and because the collector did not take them
	told    Seldom
}

func newCollector(cfg Tracing, m *Metrics, log *slog.Logger) *collector {
	host, _ := os.Hostname()
	c := &collector{
		endpoint: cfg.Endpoint, header: cfg.Header, metrics: m, log: log,
		client: &http.Client{
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: batchTime / 2}).DialContext,
				TLSClientConfig:     cfg.TLS,
				TLSHandshakeTimeout: batchTime / 2,
				IdleConnTimeout:     time.Minute,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		about: &resourcepb.Resource{Attributes: attributes([]attribute.KeyValue{
			attribute.String("service.name", "threeds"), attribute.String("service.version", cfg.Version),
			attribute.String("host.name", host),
		})},
	}
	c.life, c.end = context.WithCancel(context.Background())
	for _, outcome := range []string{"sent", "failed", "dropped"} {
		m.span(outcome, 0)
	}
	return c
}

// close says how much is not sent, and gives it up.
func (c *collector) close() {
	if n := c.waiting.Load() + c.failed.Load() + c.dropped.Load(); n > 0 {
		c.told.Due(time.Now()) // what ExportSpans has to say is said herewith
		c.log.Warn("spans lost at the end", "spans", n)
	}
	c.end()
	c.client.CloseIdleConnections()
}

// batches collects spans for a collector, and drops those that it has no room for.
type batches struct {
	sdktrace.SpanProcessor
	to *collector
}

func newBatches(c *collector) *batches {
	return &batches{sdktrace.NewBatchSpanProcessor(c, sdktrace.WithMaxQueueSize(maxSpans), sdktrace.WithMaxExportBatchSize(batchSize),
		sdktrace.WithBatchTimeout(batchEvery), sdktrace.WithExportTimeout(batchTime)), c}
}

// OnEnd takes a span that has ended. The library's own bound counts nothing.
func (b *batches) OnEnd(s sdktrace.ReadOnlySpan) {
	if b.to.waiting.Add(1) > maxSpans {
		b.to.waiting.Add(-1)
		b.to.dropped.Add(1)
		b.to.metrics.span("dropped", 1)
		return
	}
	b.SpanProcessor.OnEnd(s)
}

// ExportSpans sends a batch, once. It is called by one goroutine. There is no error, for
// the library would print it.
func (c *collector) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	lost, err := c.send(spans)
	c.waiting.Add(-int64(len(spans)))
	c.metrics.span("sent", len(spans)-lost)
	c.metrics.span("failed", lost)
	failed, dropped := c.failed.Add(int64(lost)), c.dropped.Load()
	if failed+dropped == 0 {
		return nil
	}
	if _, ok := c.told.Due(time.Now()); ok {
		c.log.Warn("spans lost", "failed", failed, "dropped", dropped, "err", err)
		c.failed.Add(-failed)
		c.dropped.Add(-dropped)
	}
	return nil
}

// Shutdown does nothing: see close.
func (c *collector) Shutdown(context.Context) error { return nil }

// send sends a batch, and returns how many of its spans are lost, and why.
func (c *collector) send(spans []sdktrace.ReadOnlySpan) (lost int, err error) {
	body, err := proto.Marshal(c.request(spans))
	if err != nil {
		return len(spans), err
	}
	ctx, cancel := context.WithTimeout(c.life, batchTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return len(spans), err
	}
	if c.header != nil {
		req.Header = c.header.Clone()
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header["Idempotency-Key"] = nil // not sent: it lets net/http try again when a kept connection has ended
	res, err := c.client.Do(req)
	if err != nil {
		return len(spans), err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	switch {
	case res.StatusCode < 200 || res.StatusCode > 299:
		return len(spans), fmt.Errorf("%s: HTTP status %d", c.endpoint, res.StatusCode)
	case err != nil:
		return 0, nil // they have been taken
	}
	var reply collectorpb.ExportTraceServiceResponse
	if proto.Unmarshal(data, &reply) != nil || reply.GetPartialSuccess().GetRejectedSpans() <= 0 {
		return 0, nil
	}
	return int(min(reply.GetPartialSuccess().GetRejectedSpans(), int64(len(spans)))), errors.New("rejected by the collector")
}

// request is a batch as the collector takes it.
func (c *collector) request(spans []sdktrace.ReadOnlySpan) *collectorpb.ExportTraceServiceRequest {
	all := make([]*tracepb.Span, len(spans))
	for i, s := range spans {
		all[i] = spanOf(s)
	}
	return &collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: c.about,
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: spans[0].InstrumentationScope().Name},
			Spans: all,
		}},
	}}}
}

func spanOf(s sdktrace.ReadOnlySpan) *tracepb.Span {
	of, id := s.SpanContext().TraceID(), s.SpanContext().SpanID()
	p := &tracepb.Span{
		TraceId: of[:], SpanId: id[:], Name: s.Name(),
		Kind:              tracepb.Span_SpanKind(s.SpanKind()), // the numbers are the same
		StartTimeUnixNano: uint64(s.StartTime().UnixNano()), EndTimeUnixNano: uint64(s.EndTime().UnixNano()),
		Attributes: attributes(s.Attributes()),
		Status:     &tracepb.Status{},
	}
	if s.Parent().HasSpanID() {
		parent := s.Parent().SpanID()
		p.ParentSpanId = parent[:]
	}
	if s.Status().Code == codes.Error {
		p.Status.Code = tracepb.Status_STATUS_CODE_ERROR
	}
	for _, e := range s.Events() {
		p.Events = append(p.Events, &tracepb.Span_Event{
			Name: e.Name, TimeUnixNano: uint64(e.Time.UnixNano()), Attributes: attributes(e.Attributes),
		})
	}
	return p
}

// attributes are texts and whole numbers.
func attributes(from []attribute.KeyValue) []*commonpb.KeyValue {
	all := make([]*commonpb.KeyValue, len(from))
	for i, a := range from {
		value := &commonpb.AnyValue{}
		if a.Value.Type() == attribute.INT64 {
			value.Value = &commonpb.AnyValue_IntValue{IntValue: a.Value.AsInt64()}
		} else {
			value.Value = &commonpb.AnyValue_StringValue{StringValue: a.Value.AsString()}
		}
		all[i] = &commonpb.KeyValue{Key: string(a.Key), Value: value}
	}
	return all
}
