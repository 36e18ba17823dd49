package api

import (
	"errors"
	"io"
	"net/http"

	"github.com/openthreeds/threeds/internal/edge/listen"
)

// errNoPlace says that there is no memory for the body at present.
var errNoPlace = errors.New("api: no place for a body of this length")

// readBody reads the whole body, or fails at the first byte over the limit. It takes the
// places that the body needs.
func (a *admission) readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	size := r.ContentLength
	if size > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	if size < 0 { // the length is not announced
		size = limit
	}
	return listen.ReadBody(http.MaxBytesReader(w, r.Body, limit), bytesPerPlace, func() (int64, error) {
		if !a.takePlacesFor(size) {
			return 0, errNoPlace
		}
		return size, nil
	})
}

// rejectBody answers when the body was too large, there was no memory for it, or it did not
// come.
func (h *Handler) rejectBody(w http.ResponseWriter, r *http.Request, ep *endpoint, a *admission, err error) {
	prepareForUnreadBody(w, r)
	defer func() {
		// The answer is made. A client that sends the rest of the body slowly must not hold a place meanwhile.
		a.release()
		sendAndDrain(w, r)
	}()
	if errors.Is(err, errNoPlace) {
		h.writeOverloaded(w, r, ep, InFlight)
		return
	}
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		ep.protocol.writeFailure(h, w, r, bodyTooLarge(over.Limit))
		return
	}
	h.Log.DebugContext(r.Context(), "body not read", "path", r.URL.Path, "err", err)
	ep.protocol.writeFailure(h, w, r, bodyIncomplete)
}

// prepareForUnreadBody prepares an answer to a request whose body was not read to its end.
// In HTTP/1 the rest of the body is in the way of the next request, so the connection is
// closed. In HTTP/2 other requests share the connection, so it stays; the rest is read
// first, since some clients drop an answer that comes before they have sent everything.
func prepareForUnreadBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
		return
	}
	_ = drainBody(w, r)
}

// sendAndDrain sends an answer, in HTTP/1, and then reads what is left of the body. net/http
// would read first, so the answer would wait for a body that may never come. After the last
// answer of a connection net/http would not read at all, and a client that is still sending
// would find a broken connection and no answer.
//
// A body that has not come to its end, because it is malformed or late, ends the
// connection: what follows would be taken for the next request, and once the answer is
// sent net/http lets that happen. After a body that is too long, [http.MaxBytesReader]
// ends the connection.
func sendAndDrain(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 {
		return
	}
	control := http.NewResponseController(w)
	if control.EnableFullDuplex() != nil {
		return
	}
	err := control.Flush()
	if err == nil {
		err = drainBody(w, r)
	}
	if _, over := errors.AsType[*http.MaxBytesError](err); err != nil && !over {
		panic(http.ErrAbortHandler)
	}
}

// maxDrain is the most that drainBody reads, in bytes.
const maxDrain = 512 << 10

// drainBody reads what is left of a body and drops it, so that the client can finish
// sending. It returns nil at the end of the body. It reads nothing from a client that sent
// Expect: such a client waits to be asked for the body, and net/http closes the connection
// of one that was not asked. HTTP/1.0 knows no Expect.
func drainBody(w http.ResponseWriter, r *http.Request) error {
	if r.Header["Expect"] != nil && r.ProtoAtLeast(1, 1) {
		return nil
	}
	_, err := io.Copy(io.Discard, http.MaxBytesReader(unwrapWriter(w), r.Body, maxDrain))
	return err
}

// unwrapWriter returns net/http's own response writer: only with that one
// [http.MaxBytesReader] can end the connection.
func unwrapWriter(w http.ResponseWriter) http.ResponseWriter {
	for {
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = outer.Unwrap()
	}
}
