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
	// patience is how long a Write waits for whoever reads the log.
	patience = time.Second

	// maxKept is how many bytes are kept while nobody reads it.
	maxKept = 1 << 20
)

// Outlet returns a writer that passes everything on to w. It waits until that is done,
// but for a second at most: whoever reads the log, at the other end of a pipe, a socket or
// a terminal, may stop reading, and the server must go on. Until w takes more, it keeps up
// to a megabyte, and counts the writes that are lost beyond that. Then it writes what was
// kept, and a line that says how many are missing.
func Outlet(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return w // a file takes everything
		}
	}
	return &outlet{to: w}
}

type outlet struct {
	to io.Writer

	mu   sync.Mutex
	busy bool   // a write to w is under way
	kept []byte // what has come meanwhile
	lost int    // how many writes had no room in kept
}

// Write implements [io.Writer]. The error is that of w, if it is known in time.
func (o *outlet) Write(b []byte) (int, error) {
	if o.keep(b) {
		return len(b), nil
	}
	done := make(chan error, 1)
	line := slices.Clone(b) // the caller may use b again
	go func() { done <- o.pass(line) }()
	tooLong := time.NewTimer(patience)
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
func (o *outlet) keep(b []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !o.busy:
		o.busy = true
		return false
	case o.lost > 0 || len(o.kept)+len(b) > maxKept: // once one is lost, all later ones are: no gaps
		o.lost++
	default:
		o.kept = append(o.kept, b...)
	}
	return true
}

// pass writes b, and then what was kept meanwhile.
func (o *outlet) pass(b []byte) error {
	_, err := o.to.Write(b)
	for {
		if b = o.next(); b == nil {
			return err
		}
		_, _ = o.to.Write(b) // nobody waits for the error
	}
}

// next takes what was kept, to be written; nil: there is nothing more to write.
func (o *outlet) next() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.kept
	if o.lost > 0 {
		var gap bytes.Buffer
		NewLogger(&gap, slog.LevelWarn).Warn("log lines lost, nobody took them", "lines", o.lost)
		b = append(b, gap.Bytes()...)
	}
	o.kept, o.lost = nil, 0
	o.busy = b != nil
	return b
}
