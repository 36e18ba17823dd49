package ranges

import (
	"bytes"
	"errors"
	"io"

	"github.com/openthreeds/threeds/message"
)

// ErrTooLarge is a PRes, or a part of one, beyond the limits.
var ErrTooLarge = errors.New("card range data is too large")

// A window is the part of a text that is held while it is read from beginning
// to end.
type window struct {
	r       io.Reader
	buf     []byte // its length is what is held at most, but for a value that takes more
	at, end int    // what is held and not yet read
	base    int64  // bytes before buf[0]
	limit   int64  // of the whole text
	value   int    // of one value
	err     error  // why there is no more
}

const windowSize = 1 << 20

func newWindow(r io.Reader, o Options) *window {
	return &window{r: r, buf: make([]byte, min(o.window, o.Entry)), limit: o.Bytes, value: o.Entry}
}

// more reads until the window is full, so that there is at least one byte more.
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

// next is the next byte that is not white space. It is not read yet.
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

// take reads a byte that is next.
func (w *window) take(want byte) error {
	c, err := w.next()
	if err == nil && c != want {
		err = w.syntax("not well-formed JSON")
	}
	if err == nil {
		w.at++
	}
	return err
}

// raw reads the value that is next and returns its text, which holds until the
// next call. The text begins and ends where a well-formed value would; whether
// it is one is for others to say.
func (w *window) raw() ([]byte, error) {
	n, depth := 0, 0
	for {
		b := w.buf[w.at:w.end]
	held:
		for n < len(b) {
			switch b[n] {
			case '"':
				size := quoted(b[n:])
				if size == 0 {
					break held
				}
				n += size
				if depth == 0 {
					return w.read(n), nil
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth <= 0 {
					if depth == 0 {
						n++
					}
					return w.read(n), nil
				}
			case ',', ' ', '\n', '\r', '\t':
				if depth == 0 {
					return w.read(n), nil
				}
			}
			n++
		}
		if err := w.more(); err != nil {
			return nil, w.cut(err)
		}
	}
}

func (w *window) read(n int) []byte {
	w.at += n
	return w.buf[w.at-n : w.at]
}

// quoted is the length of the string that b begins with, 0 when it does not end
// in b.
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

// cut is err where a text has to go on.
func (w *window) cut(err error) error {
	if err == io.EOF {
		return &message.SyntaxError{Offset: w.base + int64(w.end), Reason: "the text ends too early"}
	}
	return err
}
