package obs_test

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/base/obs/otlptest"
)

// A collector keeps the spans that it gets.
type collector struct {
	*httptest.Server
	t     *testing.T
	reply func(w http.ResponseWriter) // nil: all is well

	mu    sync.Mutex
	spans map[string]*otlptest.Span // by name
	about map[string]string
	asked []*http.Request
	// received counts spans.
	received int
}

func newCollector(t *testing.T, reply func(w http.ResponseWriter)) *collector {
	c := &collector{t: t, reply: reply, spans: make(map[string]*otlptest.Span)}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			c.t.Errorf("not gzip: %v", err)
			return
		}
		sent = unzipped
	}
	body, err := io.ReadAll(sent)
	if err != nil {
		c.t.Error(err)
	}
	got, err := otlptest.Decode(body)
	if err != nil {
		c.t.Errorf("not a request with spans: %v", err)
		return
	}
	c.mu.Lock()
	c.asked = append(c.asked, r)
	c.about = got.Resource
	for _, s := range got.Spans {
		c.spans[s.Name] = s
		c.received++
	}
	c.mu.Unlock()
	if c.reply != nil {
		c.reply(w)
	}
}

const (
	parentTrace = "0af7651916cd43dd8448eb211c80319c"
	parentSpan  = "b7ad6b7169203331"
	traceparent = "00-" + parentTrace + "-" + parentSpan + "-01"
)

// request lets one through that answers with status, and does more while it is in work.
func request(t *obs.Traces, parent string, status int, more func(ctx context.Context)) {
	r := httptest.NewRequest(http.MethodPost, "/auth", nil)
	r.Header.Set("Tracestate", "vendor=4000001234567890")
	w, r, answered := t.Request(httptest.NewRecorder(), r, "/auth", parent)
	defer answered()
	if more != nil {
		more(r.Context())
	}
	if status != 0 {
		w.WriteHeader(status)
		_, _ = w.Write(nil)
	}
}

// TestTraces: the spans of a request reach the collector as they were, and nothing that
// may be a card number.
func TestTraces(t *testing.T) {
	c := newCollector(t, nil)
	m := obs.NewMetrics()
	traces := newTraces(t, obs.Tracing{
		Endpoint: c.URL + "/v1/traces", Header: http.Header{"X-Token": {"hush"}}, Fraction: 0, Version: "v1.2.3",
	}, m, slog.New(slog.DiscardHandler))
	request(traces, traceparent, 200, func(ctx context.Context) {
		obs.Note(ctx, "merchant", "Shop 4000001234567890")
		ctx, ended := traces.Message(ctx, "AReq")
		obs.Happened(ctx, "tried again", "connect")
		ended("timeout")
	})
	request(traces, "", 200, func(ctx context.Context) { // of the fraction, which is none
		_, ended := traces.Step(ctx, "of nothing")
		ended("")
		_, ended = traces.Message(ctx, "of nothing")
		ended("")
		obs.Note(ctx, "a", "b")
		obs.Happened(ctx, "a", "b")
	})
	traces.Close(t.Context())

	if len(c.spans) != 2 || len(c.asked) != 1 {
		t.Fatalf("%d spans in %d requests: %v", len(c.spans), len(c.asked), c.spans)
	}
	asked := c.asked[0]
	if asked.Method != http.MethodPost || asked.URL.Path != "/v1/traces" || asked.Header.Get("X-Token") != "hush" ||
		asked.Header.Get("Content-Type") != "application/x-protobuf" || asked.Header["Idempotency-Key"] != nil {
		t.Errorf("asked with %s %s %v", asked.Method, asked.URL, asked.Header)
	}
	if about := c.about; about["service.name"] != "threeds" || about["service.version"] != "v1.2.3" {
		t.Errorf("we are %v", about)
	}
	server, client := c.spans["POST /auth"], c.spans["AReq"]
	if server == nil || client == nil {
		t.Fatalf("%v", c.spans)
	}
	if hex.EncodeToString(server.TraceID) != parentTrace || hex.EncodeToString(server.ParentSpanID) != parentSpan || server.TraceState != "" ||
		server.Kind != otlptest.Server || server.Status != otlptest.Unset || server.Start > server.End {
		t.Errorf("the request: %v", server)
	}
	if got := server.Attributes; len(got) != 4 || got["merchant"] != "Shop ***" || got["http.route"] != "/auth" ||
		got["http.request.method"] != "POST" || got["http.response.status_code"] != "200" {
		t.Errorf("the request: %v", got)
	}
	if string(client.TraceID) != string(server.TraceID) || string(client.ParentSpanID) != string(server.SpanID) ||
		client.Kind != otlptest.Client || client.Status != otlptest.Error ||
		client.Attributes["error.type"] != "timeout" {
		t.Errorf("the message: %v", client)
	}
	if e := client.Events; len(e) != 1 || e[0].Name != "tried again" || e[0].Attributes["error.type"] != "connect" || e[0].Time == 0 {
		t.Errorf("what happened to it: %v", e)
	}
	if exposed := exposedBy(m); !strings.Contains(exposed, "threeds_spans_total{outcome=\"sent\"} 2\n") {
		t.Errorf("the metrics do not say so:\n%s", exposed)
	}
}

