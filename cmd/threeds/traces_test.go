package main

import (
	"bytes"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A collector takes the spans of a server.
type collector struct {
	server *httptest.Server

	mu     sync.Mutex
	raw    [][]byte    // the requests
	header http.Header // of the last one
	spans  []*tracepb.Span
}

// newCollector starts one, with a certificate if there is somebody to sign it.
func newCollector(t *testing.T, by ...*authority) *collector {
	t.Helper()
	c := new(collector)
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var got collectorpb.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &got) != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: no spans: %v", r.URL, err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw, c.header = append(c.raw, body), r.Header
		for _, of := range got.ResourceSpans {
			for _, in := range of.ScopeSpans {
				c.spans = append(c.spans, in.Spans...)
			}
		}
	}))
	if len(by) > 0 {
		c.server.TLS = &tls.Config{Certificates: []tls.Certificate{by[0].issue("collector.example")}}
		c.server.StartTLS()
	} else {
		c.server.Start()
	}
	t.Cleanup(c.server.Close)
	return c
}

// section is the section of a configuration for it.
func (c *collector) section(fraction string) string {
	return "tracing: {endpoint: " + c.server.URL + "/v1/traces, sampling_fraction: " + fraction + "}\n"
}

// named are the spans of that name that have an attribute, in the order in which they began.
func (c *collector) named(name, attribute, value string) []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*tracepb.Span
	for _, s := range c.spans {
		if s.Name == name && valueOf(s.Attributes, attribute) == value {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *tracepb.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	return found
}

// one is the span of that name that has an attribute.
func (c *collector) one(t *testing.T, name, attribute, value string) *tracepb.Span {
	t.Helper()
	found := c.named(name, attribute, value)
	if len(found) != 1 {
		t.Fatalf("%d spans %s with %s %s, want 1; all: %v", len(found), name, attribute, value, c.spans)
	}
	return found[0]
}

func valueOf(attributes []*commonpb.KeyValue, name string) string {
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

// below are the names of the spans below one, in the order in which they began.
func (c *collector) below(parent *tracepb.Span) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*tracepb.Span
	for _, s := range c.spans {
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

// words are the attributes of a span, but those of HTTP.
func words(s *tracepb.Span) map[string]string {
	all := make(map[string]string)
	for _, a := range s.Attributes {
		if !strings.HasPrefix(a.Key, "http.") {
			all[a.Key] = valueOf(s.Attributes, a.Key)
		}
	}
	return all
}

// unmarked has a server of ours told nothing of traces.
func unmarked(t *testing.T, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if slices.Contains([]string{"Traceparent", "Tracestate", "Baggage"}, name) {
				t.Errorf("a directory server was sent %s", name)
			}
		}
		h.ServeHTTP(w, r)
	})
}

