// Package results is the listener for directory servers: RReq and Erro come
// in over mutual TLS, RRes and Erro go out, always with status 200 where there
// is a message to answer. This package decides which directory a client certificate belongs to; the engine decides what
// the message means.
package results

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"

	"golang.org/x/sync/semaphore"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/message"
)

// maxBody is the largest message taken, in bytes, unless more is wanted (docs/api.md, G8).
const maxBody = 256 << 10

// A Receiver takes what the directory servers of the schemes posted.
type Receiver interface {
	Receive(ctx context.Context, schemes []string, body []byte) auth.Receipt
}

// A Handler is the listener's. Set its fields before use.
type Handler struct {
	Engine Receiver
	Trust  *certs.Trust
	Body   int64               // size of the largest message, in bytes; at least 256 KiB
	Memory *semaphore.Weighted // memory for long messages, LongMessages for all handlers of a process
	Traces *obs.Traces         // has a span for each message; nil means that there are no traces
	Log    *slog.Logger

	// Requests writes one line for each message, and counts it. Nil means that it does not.
	Requests *obs.RequestLog
}

// ServeHTTP answers a POST on any path: the operator chooses the address in the AReq, and
// TLS lets in only directory servers.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w, r, line := h.Requests.Begin(w, r, "results")
	defer h.Requests.End(line)
	defer h.recoverPanic(w, r)
	w.Header().Set("Cache-Control", "no-store")
	schemes := h.Trust.SchemesOf(r)
	if len(schemes) == 0 { // the trust has changed since the handshake
		line.Refuse("untrusted")
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if r.Method != http.MethodPost {
		line.Refuse("method")
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if listen.IsEncoded(r) {
		line.Refuse("encoding")
		h.rejectEncoding(w, r)
		return
	}
	w, r, answered := h.Traces.Request(w, r, "results", "") // the traceparent of a directory server is not used
	defer answered()
	body, done, err := h.readBody(w, r)
	defer done()
	if err != nil {
		status, why := http.StatusBadRequest, "incomplete"
		if _, over := errors.AsType[*http.MaxBytesError](err); over {
			status, why = http.StatusRequestEntityTooLarge, "too_large"
		}
		line.Refuse(why)
		w.WriteHeader(status)
		return
	}
	// The DS sends a result once: it is stored though the DS hangs up.
	got := h.Engine.Receive(context.WithoutCancel(r.Context()), schemes, body)
	if got.Refused != nil {
		line.SetError(got.Refused.Code.String(), check.Elements(*got.Refused), "")
		obs.Note(r.Context(), "errorComponent", got.Refused.Component)
	}
	h.write(w, r, got)
}

// LongMessages is how many bytes of memory the long messages may have together.
const LongMessages = 32 << 20

// maxShort is the longest message, in bytes, that does not wait for memory. Results have a
// few KiB.
const maxShort = 16 << 10

// readBody reads the whole body. A long one waits, once maxShort bytes have come, for the memory
// of the longest, and keeps it until done is called. Results are never refused, but there
// is not enough memory for a long message on each of some thousand connections.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request) (data []byte, done func(), err error) {
	limit := max(h.Body, maxBody)
	done = func() {}
	data, err = listen.ReadBody(http.MaxBytesReader(w, r.Body, limit), r.ContentLength, maxShort, func() (int64, error) {
		size := min(limit, LongMessages)
		if err := h.Memory.Acquire(r.Context(), size); err != nil {
			return 0, err
		}
		done = func() { h.Memory.Release(size) }
		return limit, nil
	})
	return data, done, err
}

func (h *Handler) write(w http.ResponseWriter, r *http.Request, got auth.Receipt) {
	if got.Version >= message.V231 && got.DSTransID != "" {
		w.Header().Set("X-Request-ID", got.DSTransID)
		w.Header().Set("X-Response-ID", got.ServerTransID)
	}
	h.send(w, r, http.StatusOK, got.Body)
}

// send sends an answer, whose body may be empty.
func (h *Handler) send(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	if len(body) > 0 {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		h.Log.InfoContext(r.Context(), "answer not sent", "err", err)
	}
}

// rejectEncoding answers a message in a content coding.
func (h *Handler) rejectEncoding(w http.ResponseWriter, r *http.Request) {
	body := message.Error{
		Version: message.V220, Code: message.InvalidMessage, Component: "S",
		Description: check.Describe(message.InvalidMessage),
		Detail:      "The body has a Content-Encoding; send it as it is",
	}.JSON()
	h.send(w, r, http.StatusUnsupportedMediaType, body)
}

// recoverPanic answers a message in whose handling a panic occurred. It must be deferred.
func (h *Handler) recoverPanic(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	h.Log.ErrorContext(r.Context(), "panic in a handler", "stack", string(debug.Stack()))
	w.WriteHeader(http.StatusInternalServerError)
}
