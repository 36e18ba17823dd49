// Package answered has a [Writer], a response that knows its status.
package answered

import "net/http"

// A Writer keeps the status of the answer that is written through it.
type Writer struct {
	http.ResponseWriter

	// Status is 0 until the answer begins. One of 1xx comes before the answer and is not kept.
	Status int
	// Before is called when the answer begins, while its header can still be changed. Nil means that nothing is.
	Before func()
}

// WriteHeader implements [http.ResponseWriter].
func (w *Writer) WriteHeader(status int) {
	if w.Status == 0 && status >= http.StatusOK {
		if w.Status = status; w.Before != nil {
			w.Before()
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *Writer) Write(b []byte) (int, error) {
	if w.Status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets an [http.ResponseController] through.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
