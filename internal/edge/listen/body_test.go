package listen

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestReadBody: a body reserves memory when it is longer than its free part, and not earlier. Without memory it is not
// read any further.
func TestReadBody(t *testing.T) {
	const free = 1000
	full := errors.New("full")
	for size, want := range map[int]struct {
		asks bool
		read int // when there is no room
	}{
		0: {false, 0}, free - 1: {false, free - 1}, free: {false, free}, free + 1: {true, free + 1}, 10 * free: {true, free + 1},
	} {
		text := strings.Repeat("x", size)
		for _, none := range []error{nil, full} {
			asked := false
			body := strings.NewReader(text)
			got, err := ReadBody(body, free, func() (int64, error) { asked = true; return int64(size), none })
			switch {
			case asked != want.asks:
				t.Errorf("%d bytes: asked for room: %t", size, asked)
			case asked && none != nil:
				if !errors.Is(err, full) || got != nil || size-body.Len() != want.read {
					t.Errorf("%d bytes without room: %v, %d returned, %d read, want %d", size, err, len(got), size-body.Len(), want.read)
				}
			case err != nil || string(got) != text:
				t.Errorf("%d bytes: %v, %d read", size, err, len(got))
			case asked && cap(got) != size+bytes.MinRead:
				t.Errorf("%d bytes take %d", size, cap(got))
			}
		}
		broken := io.MultiReader(strings.NewReader(text), iotest.ErrReader(full))
		if _, err := ReadBody(broken, free, func() (int64, error) { return int64(size), nil }); !errors.Is(err, full) {
			t.Errorf("%d bytes and a failure: %v", size, err)
		}
	}
}
