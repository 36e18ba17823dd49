package gate

import (
	"bytes"
	"io"
)

// ReadBody reads a body that may take free bytes of memory for itself, and asks for room
// when it turns out to be longer. Room returns how long the body may be, in bytes, for
// which memory is then taken at once; after an error of room nothing more is read.
func ReadBody(body io.Reader, free int64, room func() (int64, error)) ([]byte, error) {
	begun, err := io.ReadAll(io.LimitReader(body, free+1))
	if err != nil || int64(len(begun)) <= free {
		return begun, err
	}
	size, err := room()
	if err != nil {
		return nil, err
	}
	whole := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	whole.Write(begun)
	_, err = whole.ReadFrom(body)
	return whole.Bytes(), err
}
