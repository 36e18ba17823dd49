package journal

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/openthreeds/threeds/internal/base/porttest"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// words are the attributes of a span, but those of HTTP.
func words(s *tracepb.Span) map[string]string {
	all := make(map[string]string)
	for _, a := range s.Attributes {
		if !strings.HasPrefix(a.Key, "http.") {
			all[a.Key] = rig.AttributeOf(s.Attributes, a.Key)
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
	t.Parallel()
	ca := rig.NewAuthority(t)
	ds, old, c := rig.NewWire(t, ca), rig.NewV1Directory(t, ca), rig.NewCollector(t)
	ds.Server.Config.Handler = unmarked(t, ds)
	old.Server.Config.Handler = unmarked(t, old.Server.Config.Handler)
	s, proc := rig.SpawnSite(t, ca, ds, rig.Plan{Sections: c.Section("1") + rig.V1Section(t, ca, old.Server.URL)})
	const his, above = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	parent := func(trace string) []string { return []string{"Traceparent", "00-" + trace + "-" + above + "-01"} }

	ds.SetAnswer(rig.AnswerStatus("C"))
	req := s.Request("2.2.0")
	id := req.Text("threeDSServerTransID")
	res, data := s.Call(http.MethodPost, "/auth", s.APIKey, req, parent(his)...)
	answer := rig.ParseObject(t, data)
	if res.StatusCode != 200 || answer.Text("transStatus") != "C" {
		t.Fatalf("/auth: %d %v", res.StatusCode, answer)
	}
	result, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.ResultsURL, bytes.NewReader(rig.Marshal(rig.RReq(ds.Sent(id)[0], answer, "Y"))))
	if err != nil {
		t.Fatal(err)
	}
	const theirs = "1af7651916cd43dd8448eb211c80319c"
	result.Header.Set("Traceparent", parent(theirs)[1])
	posted, err := ds.Client.Do(result)
	if err != nil || posted.StatusCode != 200 {
		t.Fatalf("RReq: %v %v", posted, err)
	}
	rig.Must(t, posted.Body.Close())
	s.Postauth(id)
	ds.SetAnswer(func(rig.Object) (int, []byte) { return 200, []byte("{}") })
	bad := s.Request("2.3.1")
	s.Post("/auth", bad)
	waittest.Until(t, "an Erro", func() bool { return len(ds.Posted(bad.Text("threeDSServerTransID"))) == 1 })
	const stranger = "2af7651916cd43dd8448eb211c80319c"
	s.Call(http.MethodPost, "/auth", canaryWrong, req, parent(stranger)...)
	s.Post("/auth", rig.Object{"acctNumber": rig.EnrolledPAN, "deviceChannel": rig.EnrolledPAN, "threeDSServerTransID": rig.EnrolledPAN})
	(&rig.LegacySite{Site: s, V1: old}).Enroll(rig.Purchase(rig.V1Visa))
	lost := s.Request("2.2.0")
	ds.Server.Close()
	s.Post("/auth", lost)
	proc.End(syscall.SIGTERM)

	auth := c.One(t, "POST /auth", "threeDSServerTransID", id)
	want := map[string]string{
		"operation": "auth", "scheme": "visa", "merchant": "Shop", "outcome": "C", "threeDSServerTransID": id, "messageVersion": "2.2.0",
		"deviceChannel": "02", "messageCategory": "01", "acsTransID": answer.Text("acsTransID"), "dsTransID": answer.Text("dsTransID"),
		"transStatus": "C", "bin": "40000012", "last4": "7890", "key": fmt.Sprint(lineOf(t, proc.Log.String(), "/auth", id)["key"]),
	}
	if got := words(auth); !maps.Equal(got, want) || hex.EncodeToString(auth.TraceId) != his || hex.EncodeToString(auth.ParentSpanId) != above {
		t.Errorf("/auth: trace %x below %x, %v; want %v", auth.TraceId, auth.ParentSpanId, got, want)
	}
	if got := c.Below(auth); got != "store create, AReq, store update" {
		t.Errorf("within /auth there is %s", got)
	}
	areq := c.One(t, "AReq", "threeDSServerTransID", id)
	if areq.Kind != tracepb.Span_SPAN_KIND_CLIENT || rig.AttributeOf(areq.Attributes, "scheme") != "visa" || areq.Status.Code != tracepb.Status_STATUS_CODE_UNSET {
		t.Errorf("the AReq: %v", areq)
	}
	if line := lineOf(t, proc.Log.String(), "/auth", id); line["trace_id"] != his || line["span_id"] != hex.EncodeToString(auth.SpanId) {
		t.Errorf("the log says %v, want the ids of %v", line, auth)
	}

	received := c.One(t, "POST results", "threeDSServerTransID", id)
	want = map[string]string{
		"operation": "rreq", "scheme": "visa", "merchant": "Shop", "outcome": "Y", "threeDSServerTransID": id, "messageVersion": "2.2.0",
		"deviceChannel": "02", "messageCategory": "01", "acsTransID": answer.Text("acsTransID"), "dsTransID": answer.Text("dsTransID"),
		"message": "RReq", "transStatus": "Y", "eci": "05", "resultsStatus": "01", "bin": "40000012", "last4": "7890",
	}
	if got := words(received); !maps.Equal(got, want) || len(received.ParentSpanId) != 0 || bytes.Equal(received.TraceId, auth.TraceId) {
		t.Errorf("the result: trace %x below %x, %v; want %v", received.TraceId, received.ParentSpanId, got, want)
	}
	if got := c.Below(received); got != "store get, store update" {
		t.Errorf("within the result there is %s", got)
	}
	if line := lineOf(t, proc.Log.String(), "results", id); line["trace_id"] != hex.EncodeToString(received.TraceId) {
		t.Errorf("the log says %v, want the trace of %v", line, received)
	}
	if post := c.One(t, "POST /postauth", "threeDSServerTransID", id); c.Below(post) != "store get" || rig.AttributeOf(post.Attributes, "outcome") != "Y" {
		t.Errorf("/postauth: %v, and within it %s", post, c.Below(post))
	}

	refused := c.One(t, "POST /auth", "threeDSServerTransID", bad.Text("threeDSServerTransID"))
	if got := c.Below(refused); got != "store create, AReq, store update, Erro" && got != "store create, AReq, Erro, store update" {
		t.Errorf("within an /auth whose ARes is refused there is %s", got)
	}
	worse := c.Named("POST /auth", "threeDSServerTransID", "")
	if len(worse) != 1 || words(worse[0])["outcome"] != "201" || words(worse[0])["deviceChannel"] != "" {
		t.Errorf("/auth that make no sense: %v, want one", worse)
	}

	failed := c.One(t, "AReq", "threeDSServerTransID", lost.Text("threeDSServerTransID"))
	if e := failed.Events; failed.Status.Code != tracepb.Status_STATUS_CODE_ERROR || rig.AttributeOf(failed.Attributes, "error.type") != "connect" ||
		len(e) != 1 || e[0].Name != "tried again" || rig.AttributeOf(e[0].Attributes, "error.type") != "connect" {
		t.Errorf("an AReq that nobody takes: %v", failed)
	}

	asked := c.One(t, "POST /enrolled", "scheme", "visa")
	if got := c.Below(asked); !strings.HasPrefix(got, "VEReq") || rig.AttributeOf(asked.Attributes, "outcome") != "Y" ||
		rig.AttributeOf(asked.Attributes, "messageId") == "" {
		t.Errorf("/enrolled: %v, and within it %s", asked, got)
	}
	if preq := c.Named("PReq", "scheme", "visa"); len(preq) == 0 || len(preq[0].ParentSpanId) != 0 {
		t.Errorf("PReqs: %v", preq)
	}
	for _, s := range c.Spans {
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
	t.Parallel()
	ca := rig.NewAuthority(t)
	c := rig.NewCollector(t)
	s, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: c.Section("0")})
	before := s.Request("2.2.0")
	s.Through(before)
	asked := s.Request("2.2.0")
	s.Call(http.MethodPost, "/auth", s.APIKey, asked, "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	rig.WriteFile(t, s.ConfigFile, []byte(strings.Replace(s.ConfigText(), "sampling_fraction: 0", "sampling_fraction: 1", 1)))
	s.Reload(proc, rig.ReloadApplied)
	after := s.Request("2.2.0")
	s.Through(after)
	proc.End(syscall.SIGTERM)
	for req, want := range map[*rig.Object]int{&before: 0, &asked: 1, &after: 1} {
		if got := len(c.Named("POST /auth", "threeDSServerTransID", req.Text("threeDSServerTransID"))); got != want {
			t.Errorf("%d spans, want %d", got, want)
		}
	}
	if line := lineOf(t, proc.Log.String(), "/auth", before.Text("threeDSServerTransID")); line["trace_id"] != nil {
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
	ca := rig.NewAuthority(t)
	for name, at := range map[string]string{"gone": "http://" + porttest.Address(t), "stands still": still.URL} {
		t.Run(name, func(t *testing.T) {
			s, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: "tracing: {endpoint: " + at + ", sampling_fraction: 1}"})
			s.Through(s.Request("2.2.0"))
			if n := s.Metric(`threeds_spans_total{outcome="dropped"}`); n != 0 {
				t.Errorf("%v spans dropped that there is room for", n)
			}
			if took := proc.End(syscall.SIGTERM); took > 2*time.Second+2*3*time.Second {
				t.Errorf("the end took %v", took)
			}
			if !strings.Contains(proc.Log.String(), `"msg":"spans lost`) {
				t.Errorf("the log does not say that spans were lost:\n%s", proc.Log.String())
			}
		})
	}
}

