package obs

import (
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
)

// members take the members of a line of the log.
type members interface {
	addText(name, value string)
	addInt(name string, n int)
	addTrue(name string)
	addFloat(name string, f float64)
	addList(name string, all []string)
}

// attrs are the members of a line for any handler.
type attrs []slog.Attr

func (a *attrs) addText(name, value string)        { *a = append(*a, slog.String(name, value)) }
func (a *attrs) addInt(name string, n int)         { *a = append(*a, slog.Int(name, n)) }
func (a *attrs) addTrue(name string)               { *a = append(*a, slog.Bool(name, true)) }
func (a *attrs) addFloat(name string, f float64)   { *a = append(*a, slog.Float64(name, f)) }
func (a *attrs) addList(name string, all []string) { *a = append(*a, slog.Any(name, all)) }

// A lineWriter writes whole lines, one after the other. The lines of requests, of which there are many, it also makes:
// as the handler of [NewLogger] makes them, but in memory that is used again.
type lineWriter struct {
	mu sync.Mutex
	to io.Writer
}

// Write writes one line.
func (w *lineWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(line)
}

// writeRequest writes the line of a request. It returns false, and writes nothing, if a text in it has to be escaped:
// the handler does that.
func (w *lineWriter) writeRequest(r *Request, at time.Time, level slog.Level, took time.Duration) bool {
	line := linePool.Get().(*jsonLine)
	defer func() {
		if cap(line.text) <= maxPooledLine {
			linePool.Put(line)
		}
	}()
	*line = jsonLine{text: append(line.text[:0], `{"time":"`...)}
	line.text = append(at.UTC().AppendFormat(line.text, time.RFC3339Nano), '"')
	line.addText(slog.LevelKey, level.String())
	line.addText(slog.MessageKey, requestMsg)
	r.addMembers(line, took)
	line.addText("request", r.id)
	if of := trace.SpanContextFromContext(r.ctx); of.IsSampled() {
		line.add("trace_id", of.TraceID().String())
		line.add("span_id", of.SpanID().String())
	}
	if line.isOdd {
		return false
	}
	line.text = append(line.text, "}\n"...)
	_, _ = w.Write(line.text)
	return true
}

// maxPooledLine is how long a line may be, in bytes, for its memory to be used again.
const maxPooledLine = 16 << 10

// linePool has the memory of lines.
var linePool = sync.Pool{New: func() any { return new(jsonLine) }}

// A jsonLine is a line of the log with its members so far, as JSON.
type jsonLine struct {
	text  []byte
	isOdd bool // a text has to be escaped
}

func (l *jsonLine) addName(name string) {
	l.text = append(append(append(l.text, `,"`...), name...), `":`...)
}

// add adds a text as it is.
func (l *jsonLine) add(name, value string) {
	l.addName(name)
	l.appendText(value)
}

// addText adds a text without card numbers.
func (l *jsonLine) addText(name, value string) { l.add(name, cardnumber.Mask(value)) }

func (l *jsonLine) addInt(name string, n int) {
	l.addName(name)
	l.text = strconv.AppendInt(l.text, int64(n), 10)
}

func (l *jsonLine) addTrue(name string) {
	l.addName(name)
	l.text = append(l.text, "true"...)
}

// addFloat adds a number, which is neither tiny nor huge: JSON has such without an exponent.
func (l *jsonLine) addFloat(name string, f float64) {
	l.addName(name)
	l.text = strconv.AppendFloat(l.text, f, 'f', -1, 64)
}

func (l *jsonLine) addList(name string, all []string) {
	l.addName(name)
	l.text = append(l.text, '[')
	for i, value := range all {
		if i > 0 {
			l.text = append(l.text, ',')
		}
		l.appendText(cardnumber.Mask(value))
	}
	l.text = append(l.text, ']')
}

// appendText appends a text in quotation marks.
func (l *jsonLine) appendText(value string) {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			l.isOdd = true
		}
	}
	l.text = append(append(append(l.text, '"'), value...), '"')
}
