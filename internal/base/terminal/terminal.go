// Package terminal prints what commands say. A [Writer] escapes what a terminal would obey, [Exact] returns what is
// behind one for files in which each byte counts, and a [Progress] shows how much of a file has been read.
//
// [NewTable], [WriteList] and [WriteJSON] print values, [OneLine], [Count], [Span] and [Bytes] words.
package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// A Writer writes text without characters that a terminal would obey, or that turn the direction of text.
// All that a command prints passes through it, for texts of directory servers, issuers and merchants are in it.
type Writer struct{ To io.Writer }

// Write writes text as [escapeControls] has it.
func (w Writer) Write(text []byte) (int, error) {
	if _, err := w.To.Write(escapeControls(text)); err != nil {
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

// Exact returns what is behind a [Writer], for files in which each byte counts. A terminal is no such file.
func Exact(w io.Writer) io.Writer {
	if t, ok := w.(Writer); ok && !isTerminal(t.To) {
		return t.To
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
