package obs

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// maxWriteTime is how long a Write waits for the reader of the log.
	maxWriteTime = time.Second

	// maxKept is how many bytes are kept while the log's reader does not read.
	maxKept = 1 << 20
)

// NonBlocking returns a writer that passes everything on to w. A Write waits until that is
// done, but at most a second: the reader at the other end of a pipe, a socket or a terminal
// may stop reading, and the server must go on. Until w accepts more, up to a megabyte is
// kept, and the writes that are lost beyond that are counted. Then what was kept is written,
// and a line that says how many writes are missing.
func NonBlocking(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return w // a file takes everything
		}
	}
	return &nonBlockingWriter{to: w}
}

// A nonBlockingWriter is what NonBlocking returns.
type nonBlockingWriter struct {
	to io.Writer

	mu   sync.Mutex
	busy bool   // a write to w is under way
	kept []byte // what has come meanwhile
	lost int    // how many writes had no room in kept
}

// Write implements [io.Writer]. The error is that of w, if it is known in time.
func (w *nonBlockingWriter) Write(b []byte) (int, error) {
	if w.keep(b) {
		return len(b), nil
	}
	done := make(chan error, 1)
	line := slices.Clone(b) // the caller may use b again
	go func() { done <- w.pass(line) }()
	tooLong := time.NewTimer(maxWriteTime)
	defer tooLong.Stop()
	select {
	case err := <-done:
		return len(b), err
	case <-tooLong.C:
		return len(b), nil
	}
}

// keep keeps b for later if a write is under way. If none is, it returns false, and the
// caller has to write b.
func (w *nonBlockingWriter) keep(b []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.busy:
		w.busy = true
		return false
	case w.lost > 0 || len(w.kept)+len(b) > maxKept: // once one is lost, all later ones are: no gaps
		w.lost++
	default:
		w.kept = append(w.kept, b...)
	}
	return true
}

// pass writes b, and then what was kept meanwhile.
func (w *nonBlockingWriter) pass(b []byte) error {
	_, err := w.to.Write(b)
	for {
		if b = w.next(); b == nil {
			return err
		}
		_, _ = w.to.Write(b) // the caller has gone on and cannot get the error
	}
}

// next returns what was kept, to be written. Nil means that there is nothing more to write.
func (w *nonBlockingWriter) next() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.kept
	if w.lost > 0 {
		var gap bytes.Buffer
		NewLogger(&gap, slog.LevelWarn).Warn("log lines lost, they were not read in time", "lines", w.lost)
		b = append(b, gap.Bytes()...)
	}
	w.kept, w.lost = nil, 0
	w.busy = b != nil
	return b
}
