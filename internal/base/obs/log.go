// Package obs is what operators see of the server: its log, its metrics and its traces. Card numbers belong in none of
// them. If one gets into a log line or a span, it is hidden here.
package obs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
)

// NewLogger returns a logger that writes one JSON object per line to w, with
// every run of digits that could be a card number hidden. Times are UTC. Each line of a
// request has the X-Request-Id of the request's answer, and, when the request is sampled,
// the ids of the trace and the span.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	lines := &lineWriter{to: w}
	return slog.New(withRequests{slog.NewJSONHandler(lines, &slog.HandlerOptions{Level: level, ReplaceAttr: tidy}), lines})
}

// withRequests adds to each line what its context says of the request.
type withRequests struct {
	slog.Handler
	lines *lineWriter // where the lines go; nil for a handler that adds something to each line
}

func (h withRequests) Handle(ctx context.Context, r slog.Record) error {
	if of := RequestOf(ctx); of != nil {
		r.AddAttrs(slog.String("request", of.id))
	}
	if of := trace.SpanContextFromContext(ctx); of.IsSampled() {
		r.AddAttrs(slog.Any("trace_id", of.TraceID()), slog.Any("span_id", of.SpanID()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h withRequests) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withRequests{h.Handler.WithAttrs(attrs), nil}
}

func (h withRequests) WithGroup(name string) slog.Handler {
	return withRequests{h.Handler.WithGroup(name), nil}
}

// Libraries is where the standard logger may write what libraries have to say:
// as warnings, and without what they quote. net/http quotes what a directory
// server sent unasked, which may be an answer with all that is in it.
func Libraries(log *slog.Logger) io.Writer { return libraries{log} }

type libraries struct{ log *slog.Logger }

func (l libraries) Write(b []byte) (int, error) {
	said, _, _ := strings.Cut(string(b), `"`)
	l.log.Warn("a library says", "what", strings.TrimSpace(said))
	return len(b), nil
}

// tidy makes times UTC, whatever the host's zone, gives spans of time their
// unit, and hides card numbers.
func tidy(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindTime:
		a.Value = slog.TimeValue(a.Value.Time().UTC())
	case slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return mask(a)
}

// mask hides card numbers in the text of an attribute, whatever its type.
func mask(a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		if s := cardnumber.Mask(a.Value.String()); s != a.Value.String() {
			a.Value = slog.StringValue(s)
		}
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case nil: // "err", nil: there was no error, and the attribute is left out
			return slog.Attr{}
		case trace.TraceID, trace.SpanID: // digits by chance
		case error:
			a.Value = slog.StringValue(cardnumber.Mask(v.Error()))
		case fmt.Stringer:
			a.Value = slog.StringValue(cardnumber.Mask(v.String()))
		case []string:
			masked := make([]string, len(v))
			for i, s := range v {
				masked[i] = cardnumber.Mask(s)
			}
			a.Value = slog.AnyValue(masked)
		case *slog.Source:
		default:
			a.Value = slog.StringValue(cardnumber.Mask(fmt.Sprint(v)))
		}
	}
	return a
}
