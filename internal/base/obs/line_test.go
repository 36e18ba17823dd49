package obs_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/openthreeds/threeds/internal/base/obs"
)

// slowLogger returns a logger that writes what NewLogger's writes, but that makes the lines of requests as all others.
func slowLogger(b *strings.Builder) *slog.Logger {
	return slog.New(obs.NewLogger(b, slog.LevelInfo).Handler().WithAttrs(nil))
}

// A request that is logged: what is noted of it, and how it ends.
type loggedRequest struct {
	notes             map[string]string
	elements, changes []string
	status            int // 0: there is no answer
	took, directory   time.Duration
	isSampled         bool
}

// log writes the line of the request.
func (q *loggedRequest) log(log *slog.Logger) {
	now := time.Unix(1_800_000_000, 0)
	l := obs.NewRequestLog(log, obs.NewMetrics(), func() time.Time { return now })
	in := httptest.NewRequest(http.MethodPost, "/auth", nil)
	if q.isSampled {
		of := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3}, TraceFlags: trace.FlagsSampled})
		in = in.WithContext(trace.ContextWithSpanContext(in.Context(), of))
	}
	w, r, line := l.Begin(httptest.NewRecorder(), in, "/auth")
	for name, value := range q.notes {
		obs.Note(r.Context(), name, value)
	}
	if q.elements != nil {
		line.SetError("203", q.elements, q.notes["errorDetail"])
	}
	if q.changes != nil {
		obs.Recorder{}.NoteChanges(r.Context(), q.changes)
	}
	obs.Recorder{}.NoteDirectory(r.Context(), q.directory)
	if q.status != 0 {
		w.WriteHeader(q.status)
	}
	now = now.Add(q.took)
	l.End(line)
}

// withoutID takes the id of a request, which is another each time, out of its line.
func withoutID(line string) string {
	begin, rest, _ := strings.Cut(line, `"request":"`)
	_, end, _ := strings.Cut(rest, `"`)
	return begin + end
}

// TestG11LinesOfRequestsAreAsTheHandlerMakesThem: whatever is in it, the line of a request is the one that the handler
// of all other lines would write.
func TestG11LinesOfRequestsAreAsTheHandlerMakesThem(t *testing.T) {
	noted := map[string]string{
		"merchant": "Shop & Söhne <1>", "key": "k1", "threeDSServerTransID": "01a1fa01-36cc-465e-ab5f-50d051286852", "scheme": "visa",
		"bin": "40000000", "last4": "0002", "messageVersion": "2.2.0", "transStatus": "Y", "eci": "05", "reference": "order 4000001234567890",
		"amount": "12500", "cardHash": "ab",
	}
	plain := map[string]string{
		"merchant": "Shop & Sons <1>", "reference": "order 4000001234567890",
		"threeDSServerTransID": "41111111-1111-1111-8111-111111111111",
	}
	all := []loggedRequest{
		{}, {notes: noted, status: 200, took: 1234567 * time.Nanosecond, directory: 1000 * time.Microsecond}, {notes: plain, status: 200, took: time.Hour},
		{notes: plain, status: 503, took: time.Microsecond, isSampled: true}, {notes: plain, status: 200, took: -time.Second},
		{notes: plain, status: 400, elements: []string{"acctNumber", "4000001234567890"}, changes: []string{"email: trimmed", "a & b"}},
		{notes: plain, status: 400, elements: []string{"\"", "\u2028"}},
	}
	for _, odd := range []string{"\"", "\\", "a\nb", "\x00", "\x7f", "\b\f", "ü", "\u202e", "\u2028", "\xff", "\U000e0041", "4000 0012\u00a03456 7890"} {
		all = append(all, loggedRequest{notes: map[string]string{"reference": odd, "merchant": "Shop"}, status: 200})
	}
	for _, q := range all {
		synctest.Test(t, func(t *testing.T) { // so that both lines have the same time
			var fast, slow strings.Builder
			q.log(obs.NewLogger(&fast, slog.LevelInfo))
			q.log(slowLogger(&slow))
			if got, want := withoutID(fast.String()), withoutID(slow.String()); got != want || got == "" {
				t.Errorf("the line is\n%s, want\n%s", got, want)
			}
		})
	}
}

// BenchmarkRequestLine is the line of an /auth in the log, by the way of all lines and by that of requests.
func BenchmarkRequestLine(b *testing.B) {
	for name, log := range map[string]func(*strings.Builder) *slog.Logger{
		"handler": slowLogger, "line": func(b *strings.Builder) *slog.Logger { return obs.NewLogger(b, slog.LevelInfo) },
	} {
		b.Run(name, func(b *testing.B) {
			var out strings.Builder
			l := obs.NewRequestLog(log(&out), obs.NewMetrics(), time.Now)
			_, r, line := l.Begin(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/auth", nil), "/auth")
			for name, value := range map[string]string{
				"merchant": "Corner Shop", "key": "k1f3a5b7c", "threeDSServerTransID": "01a1fa01-36cc-465e-ab5f-50d051286852",
				"dsTransID": "3b3d7d3e-1234-4234-9234-123456789012", "acsTransID": "8a880dc0-d2d2-4067-bcb1-b08d1690b26e", "scheme": "visa",
				"bin": "40000000", "last4": "0002", "messageVersion": "2.2.0", "deviceChannel": "02", "messageCategory": "01", "transStatus": "Y",
				"eci": "05", "reference": "order 17",
			} {
				obs.Note(r.Context(), name, value)
			}
			b.ReportAllocs()
			for b.Loop() {
				out.Reset()
				l.End(line)
			}
		})
	}
}
