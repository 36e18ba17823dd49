package obs

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/answered"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/uuid"
)

// A RequestLog writes one line of the log for each request, and counts it, when it has
// been answered (docs/api.md, G11). Use [RequestLog.Begin] before anything else is done
// for a request, and [RequestLog.End] after everything else. It is safe for concurrent
// use. A nil *RequestLog writes and counts nothing.
type RequestLog struct {
	log     *slog.Logger
	metrics *Metrics
	now     func() time.Time
	refused sourceLimiter

	// Ended is called for each request at its end, if it is not nil. Set it before use.
	Ended func(*Request)
}

// NewRequestLog returns a RequestLog. Times are measured by now.
func NewRequestLog(log *slog.Logger, metrics *Metrics, now func() time.Time) *RequestLog {
	return &RequestLog{log: log, metrics: metrics, now: now}
}

// A Request is what becomes known of one request while it is served. Only the goroutine
// that serves the request may use it, until [RequestLog.End]. The methods of a nil
// *Request do nothing.
type Request struct {
	id        string
	operation string // the path pattern, or "results"
	from      string // the address of the client
	ctx       context.Context
	began     time.Time
	writer    *answered.Writer
	values    [len(requestMembers)]string // by index of requestMembers
	elements  []string
	changes   []string
	counted   string        // the operation as an engine calls it, for the metrics
	outcome   string        // how the request ended, for the metrics
	judged    bool          // an engine has set the outcome
	stranger  bool          // the request had no good API key
	directory time.Duration // how long the directory server took; 0 when it was not asked
	waited    time.Duration // how long the request waited because its client had asked for that
	steps     []Step
}

// A Step is a message that was sent or came while a request was served. It is for the journal.
type Step struct {
	Name    string // as the journal calls it
	At      time.Time
	Message []byte // JSON without secrets; nil if the message could not be read
	Finding string // what was found in it; "" for nothing
}

// requestMembers are the members of a request's line that are texts, in the order of the
// line, with the name by which [Note] knows each. Values are codes, words and ids, never
// text of a message's own. The reference alone is a text of the requestor's. Those that are logged as "" are for the
// journal, and stand in no line.
var requestMembers = [...]struct{ noted, logged string }{
	{"merchant", "merchant"},
	{"key", "key"},
	{"threeDSServerTransID", "id"},
	{"dsTransID", "dsTransID"},
	{"acsTransID", "acsTransID"},
	{"message", "message"},
	{"scheme", "scheme"},
	{"bin", "bin"},
	{"last4", "last4"},
	{"messageVersion", "version"},
	{"deviceChannel", "channel"},
	{"messageCategory", "category"},
	{"transStatus", "status"},
	{"transStatusReason", "reason"},
	{"eci", "eci"},
	{"resultsStatus", "resultsStatus"},
	{"errorCode", "code"},
	{"errorComponent", "component"},
	{"errorDetail", "detail"},
	{"reference", "reference"},
	{"amount", ""},
	{"currency", ""},
	{"cardHash", ""}, // hexadecimal
}

// isForJournal reports whether [Note] knows a name that stands neither in the line nor in a span.
func isForJournal(name string) bool {
	return name == "amount" || name == "currency" || name == "cardHash"
}

// Indexes of requestMembers that are used here by themselves.
const (
	memberID     = 2
	memberScheme = 6
	memberCode   = 16

	memberComponent = 17
)

type requestKey struct{}