// TestTracingOfTheEnvironment: without a section for traces they go where the variables of OpenTelemetry say. With one
// they go where it says.
func TestTracingOfTheEnvironment(t *testing.T) {
	other := rig.NewCollector(t)
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": other.Server.URL, "OTEL_EXPORTER_OTLP_HEADERS": "x-token=hush", "OTEL_TRACES_SAMPLER": "always_on",
	} {
		t.Setenv(name, value)
	}
	ca := rig.NewAuthority(t)
	without := rig.StartSite(t, ca, rig.NewWire(t, ca))
	req := without.Request("2.2.0")
	without.Through(req)
	rig.Must(t, without.Stop())
	other.One(t, "POST /auth", "threeDSServerTransID", req.Text("threeDSServerTransID"))
	if other.Header.Get("X-Token") != "hush" {
		t.Errorf("the headers are %v", other.Header)
	}
	before := len(other.Raw)
	mine, secret := rig.NewCollector(t, ca), filepath.Join(t.TempDir(), "collector.secret")
	rig.WriteFile(t, secret, []byte("X-Token: psst\n"))
	on := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: "tracing: {endpoint: " + mine.Server.URL +
		", ca: ca.pem, headers: " + secret + ", sampling_fraction: 1}"})
	req = on.Request("2.2.0")
	on.Through(req)
	rig.Must(t, on.Stop())
	mine.One(t, "POST /auth", "threeDSServerTransID", req.Text("threeDSServerTransID"))
	if mine.Header.Get("X-Token") != "psst" || len(other.Raw) != before {
		t.Errorf("the headers are %v; %d requests went elsewhere", mine.Header, len(other.Raw)-before)
	}
}
