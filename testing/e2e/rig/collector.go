package rig

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A Collector takes the spans of a server.
type Collector struct {
	Server *httptest.Server

	mu     sync.Mutex
	Raw    [][]byte    // the requests
	Header http.Header // of the last one
	Spans  []*tracepb.Span
}

// NewCollector starts one, with a certificate if there is somebody to sign it.
func NewCollector(t *testing.T, by ...*Authority) *Collector {
	t.Helper()
	c := new(Collector)
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var got collectorpb.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &got) != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: no spans: %v", r.URL, err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.Raw, c.Header = append(c.Raw, body), r.Header
		for _, of := range got.ResourceSpans {
			for _, in := range of.ScopeSpans {
				c.Spans = append(c.Spans, in.Spans...)
			}
		}
	}))
	if len(by) > 0 {
		c.Server.TLS = &tls.Config{Certificates: []tls.Certificate{by[0].Issue("collector.example")}}
		c.Server.StartTLS()
	} else {
		c.Server.Start()
	}
	t.Cleanup(c.Server.Close)
	return c
}

// Section is the section of a configuration for it.
func (c *Collector) Section(fraction string) string {
	return "tracing: {endpoint: " + c.Server.URL + "/v1/traces, sampling_fraction: " + fraction + "}\n"
}

// Named are the spans of that name that have an attribute, in the order in which they began.
func (c *Collector) Named(name, attribute, value string) []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*tracepb.Span
	for _, s := range c.Spans {
		if s.Name == name && AttributeOf(s.Attributes, attribute) == value {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *tracepb.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	return found
}

// One is the span of that name that has an attribute.
func (c *Collector) One(t *testing.T, name, attribute, value string) *tracepb.Span {
	t.Helper()
	found := c.Named(name, attribute, value)
	if len(found) != 1 {
		t.Fatalf("%d spans %s with %s %s, want 1; all: %v", len(found), name, attribute, value, c.Spans)
	}
	return found[0]
}

func AttributeOf(attributes []*commonpb.KeyValue, name string) string {
	for _, a := range attributes {
		if a.Key != name {
			continue
		}
		if n, ok := a.Value.Value.(*commonpb.AnyValue_IntValue); ok {
			return fmt.Sprint(n.IntValue)
		}
		return a.Value.GetStringValue()
	}
	return ""
}

// Below are the names of the spans below one, in the order in which they began.
func (c *Collector) Below(parent *tracepb.Span) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*tracepb.Span
	for _, s := range c.Spans {
		if bytes.Equal(s.ParentSpanId, parent.SpanId) && bytes.Equal(s.TraceId, parent.TraceId) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *tracepb.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	var names []string
	for _, s := range found {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}
