package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// A terminalWriter writes text without characters that a terminal would obey, or that turn the direction of text.
// All that a command prints passes through it, for texts of directory servers, issuers and merchants are in it.
type terminalWriter struct{ to io.Writer }

// Write writes text as [escapeControls] has it.
func (w terminalWriter) Write(text []byte) (int, error) {
	if _, err := w.to.Write(escapeControls(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// escapeControls returns text with each character that cannot be seen as \uXXXX, line ends and tabs excepted. Of JSON
// the meaning stays, for such characters are in strings alone. It returns text itself if there is nothing to escape.
func escapeControls(text []byte) []byte {
	isHarmless := func(r rune) bool { return r == '\n' || r == '\t' || r != utf8.RuneError && unicode.IsGraphic(r) }
	plain := 0 // most texts, and nearly all lines of the log, are plain ASCII
	for plain < len(text) && (' ' <= text[plain] && text[plain] <= '~' || text[plain] == '\n') {
		plain++
	}
	i := bytes.IndexFunc(text[plain:], func(r rune) bool { return !isHarmless(r) })
	if i < 0 {
		return text
	}
	i += plain
	out := bytes.Clone(text[:i])
	for _, r := range string(text[i:]) {
		if isHarmless(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// exactWriter returns what is behind a terminalWriter, for files in which each byte counts. A terminal is no such file.
func exactWriter(w io.Writer) io.Writer {
	if t, ok := w.(terminalWriter); ok && !isTerminal(t.to) {
		return t.to
	}
	return w
}

// isTerminal reports whether a terminal, or another device for characters, is behind w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// A progress shows how much of a file has been read: as a bar on a terminal, elsewhere as a
// line for every tenth.
type progress struct {
	w          io.Writer
	name       string
	size       int64 // 0 means unknown
	isTerminal bool
	start      time.Time
	shown      time.Time // when the bar was last drawn
	done       int64
	lastTenth  int64
}

func newProgress(w io.Writer, name string, in io.Reader) *progress {
	p := &progress{w: w, name: name, start: time.Now()}
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			p.size = info.Size()
		}
	}
	if t, ok := w.(terminalWriter); ok {
		p.w = t.to // the bar moves the cursor
	}
	p.isTerminal = isTerminal(p.w)
	return p
}

// Write counts what was read.
func (p *progress) Write(b []byte) (int, error) {
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

func (p *progress) draw() {
	if p.size == 0 {
		fmt.Fprintf(p.w, "\r%s  %.1f MB  %.1f MB/s ", p.name, float64(p.done)/1e6, p.rate())
		return
	}
	full := int(p.percent() * barWidth / 100)
	fmt.Fprintf(p.w, "\r%s  [%s%s] %3d %%  %.1f MB/s ", p.name, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), p.percent(), p.rate())
}

func (p *progress) percent() int64 {
	if p.size == 0 {
		return 0
	}
	return min(p.done*100/p.size, 100)
}

func (p *progress) rate() float64 {
	return float64(p.done) / 1e6 / max(time.Since(p.start), time.Millisecond).Seconds()
}

// reset starts again. Lines that were written are not written a second time.
func (p *progress) reset() { p.done, p.start = 0, time.Now() }

// end moves on from the line of the bar.
func (p *progress) end() {
	if p.isTerminal {
		p.draw()
		fmt.Fprintln(p.w)
	}
}
