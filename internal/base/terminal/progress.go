package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A Progress shows how much of a file has been read: as a bar on a terminal, elsewhere as a
// line for every tenth.
type Progress struct {
	w          io.Writer
	name       string
	size       int64 // 0 means unknown
	isTerminal bool
	start      time.Time
	shown      time.Time // when the bar was last drawn
	done       int64
	lastTenth  int64
}

// NewProgress returns the progress of a file with a name, which is read from in and shown at w.
func NewProgress(w io.Writer, name string, in io.Reader) *Progress {
	p := &Progress{w: w, name: name, start: time.Now()}
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			p.size = info.Size()
		}
	}
	if t, ok := w.(Writer); ok {
		p.w = t.To // the bar moves the cursor
	}
	p.isTerminal = isTerminal(p.w)
	return p
}

// Write counts what was read.
func (p *Progress) Write(b []byte) (int, error) {
	p.done += int64(len(b))
	switch {
	case p.isTerminal:
		if now := time.Now(); now.Sub(p.shown) > 100*time.Millisecond {
			p.shown = now
			p.draw()
		}
	case p.size > 0:
		if tenth := p.percent() / 10; tenth > p.lastTenth {
			p.lastTenth = tenth
			fmt.Fprintf(p.w, "%s: %d %%, %.1f MB/s\n", p.name, tenth*10, p.rate())
		}
	}
	return len(b), nil
}

const barWidth = 30

func (p *Progress) draw() {
	if p.size == 0 {
		fmt.Fprintf(p.w, "\r%s  %.1f MB  %.1f MB/s ", p.name, float64(p.done)/1e6, p.rate())
		return
	}
	full := int(p.percent() * barWidth / 100)
	fmt.Fprintf(p.w, "\r%s  [%s%s] %3d %%  %.1f MB/s ", p.name, strings.Repeat("#", full),
		strings.Repeat(".", barWidth-full), p.percent(), p.rate())
}

func (p *Progress) percent() int64 {
	if p.size == 0 {
		return 0
	}
	return min(p.done*100/p.size, 100)
}

func (p *Progress) rate() float64 {
	return float64(p.done) / 1e6 / max(time.Since(p.start), time.Millisecond).Seconds()
}

// Reset starts again. Lines that were written are not written a second time.
func (p *Progress) Reset() { p.done, p.start = 0, time.Now() }

// End moves on from the line of the bar.
func (p *Progress) End() {
	if p.isTerminal {
		p.draw()
		fmt.Fprintln(p.w)
	}
}
