package ranges

import (
	"bytes"
	"errors"
	"io"

	"github.com/openthreeds/threeds/message"
)

// ErrTooLarge is a PRes, or a part of one, beyond the limits.
var ErrTooLarge = errors.New("card range data is too large")

// A window holds the part of a text that is being read, from the beginning of the text to
// its end.
type window struct {
	r       io.Reader
	buf     []byte // grows only for a value that is longer
	at, end int    // buf[at:end] is held and not read yet
	base    int64  // offset of buf[0] in the text
	limit   int64  // bytes of the whole text, at most
	value   int    // bytes of one value, at most
	err     error  // why no more can be read
}

const windowSize = 1 << 20

func newWindow(r io.Reader, o Options) *window {
	return &window{r: r, buf: make([]byte, min(o.window, o.Entry)), limit: o.Bytes, value: o.Entry}
}

// more reads until the window is full. It returns an error if not even one byte came.
func (w *window) more() error {
	if w.err != nil {
		return w.err
	}
	if w.at > 0 {
		w.base += int64(w.at)
		w.end = copy(w.buf, w.buf[w.at:w.end])
		w.at = 0
	} else if w.end == len(w.buf) {
		if len(w.buf) >= w.value {
			return ErrTooLarge
		}
		w.buf = append(w.buf, make([]byte, min(len(w.buf), w.value-len(w.buf)))...)
	}
	held := w.end
	for idle := 0; w.end < len(w.buf) && w.err == nil; {
		n, err := w.r.Read(w.buf[w.end:])
		w.end += n
		w.err = err
		if idle++; n > 0 {
			idle = 0
		} else if idle == 100 && err == nil {
			w.err = io.ErrNoProgress
		}
	}
	if w.base+int64(w.end) > w.limit {
		w.err = ErrTooLarge
		return w.err
	}
	if w.end == held {
		return w.err
	}
	return nil
}

// next returns the next byte that is not white space, without reading it.
func (w *window) next() (byte, error) {
	for {
		for ; w.at < w.end; w.at++ {
			if c := w.buf[w.at]; c > ' ' || !isSpace(c) {
				return c, nil
			}
		}
		if err := w.more(); err != nil {
			return 0, w.cut(err)
		}
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// readByte reads the next byte that is not white space, which must be want.
func (w *window) readByte(want byte) error {
	c, err := w.next()
	if err == nil && c != want {
		err = w.syntax("not well-formed JSON")
	}
	if err == nil {
		w.at++
	}
	return err
}

// raw reads the next value and returns its text, which is valid until the next call. The text begins and ends like a
// well-formed value. The caller checks whether it is well-formed.
func (w *window) raw() ([]byte, error) {
	length, depth := 0, 0
	for {
		var isComplete bool
		if length, depth, isComplete = scanValue(w.buf[w.at:w.end], length, depth); isComplete {
			return w.read(length), nil
		}
		if err := w.more(); err != nil {
			return nil, w.cut(err)
		}
	}
}

// scanValue goes on with a value that b begins with, from an offset where depth arrays and
// objects are open. If the value ends in b, it returns its length and true. Otherwise it
// returns where and how deep to go on with a longer b.
func scanValue(b []byte, from, depth int) (n, open int, isComplete bool) {
	for n = from; n < len(b); {
		size := 1
		switch b[n] {
		case '"':
			if size = quoted(b[n:]); size == 0 {
				return n, depth, false
			}
			if depth == 0 {
				return n + size, 0, true
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // of what is around the value
				return n, 0, true
			}
			if depth--; depth == 0 {
				return n + 1, 0, true
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return n, 0, true
			}
		}
		n += size
	}
	return n, depth, false
}

// read moves on by n bytes and returns them.
func (w *window) read(n int) []byte {
	w.at += n
	return w.buf[w.at-n : w.at]
}

// quoted returns the length of the string that b begins with; 0 if it does not end in b.
func quoted(b []byte) int {
	n := 1
	for {
		i := bytes.IndexByte(b[n:], '"')
		if i < 0 {
			return 0
		}
		n += i + 1
		slashes := 0
		for b[n-2-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return n
		}
	}
}

func (w *window) offset() int64 { return w.base + int64(w.at) }

func (w *window) syntax(reason string) error {
	return &message.SyntaxError{Offset: w.offset(), Reason: reason}
}

// cut returns err of more, as the fault of a text that has to go on.
func (w *window) cut(err error) error {
	if err == io.EOF {
		return &message.SyntaxError{Offset: w.base + int64(w.end), Reason: "the text ends too early"}
	}
	return err
}
