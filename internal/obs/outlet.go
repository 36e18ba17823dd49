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
	// patience is how long a line waits for whoever takes the log.
	patience = time.Second

	// most is how much is kept for one who does not take it.
	most = 1 << 20
)

// Outlet returns a writer that passes everything on to w and waits until that is done,
// but not for ever: whoever takes the log, at the other end of a pipe, a socket or a
// terminal, may stand still, and that is no reason for a server to do so. From then on
// it keeps up to a megabyte, and counts the writes that are lost; when w goes on, so
// does all that was kept, and a line that says how much is missing.
func Outlet(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return w // nobody takes it
		}
	}
	return &outlet{to: w}
}

type outlet struct {
	to io.Writer

	mu   sync.Mutex
	busy bool   // something is on its way to w
	kept []byte // what has come meanwhile
	lost int    // and had no room
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

// keep keeps b for later if something is on its way. If not, b is.
func (o *outlet) keep(b []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !o.busy:
		o.busy = true
		return false
	case o.lost > 0 || len(o.kept)+len(b) > most: // what is lost is the end
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
		_, _ = o.to.Write(b) // nobody waits for it
	}
}

// next is what was kept; nil: nothing, and nothing is on its way any more.
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
