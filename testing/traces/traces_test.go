// Package traces_test holds package otlptest, by which tests read the spans that a process sends, against the code that
// is generated from the definition of OTLP.
package traces_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/base/obs/otlptest"
)

// values returns attributes as texts.
func values(list []*commonpb.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, a := range list {
		all[a.Key] = a.Value.GetStringValue()
		if n, ok := a.Value.Value.(*commonpb.AnyValue_IntValue); ok {
			all[a.Key] = strconv.FormatInt(n.IntValue, 10)
		}
	}
	return all
}

// wantSame compares what otlptest reads of a request with what the generated code reads. It returns the number of
// spans.
func wantSame(t *testing.T, body []byte) int {
	t.Helper()
	var want collectorpb.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &want); err != nil {
		t.Fatal(err)
	}
	got, err := otlptest.Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, resource := range want.ResourceSpans {
		if about := values(resource.GetResource().GetAttributes()); !maps.Equal(got.Resource, about) {
			t.Errorf("the process is %v, want %v", got.Resource, about)
		}
		for _, scope := range resource.ScopeSpans {
			for _, w := range scope.Spans {
				if n >= len(got.Spans) {
					t.Fatalf("%d spans, want more", n)
				}
				g := got.Spans[n]
				n++
				if !bytes.Equal(g.TraceID, w.TraceId) || !bytes.Equal(g.SpanID, w.SpanId) || !bytes.Equal(g.ParentSpanID, w.ParentSpanId) ||
					g.TraceState != w.TraceState || g.Name != w.Name || uint64(g.Kind) != uint64(w.Kind) || uint64(g.Status) != uint64(w.GetStatus().GetCode()) ||
					g.Start != w.StartTimeUnixNano || g.End != w.EndTimeUnixNano || !maps.Equal(g.Attributes, values(w.Attributes)) || len(g.Events) != len(w.Events) {
					t.Errorf("%+v, want %v", g, w)
					continue
				}
				for i, e := range w.Events {
					if g := g.Events[i]; g.Name != e.Name || g.Time != e.TimeUnixNano || !maps.Equal(g.Attributes, values(e.Attributes)) {
						t.Errorf("%+v, want %v", g, e)
					}
				}
			}
		}
	}
	if n != len(got.Spans) {
		t.Errorf("%d spans, want %d", len(got.Spans), n)
	}
	return n
}

// TestDecodeAgreesWithGeneratedCode: a request with all that OTLP has is read as the generated code reads it.
func TestDecodeAgreesWithGeneratedCode(t *testing.T) {
	if otlptest.Internal != otlptest.Kind(tracepb.Span_SPAN_KIND_INTERNAL) || otlptest.Server != otlptest.Kind(tracepb.Span_SPAN_KIND_SERVER) ||
		otlptest.Client != otlptest.Kind(tracepb.Span_SPAN_KIND_CLIENT) || otlptest.Unset != otlptest.Status(tracepb.Status_STATUS_CODE_UNSET) ||
		otlptest.Error != otlptest.Status(tracepb.Status_STATUS_CODE_ERROR) {
		t.Error("kinds and statuses have other numbers")
	}
	text := func(s string) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
	}
	attributes := []*commonpb.KeyValue{
		{Key: "text", Value: text("value")}, {Key: "empty", Value: text("")},
		{Key: "number", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: 1 << 40}}},
		{Key: "negative", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: -7}}},
		{Key: "switch", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: true}}},
		{Key: "part", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: 0.5}}},
	}
	span := &tracepb.Span{
		TraceId: bytes.Repeat([]byte{1}, 16), SpanId: bytes.Repeat([]byte{2}, 8), ParentSpanId: bytes.Repeat([]byte{3}, 8), TraceState: "a=b",
		Name: "POST /auth", Kind: tracepb.Span_SPAN_KIND_CLIENT, Flags: 0x101, StartTimeUnixNano: 1_795_000_000_000_000_001,
		EndTimeUnixNano: 1_795_000_000_000_000_002, Attributes: attributes, DroppedAttributesCount: 1, DroppedEventsCount: 2,
		DroppedLinksCount: 3,
		Events:            []*tracepb.Span_Event{{Name: "tried again", TimeUnixNano: 5, Attributes: attributes, DroppedAttributesCount: 1}, {}},
		Links:             []*tracepb.Span_Link{{TraceId: bytes.Repeat([]byte{1}, 16), Flags: 1}},
		Status:            &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "timeout"},
	}
	body, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: attributes, DroppedAttributesCount: 1}, SchemaUrl: "https://schema.example/1",
		ScopeSpans: []*tracepb.ScopeSpans{
			{Scope: &commonpb.InstrumentationScope{Name: "threeds", Version: "1"}, Spans: []*tracepb.Span{span, {}}, SchemaUrl: "https://schema.example/2"},
			{Spans: []*tracepb.Span{{Name: "second scope"}}},
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if n := wantSame(t, body); n != 3 {
		t.Errorf("%d spans, want 3", n)
	}
}

// TestDecodeReadsWhatIsSent: what the server sends is OTLP, and otlptest reads all of it.
func TestDecodeReadsWhatIsSent(t *testing.T) {
	var mu sync.Mutex
	var bodies [][]byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, body)
	}))
	defer collector.Close()
	traces, err := obs.NewTraces(obs.Tracing{Endpoint: collector.URL, Fraction: 1, Version: "v1"}, obs.NewMetrics(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w, r, answered := traces.Request(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/auth", nil), "/auth", "")
	ctx, ended := traces.Message(r.Context(), "AReq")
	obs.Happened(ctx, "tried again", "connect")
	_, stepEnded := traces.Step(context.WithoutCancel(ctx), "step")
	stepEnded("")
	ended("timeout")
	w.WriteHeader(http.StatusServiceUnavailable)
	answered()
	traces.Close(t.Context())
	mu.Lock()
	defer mu.Unlock()
	n := 0
	for _, body := range bodies {
		n += wantSame(t, body)
	}
	if n != 3 {
		t.Errorf("%d spans, want 3", n)
	}
}