// newTraces returns traces to a collector of a test.
func newTraces(t *testing.T, cfg obs.Tracing, m *obs.Metrics, log *slog.Logger) *obs.Traces {
	t.Helper()
	traces, err := obs.NewTraces(cfg, m, log)
	if err != nil {
		t.Fatal(err)
	}
	return traces
}

func exposedBy(m *obs.Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// TestTraceparent: who may decide does, where the text is good; else the fraction does.
func TestTraceparent(t *testing.T) {
	for _, tt := range []struct {
		name, parent string
		fraction     float64
		sampled, his bool
	}{
		{"none, of all", "", 1, true, false},
		{"none, of none", "", 0, false, false},
		{"sampled, of none", traceparent, 0, true, true},
		{"not sampled, of all", strings.TrimSuffix(traceparent, "1") + "0", 1, false, true},
		{"of a later version", "01" + traceparent[2:] + "-more", 0, true, true},
		{"no version", "ff" + traceparent[2:], 1, true, false},
		{"cut off", traceparent[:50], 1, true, false},
		{"upper case", strings.ToUpper(traceparent), 1, true, false},
		{"no trace", "00-" + strings.Repeat("0", 32) + "-" + parentSpan + "-01", 1, true, false},
		{"a number for a trace", "00-00000000000000004000001234567890-" + parentSpan + "-01", 1, true, false},
		{"a number for a span", "00-" + parentTrace + "-4000001234567890-01", 1, true, false},
		{"the same, of none", "00-" + parentTrace + "-4000001234567890-01", 0, false, false},
	} {
		c := newCollector(t, nil)
		traces := newTraces(t, obs.Tracing{Endpoint: c.URL, Fraction: tt.fraction}, obs.NewMetrics(), slog.New(slog.DiscardHandler))
		request(traces, tt.parent, 200, nil)
		traces.Close(t.Context())
		s := c.spans["POST /auth"]
		if (s != nil) != tt.sampled {
			t.Errorf("%s: sampled is %t, want %t", tt.name, s != nil, tt.sampled)
		}
		if s != nil && (len(s.ParentSpanID) > 0) != tt.his {
			t.Errorf("%s: the trace is %x, below %x", tt.name, s.TraceID, s.ParentSpanID)
		}
	}
}

// TestSample: the fraction can change at any time.
func TestSample(t *testing.T) {
	c := newCollector(t, nil)
	traces := newTraces(t, obs.Tracing{Endpoint: c.URL, Fraction: 0}, obs.NewMetrics(), slog.New(slog.DiscardHandler))
	request(traces, "", 400, nil)
	traces.Sample(1)
	request(traces, "", 204, nil)
	traces.Sample(0)
	request(traces, "", 500, nil)
	traces.Close(t.Context())
	if s := c.spans["POST /auth"]; s == nil || s.Attributes["http.response.status_code"] != "204" {
		t.Errorf("of three requests the second is to be sampled: %v", c.spans)
	}
}

// TestFailures: what a request and a step of it have to be for the span to say that they failed.
func TestFailures(t *testing.T) {
	for status, fault := range map[int]string{0: "no answer", 200: "", 400: "", 499: "", 500: "500", 503: "503"} {
		c := newCollector(t, nil)
		traces := newTraces(t, obs.Tracing{Endpoint: c.URL, Fraction: 1}, obs.NewMetrics(), slog.New(slog.DiscardHandler))
		request(traces, "", status, func(ctx context.Context) {
			_, ended := traces.Step(ctx, "step")
			ended(fault)
		})
		traces.Close(t.Context())
		for name, s := range c.spans {
			if failed := s.Status == otlptest.Error; failed != (fault != "") || s.Attributes["error.type"] != fault {
				t.Errorf("%d, %s: %v", status, name, s)
			}
		}
		if step := c.spans["step"]; len(c.spans) != 2 || step.Kind != otlptest.Internal {
			t.Errorf("%d: %v", status, c.spans)
		}
	}
}

// TestNoTraces: without traces nothing is done, and nothing is allocated for it.
func TestNoTraces(t *testing.T) {
	var none *obs.Traces
	none.Close(t.Context())
	w, r := http.ResponseWriter(httptest.NewRecorder()), httptest.NewRequest(http.MethodPost, "/auth", nil)
	if n := testing.AllocsPerRun(100, func() {
		gotW, gotR, answered := none.Request(w, r, "/auth", traceparent)
		if gotW != w || gotR != r {
			t.Error("something is in the way of the request")
		}
		answered()
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// TestLogOfTraces: the lines of a request that is sampled have its ids, whole, whatever
// digits are in them; others have none.
func TestLogOfTraces(t *testing.T) {
	c := newCollector(t, nil)
	traces := newTraces(t, obs.Tracing{Endpoint: c.URL, Fraction: 0}, obs.NewMetrics(), slog.New(slog.DiscardHandler))
	defer traces.Close(t.Context())
	var out strings.Builder
	log := obs.NewLogger(&out, slog.LevelInfo).With("scheme", "visa")
	const digits = "4000001234567890ffffffffffffffff"
	request(traces, "00-"+digits+"-"+parentSpan+"-01", 200, func(ctx context.Context) {
		log.InfoContext(ctx, "seen", "merchant", "Shop")
	})
	var line struct{ TraceID, SpanID, Scheme, Merchant string }
	if err := json.Unmarshal([]byte(strings.ReplaceAll(out.String(), "_id", "ID")), &line); err != nil {
		t.Fatal(err)
	}
	if line.TraceID != digits || len(line.SpanID) != 16 || line.SpanID == parentSpan || line.Scheme != "visa" || line.Merchant != "Shop" {
		t.Errorf("the line is %s", out.String())
	}
	out.Reset()
	request(traces, "", 200, func(ctx context.Context) { log.InfoContext(ctx, "seen") })
	log.WithGroup("of nothing").Info("seen")
	if strings.Contains(out.String(), "_id") {
		t.Errorf("lines of no trace: %s", out.String())
	}
}

// TestCollectorFails: spans that are not taken are lost, which is counted, and said once.
func TestCollectorFails(t *testing.T) {
	refuse := func(status int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { http.Error(w, "hush", status) }
	}
	gone := newCollector(t, nil)
	gone.Close()
	const part = "\x0a\x08\x08\x02\x12\x04hush" // ExportTraceServiceResponse: 2 spans are rejected, with the message "hush"
	for name, tt := range map[string]struct {
		to         *collector
		sent, said string
	}{
		"gone":        {gone, "0", "connection refused"},
		"not allowed": {newCollector(t, refuse(401)), "0", "HTTP status 401"},
		"overloaded":  {newCollector(t, refuse(503)), "0", "HTTP status 503"},
		"elsewhere":   {newCollector(t, func(w http.ResponseWriter) { w.Header().Set("Location", "/"); w.WriteHeader(307) }), "0", "HTTP status 307"},
		"in part": {newCollector(t, func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = io.WriteString(w, part)
		}), "1", "rejected"},
		"with a joke":  {newCollector(t, func(w http.ResponseWriter) { _, _ = io.WriteString(w, "ok") }), "3", ""},
		"without more": {newCollector(t, func(w http.ResponseWriter) { w.WriteHeader(202) }), "3", ""},
	} {
		m := obs.NewMetrics()
		var out strings.Builder
		traces := newTraces(t, obs.Tracing{Endpoint: tt.to.URL, Fraction: 1}, m, obs.NewLogger(&out, slog.LevelInfo))
		for range 3 {
			request(traces, "", 200, nil)
		}
		traces.Close(t.Context())
		if exposed := exposedBy(m); !strings.Contains(exposed, `threeds_spans_total{outcome="sent"} `+tt.sent+"\n") {
			t.Errorf("%s: %s", name, exposed)
		}
		if said := out.String(); (tt.said == "") != (said == "") || !strings.Contains(said, tt.said) ||
			strings.Contains(said, "hush") || strings.Count(said, "\n") > 1 {
			t.Errorf("%s: the log says %s", name, said)
		}
	}
}

// TestCollectorStandsStill: one that takes nothing holds nobody up. Of the spans that come
// meanwhile a bounded number is kept; the end does not wait longer than it may.
func TestCollectorStandsStill(t *testing.T) {
	stuck := make(chan struct{})
	c := newCollector(t, func(http.ResponseWriter) { <-stuck })
	defer close(stuck)
	m := obs.NewMetrics()
	var out lockedBuilder
	traces := newTraces(t, obs.Tracing{Endpoint: c.URL, Fraction: 1}, m, obs.NewLogger(&out, slog.LevelInfo))
	const more = 6000
	for range more {
		request(traces, "", 200, nil)
	}
	if exposed := exposedBy(m); !strings.Contains(exposed, `threeds_spans_total{outcome="dropped"} 1904`+"\n") {
		t.Errorf("of %d spans 4096 are to be kept:\n%s", more, exposed)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	traces.Close(ctx)
	if ctx.Err() == nil {
		t.Error("all was sent")
	}
	if said := out.String(); !strings.Contains(said, `"msg":"spans lost at the end","spans":6000`) || strings.Count(said, "\n") != 1 {
		t.Errorf("the log says %s", said)
	}
}

type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *lockedBuilder) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuilder) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestTracingFromEnvironment: where traces go without a word of the configuration.
func TestTracingFromEnvironment(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, tt := range map[string]struct {
		environment map[string]string
		isOn        bool
	}{
		"nothing":           {nil, false},
		"no collector":      {map[string]string{"OTEL_SERVICE_NAME": "shop"}, false},
		"an empty endpoint": {map[string]string{endpoint: " "}, false},
		"an endpoint":       {map[string]string{endpoint: "http://c.example:4318"}, true},
		"one of traces":     {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c.example:4318/v1/traces"}, true},
		"switched off":      {map[string]string{endpoint: "http://c.example:4318", "OTEL_SDK_DISABLED": "TRUE"}, false},
		"no exporter":       {map[string]string{endpoint: "http://c.example:4318", "OTEL_TRACES_EXPORTER": "none"}, false},
	} {
		got := obs.TracingFromEnvironment(func(name string) (string, bool) { v, ok := tt.environment[name]; return v, ok }, "v1")
		if (got != nil) != tt.isOn || tt.isOn && (got.Version != "v1" || got.Endpoint != "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestEnvironment: without a word of the configuration the variables of OpenTelemetry count; where both say something
// the configuration counts.
func TestEnvironment(t *testing.T) {
	named, own := newCollector(t, nil), newCollector(t, nil)
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": named.URL, "OTEL_EXPORTER_OTLP_HEADERS": "x-token=hush,no header",
		"OTEL_SERVICE_NAME": "payments", "OTEL_RESOURCE_ATTRIBUTES": "region=north", "OTEL_TRACES_SAMPLER": "always_on",
	} {
		t.Setenv(name, value)
	}
	send := func(cfg obs.Tracing) {
		traces := newTraces(t, cfg, obs.NewMetrics(), slog.New(slog.DiscardHandler))
		traces.Sample(0)
		request(traces, "", 200, nil)
		traces.Sample(1)
		request(traces, "", 200, nil)
		traces.Close(t.Context())
	}
	send(obs.Tracing{Version: "v1"})
	send(obs.Tracing{Version: "v1", Endpoint: own.URL + "/spans", Header: http.Header{"X-Token": {"psst"}}})
	for _, tt := range []struct {
		name, path, token string
		to                *collector
		spans             int
	}{
		{"by the environment", "/v1/traces", "hush", named, 2},
		{"by the configuration", "/spans", "psst", own, 1}, // the first request is not sampled
	} {
		if len(tt.to.asked) != 1 {
			t.Fatalf("%s: %d requests", tt.name, len(tt.to.asked))
		}
		if r := tt.to.asked[0]; r.URL.Path != tt.path || r.Header.Get("X-Token") != tt.token || tt.to.received != tt.spans {
			t.Errorf("%s: %s %v, %d spans", tt.name, r.URL, r.Header, tt.to.received)
		}
		if about := tt.to.about; about["service.name"] != "payments" || about["region"] != "north" || about["service.version"] != "v1" {
			t.Errorf("%s: the process is %v", tt.name, about)
		}
	}
}

// TestVariablesOfTheCollector: a variable for traces wins over that for everything, and one that is wrong is named.
func TestVariablesOfTheCollector(t *testing.T) {
	c := newCollector(t, nil)
	const all, traces = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		environment map[string]string
		path        string // that the collector sees
		fault       string // the variable that the error names
	}{
		"a base": {map[string]string{all + "ENDPOINT": c.URL + "/otel/"}, "/otel/v1/traces", ""},
		"a URL of traces": {map[string]string{all + "ENDPOINT": "http://not.example", traces + "ENDPOINT": c.URL + "/x"},
			"/x", ""},
		"gzip": {map[string]string{all + "ENDPOINT": c.URL, all + "COMPRESSION": "gzip"}, "/v1/traces", ""},
		"no gzip of traces": {map[string]string{all + "ENDPOINT": c.URL, all + "COMPRESSION": "gzip", traces + "COMPRESSION": "none"},
			"/v1/traces", ""},
		"a host without scheme": {map[string]string{all + "ENDPOINT": "collector:4318"}, "", all + "ENDPOINT"},
		"seconds for a timeout": {map[string]string{all + "ENDPOINT": c.URL, traces + "TIMEOUT": "10s"}, "", traces + "TIMEOUT"},
		"no file of authorities": {map[string]string{all + "ENDPOINT": c.URL, all + "CERTIFICATE": empty + ".not"},
			"", all + "CERTIFICATE"},
		"no authority": {map[string]string{all + "ENDPOINT": c.URL, all + "CERTIFICATE": empty}, "", all + "CERTIFICATE"},
		"no certificate": {map[string]string{all + "ENDPOINT": c.URL, all + "CLIENT_CERTIFICATE": empty, all + "CLIENT_KEY": empty}, "",
			all + "CLIENT_CERTIFICATE"},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range tt.environment {
				t.Setenv(name, value)
			}
			before := len(c.asked)
			m := obs.NewMetrics()
			made, err := obs.NewTraces(obs.Tracing{}, m, slog.New(slog.DiscardHandler))
			if tt.fault != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.fault+": ") {
					t.Errorf("%v, want an error that names %s", err, tt.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			request(made, "", 200, nil)
			made.Close(t.Context())
			if len(c.asked) != before+1 || c.asked[before].URL.Path != tt.path || !strings.Contains(exposedBy(m), `outcome="sent"} 1`) {
				t.Errorf("%d requests, want one with a span to %s", len(c.asked)-before, tt.path)
			}
		})
	}
}