// TestTraces follows an authentication with a challenge, and one of 3-D Secure 1, from
// outside: the spans of each request hang together, the requestor's trace goes through,
// nobody else's does, and no directory server hears of any.
func TestTraces(t *testing.T) {
	ca := newAuthority(t)
	ds, old, c := newWire(t, ca), newV1DS(t, ca), newCollector(t)
	ds.server.Config.Handler = unmarked(t, ds)
	old.server.Config.Handler = unmarked(t, old.server.Config.Handler)
	s, proc := spawnSite(t, ca, ds, plan{sections: c.section("1") + v1Section(t, ca, old.server.URL)})
	const his, above = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	parent := func(trace string) []string { return []string{"Traceparent", "00-" + trace + "-" + above + "-01"} }

	ds.setAnswer(says("C"))
	req := s.request("2.2.0")
	id := req.text("threeDSServerTransID")
	res, data := s.call(http.MethodPost, "/auth", s.APIKey, req, parent(his)...)
	answer := parseObject(t, data)
	if res.StatusCode != 200 || answer.text("transStatus") != "C" {
		t.Fatalf("/auth: %d %v", res.StatusCode, answer)
	}
	result, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.results, bytes.NewReader(marshal(rreq(ds.sent(id)[0], answer, "Y"))))
	if err != nil {
		t.Fatal(err)
	}
	const theirs = "1af7651916cd43dd8448eb211c80319c"
	result.Header.Set("Traceparent", parent(theirs)[1])
	posted, err := ds.client.Do(result)
	if err != nil || posted.StatusCode != 200 {
		t.Fatalf("RReq: %v %v", posted, err)
	}
	must(t, posted.Body.Close())
	s.postauth(id)
	ds.setAnswer(func(object) (int, []byte) { return 200, []byte("{}") })
	bad := s.request("2.3.1")
	s.post("/auth", bad)
	waitFor(t, "an Erro", func() bool { return len(ds.posted(bad.text("threeDSServerTransID"))) == 1 })
	const stranger = "2af7651916cd43dd8448eb211c80319c"
	s.call(http.MethodPost, "/auth", canaryWrong, req, parent(stranger)...)
	s.post("/auth", object{"acctNumber": testPAN, "deviceChannel": testPAN, "threeDSServerTransID": testPAN})
	(&legacySite{s, old}).enroll(purchase(v1Visa))
	lost := s.request("2.2.0")
	ds.server.Close()
	s.post("/auth", lost)
	proc.end(syscall.SIGTERM)

	auth := c.one(t, "POST /auth", "threeDSServerTransID", id)
	want := map[string]string{
		"operation": "auth", "scheme": "visa", "merchant": "Shop", "outcome": "C", "threeDSServerTransID": id, "messageVersion": "2.2.0",
		"deviceChannel": "02", "messageCategory": "01", "acsTransID": answer.text("acsTransID"), "dsTransID": answer.text("dsTransID"),
		"transStatus": "C", "bin": "40000012", "last4": "7890", "key": fmt.Sprint(lineOf(t, proc.out.String(), "/auth", id)["key"]),
	}
	if got := words(auth); !maps.Equal(got, want) || hex.EncodeToString(auth.TraceId) != his || hex.EncodeToString(auth.ParentSpanId) != above {
		t.Errorf("/auth: trace %x below %x, %v; want %v", auth.TraceId, auth.ParentSpanId, got, want)
	}
	if got := c.below(auth); got != "store create, AReq, store update" {
		t.Errorf("within /auth there is %s", got)
	}
	areq := c.one(t, "AReq", "threeDSServerTransID", id)
	if areq.Kind != tracepb.Span_SPAN_KIND_CLIENT || valueOf(areq.Attributes, "scheme") != "visa" || areq.Status.Code != tracepb.Status_STATUS_CODE_UNSET {
		t.Errorf("the AReq: %v", areq)
	}
	if line := lineOf(t, proc.out.String(), "/auth", id); line["trace_id"] != his || line["span_id"] != hex.EncodeToString(auth.SpanId) {
		t.Errorf("the log says %v, want the ids of %v", line, auth)
	}

	received := c.one(t, "POST results", "threeDSServerTransID", id)
	want = map[string]string{
		"operation": "rreq", "scheme": "visa", "merchant": "Shop", "outcome": "Y", "threeDSServerTransID": id, "messageVersion": "2.2.0",
		"deviceChannel": "02", "messageCategory": "01", "acsTransID": answer.text("acsTransID"), "dsTransID": answer.text("dsTransID"),
		"message": "RReq", "transStatus": "Y", "eci": "05", "resultsStatus": "01", "bin": "40000012", "last4": "7890",
	}
	if got := words(received); !maps.Equal(got, want) || len(received.ParentSpanId) != 0 || bytes.Equal(received.TraceId, auth.TraceId) {
		t.Errorf("the result: trace %x below %x, %v; want %v", received.TraceId, received.ParentSpanId, got, want)
	}
	if got := c.below(received); got != "store get, store update" {
		t.Errorf("within the result there is %s", got)
	}
	if line := lineOf(t, proc.out.String(), "results", id); line["trace_id"] != hex.EncodeToString(received.TraceId) {
		t.Errorf("the log says %v, want the trace of %v", line, received)
	}
	if post := c.one(t, "POST /postauth", "threeDSServerTransID", id); c.below(post) != "store get" || valueOf(post.Attributes, "outcome") != "Y" {
		t.Errorf("/postauth: %v, and within it %s", post, c.below(post))
	}

	refused := c.one(t, "POST /auth", "threeDSServerTransID", bad.text("threeDSServerTransID"))
	if got := c.below(refused); got != "store create, AReq, store update, Erro" && got != "store create, AReq, Erro, store update" {
		t.Errorf("within an /auth whose ARes is refused there is %s", got)
	}
	worse := c.named("POST /auth", "threeDSServerTransID", "")
	if len(worse) != 1 || words(worse[0])["outcome"] != "201" || words(worse[0])["deviceChannel"] != "" {
		t.Errorf("/auth that make no sense: %v, want one", worse)
	}

	failed := c.one(t, "AReq", "threeDSServerTransID", lost.text("threeDSServerTransID"))
	if e := failed.Events; failed.Status.Code != tracepb.Status_STATUS_CODE_ERROR || valueOf(failed.Attributes, "error.type") != "connect" ||
		len(e) != 1 || e[0].Name != "tried again" || valueOf(e[0].Attributes, "error.type") != "connect" {
		t.Errorf("an AReq that nobody takes: %v", failed)
	}

	asked := c.one(t, "POST /enrolled", "scheme", "visa")
	if got := c.below(asked); !strings.HasPrefix(got, "VEReq") || valueOf(asked.Attributes, "outcome") != "Y" || valueOf(asked.Attributes, "messageId") == "" {
		t.Errorf("/enrolled: %v, and within it %s", asked, got)
	}
	if preq := c.named("PReq", "scheme", "visa"); len(preq) == 0 || len(preq[0].ParentSpanId) != 0 {
		t.Errorf("PReqs: %v", preq)
	}
	for _, s := range c.spans {
		if of := hex.EncodeToString(s.TraceId); of == theirs || of == stranger || s.Name == "POST /preauth" {
			t.Errorf("there is %v", s)
		}
	}
}