// RequestOf returns the request of a context; nil when there is none.
func RequestOf(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// Begin starts the record of a request for an operation: a path pattern such as
// "/auth", or "results". It sets X-Request-Id in the answer. The request has to be
// answered through the returned writer, and served as the returned request.
func (l *RequestLog) Begin(w http.ResponseWriter, r *http.Request,
	operation string) (http.ResponseWriter, *http.Request, *Request) {
	if l == nil {
		return w, r, nil
	}
	req := &Request{
		id: uuid.New(), operation: operation, from: hostOf(r.RemoteAddr), began: l.now(),
		writer: &answered.Writer{ResponseWriter: w},
	}
	req.ctx = context.WithValue(r.Context(), requestKey{}, req)
	w.Header()["X-Request-Id"] = []string{req.id}
	return req.writer, r.WithContext(req.ctx), req
}

// End writes the line of a request and counts it.
func (l *RequestLog) End(r *Request) {
	if l == nil || r == nil {
		return
	}
	if l.Ended != nil {
		l.Ended(r)
	}
	took := l.now().Sub(r.began)
	l.metrics.count(operation{
		cmp.Or(r.counted, strings.TrimPrefix(r.operation, "/")), r.values[memberScheme], r.outcomeWord(),
		knownComponent(r.values[memberComponent]),
	}, max(took-r.waited, 0), r.judged)
	if r.stranger && !l.refused.allow(r, l.now()) {
		return
	}
	level := slog.LevelInfo
	if r.writer.Status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	l.write(r, level, took)
}

// write writes the line of a request. It does what [slog.Logger.LogAttrs] does but does not look up its caller, which
// costs as much as the rest of a short line.
func (l *RequestLog) write(r *Request, level slog.Level, took time.Duration) {
	handler := l.log.Handler()
	if !handler.Enabled(r.ctx, level) {
		return
	}
	now := time.Now()
	if of, ok := handler.(withRequests); ok && of.lines != nil && of.lines.writeRequest(r, now, level, took) {
		return
	}
	var all attrs
	r.addMembers(&all, took)
	line := slog.NewRecord(now, level, requestMsg, 0)
	line.AddAttrs(all...)
	_ = handler.Handle(r.ctx, line) // as with slog, a log that cannot be written has nowhere to say so
}

// requestMsg is the msg of the line of a request.
const requestMsg = "request"

// addMembers adds the members of the request's line. Those that are unknown are left out.
func (r *Request) addMembers(to members, took time.Duration) {
	to.addText("operation", r.operation)
	for i, value := range r.values {
		if name := requestMembers[i].logged; value != "" && name != "" {
			to.addText(name, value)
		}
	}
	if r.writer.Status != 0 {
		to.addInt("http", r.writer.Status)
	} else {
		to.addTrue("aborted")
	}
	if len(r.elements) > 0 {
		to.addList("elements", r.elements)
	}
	if len(r.changes) > 0 {
		to.addList("changes", r.changes)
	}
	to.addFloat("ms", milliseconds(took))
	if r.directory > 0 {
		to.addFloat("directoryMs", milliseconds(r.directory))
	}
	if r.waited > 0 {
		to.addFloat("waitMs", milliseconds(r.waited))
	}
	to.addText("from", r.from)
}

// milliseconds is d in milliseconds, to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// outcomeWord is how the request ended, for the metrics.
func (r *Request) outcomeWord() string {
	switch {
	case r.outcome != "":
		return r.outcome
	case r.writer.Status == 0:
		return "aborted"
	case r.values[memberCode] != "":
		return r.values[memberCode]
	case r.writer.Status >= http.StatusInternalServerError:
		return "internal"
	case r.writer.Status >= http.StatusBadRequest:
		return "refused"
	}
	return "ok"
}

// set sets the member that [Note] knows by a name.
func (r *Request) set(name, value string) {
	switch name {
	case "operation":
		r.counted = value
		return
	case "outcome":
		r.outcome, r.judged = value, true
		return
	case "messageId": // of 3-D Secure 1.0.2
		r.values[memberID] = value
		return
	}
	for i := range requestMembers {
		if requestMembers[i].noted == name {
			r.values[i] = value
			return
		}
	}
}

// Refuse records that the listener refused the request before an engine saw it. why is one word for the metrics; ""
// means that the error code says why.
func (r *Request) Refuse(outcome string) {
	if r != nil {
		r.outcome = outcome
	}
}

// MarkStranger notes that the request came without a good API key. Lines of such
// requests are limited by the address that they come from.
func (r *Request) MarkStranger() {
	if r != nil {
		r.stranger = true
	}
}

// SetWaited notes how long the request waited because its client had asked for that. The metrics of how
// long requests take do without this time.
func (r *Request) SetWaited(d time.Duration) {
	if r != nil {
		r.waited = d
	}
}

// SetError notes the code of the error in the answer, the elements that it names, and,
// where it names none, what it says.
func (r *Request) SetError(code string, elements []string, detail string) {
	if r == nil {
		return
	}
	r.set("errorCode", code)
	r.set("errorDetail", detail)
	r.elements = elements
}

// A Recorder writes down what engines know of a request: in its line of the log, and in its
// span, if there are such. They find both by the context of the request.
type Recorder struct{}

// Note is [Note].
func (Recorder) Note(ctx context.Context, name, value string) { Note(ctx, name, value) }

// NoteDirectory notes how long a directory server took.
func (Recorder) NoteDirectory(ctx context.Context, took time.Duration) {
	if r := RequestOf(ctx); r != nil {
		r.directory = took
	}
}

// NoteStep notes a message. Card numbers in it are hidden here; what is no JSON then is left out.
func (Recorder) NoteStep(ctx context.Context, name string, at time.Time, message []byte, finding string) {
	r := RequestOf(ctx)
	if r == nil {
		return
	}
	if message != nil {
		if message = []byte(cardnumber.Mask(string(message))); !json.Valid(message) {
			message = nil
		}
	}
	r.steps = append(r.steps, Step{name, at, message, cardnumber.Mask(finding)})
}

// NoteChanges notes what was corrected in the request, as texts without values.
func (Recorder) NoteChanges(ctx context.Context, changes []string) {
	if r := RequestOf(ctx); r != nil {
		r.changes = changes
	}
}

// hostOf is the address without its port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// ID is the X-Request-Id.
func (r *Request) ID() string { return r.id }

// Operation is the path pattern, or "results".
func (r *Request) Operation() string { return r.operation }

// Began is when the request came.
func (r *Request) Began() time.Time { return r.began }

// Value returns what is known by the name that [Note] has for it.
func (r *Request) Value(name string) string {
	for i := range requestMembers {
		if requestMembers[i].noted == name {
			return r.values[i]
		}
	}
	return ""
}

// Steps are the messages that were sent and came, oldest first.
func (r *Request) Steps() []Step { return r.steps }

// Elements are those that the error in the answer names.
func (r *Request) Elements() []string { return r.elements }

// Status is the HTTP status of the answer, 0 if there is none.
func (r *Request) Status() int { return r.writer.Status }

// IsStranger reports whether the request came without a good API key.
func (r *Request) IsStranger() bool { return r.stranger }

// AskedDirectory reports whether a directory server was asked.
func (r *Request) AskedDirectory() bool { return r.directory > 0 }
