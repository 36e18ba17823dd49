package listen

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestReadBodyOfKnownLength: a short body whose length was announced is read into memory of that length, unless the
// client sends it slowly. A body that ends early or late is what has come, and one that breaks is an error.
func TestReadBodyOfKnownLength(t *testing.T) {
	const free = 16 << 10
	none := func() (int64, error) { t.Error("a short body asks for room"); return 0, nil }
	for _, tt := range []struct {
		what         string
		size, length int
		slowly       bool
		want         int // the memory
	}{
		{"an AReq", 2400, 2400, false, 2400 + bytes.MinRead},
		{"a short request", 100, 100, false, 100 + bytes.MinRead},
		{"nothing", 0, 0, false, bytes.MinRead},
		{"less than announced", 100, free, false, 100 + bytes.MinRead},
		{"a slow client", 1, free, true, 1 + bytes.MinRead},
	} {
		text := strings.Repeat("x", tt.size)
		var body io.Reader = strings.NewReader(text)
		if tt.slowly {
			body = iotest.OneByteReader(body)
		}
		got, err := ReadBody(body, int64(tt.length), free, none)
		if err != nil || string(got) != text || cap(got) != tt.want {
			t.Errorf("%s: %v, %d bytes in memory for %d, want %d bytes in memory for %d", tt.what, err, len(got), cap(got), tt.size, tt.want)
		}
	}
	for _, body := range []io.Reader{strings.NewReader(strings.Repeat("x", 3000)), iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 3000)))} {
		if got, err := ReadBody(body, 1000, free, none); err != nil || len(got) != 3000 {
			t.Errorf("a body that is longer than announced: %v, %d bytes", err, len(got))
		}
	}
	for _, sent := range []string{"", "x", strings.Repeat("x", 2000)} {
		cut := io.MultiReader(strings.NewReader(sent), iotest.ErrReader(io.ErrUnexpectedEOF))
		if _, err := ReadBody(cut, 2400, free, none); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a connection that breaks after %d bytes: %v", len(sent), err)
		}
	}
}

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
			got, err := ReadBody(body, -1, free, func() (int64, error) { asked = true; return int64(size), none })
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
		if _, err := ReadBody(broken, int64(size), free, func() (int64, error) { return int64(size), nil }); !errors.Is(err, full) {
			t.Errorf("%d bytes and a failure: %v", size, err)
		}
	}
}