// lineOf is the line of the log that says that of a transaction.
func lineOf(t *testing.T, log, operation, id string) map[string]any {
	t.Helper()
	for _, got := range requestLines(t, log) {
		if got["operation"] == operation && got["id"] == id {
			return got
		}
	}
	t.Fatalf("the log has no request %s about %s:\n%s", operation, id, log)
	return nil
}

// TestTracesReload: the fraction is taken up while the server serves. Until then only who
// asks is traced, with a good key.
func TestTracesReload(t *testing.T) {
	ca := newAuthority(t)
	c := newCollector(t)
	s, proc := spawnSite(t, ca, newWire(t, ca), plan{sections: c.section("0")})
	before := s.request("2.2.0")
	s.through(before)
	asked := s.request("2.2.0")
	s.call(http.MethodPost, "/auth", s.APIKey, asked, "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	write(t, s.config, []byte(strings.Replace(s.text(), "sampling_fraction: 0", "sampling_fraction: 1", 1)))
	s.reload(proc, applied)
	after := s.request("2.2.0")
	s.through(after)
	proc.end(syscall.SIGTERM)
	for req, want := range map[*object]int{&before: 0, &asked: 1, &after: 1} {
		if got := len(c.named("POST /auth", "threeDSServerTransID", req.text("threeDSServerTransID"))); got != want {
			t.Errorf("%d spans, want %d", got, want)
		}
	}
	if line := lineOf(t, proc.out.String(), "/auth", before.text("threeDSServerTransID")); line["trace_id"] != nil {
		t.Errorf("a request that is not sampled: %v", line)
	}
}

// TestNoCollector: whether a collector is gone or takes nothing, requests are served, and
// the process ends in time. What is lost is counted and said.
func TestNoCollector(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	still := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-stuck
	}))
	t.Cleanup(still.Close)
	t.Cleanup(func() { close(stuck) })
	ca := newAuthority(t)
	for name, at := range map[string]string{"gone": "http://" + freeAddress(t), "stands still": still.URL} {
		t.Run(name, func(t *testing.T) {
			s, proc := spawnSite(t, ca, newWire(t, ca), plan{sections: "tracing: {endpoint: " + at + ", sampling_fraction: 1}"})
			s.through(s.request("2.2.0"))
			if n := s.metric(`threeds_spans_total{outcome="dropped"}`); n != 0 {
				t.Errorf("%v spans dropped that there is room for", n)
			}
			if took := proc.end(syscall.SIGTERM); took > 2*time.Second+2*3*time.Second {
				t.Errorf("the end took %v", took)
			}
			if !strings.Contains(proc.out.String(), `"msg":"spans lost`) {
				t.Errorf("the log does not say that spans were lost:\n%s", proc.out.String())
			}
		})
	}
}

// TestTracingOfTheEnvironment: without a section for traces they go where the variables of OpenTelemetry say. With one
// they go where it says.
func TestTracingOfTheEnvironment(t *testing.T) {
	other := newCollector(t)
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": other.server.URL, "OTEL_EXPORTER_OTLP_HEADERS": "x-token=hush", "OTEL_TRACES_SAMPLER": "always_on",
	} {
		t.Setenv(name, value)
	}
	ca := newAuthority(t)
	without := startSite(t, ca, newWire(t, ca))
	req := without.request("2.2.0")
	without.through(req)
	must(t, without.stop())
	other.one(t, "POST /auth", "threeDSServerTransID", req.text("threeDSServerTransID"))
	if other.header.Get("X-Token") != "hush" {
		t.Errorf("the headers are %v", other.header)
	}
	before := len(other.raw)
	mine, secret := newCollector(t, ca), filepath.Join(t.TempDir(), "collector.secret")
	write(t, secret, []byte("X-Token: psst\n"))
	on := startSite(t, ca, newWire(t, ca), plan{sections: "tracing: {endpoint: " + mine.server.URL + ", ca: ca.pem, headers: " + secret + ", sampling_fraction: 1}"})
	req = on.request("2.2.0")
	on.through(req)
	must(t, on.stop())
	mine.one(t, "POST /auth", "threeDSServerTransID", req.text("threeDSServerTransID"))
	if mine.header.Get("X-Token") != "psst" || len(other.raw) != before {
		t.Errorf("the headers are %v; %d requests went elsewhere", mine.header, len(other.raw)-before)
	}
}
