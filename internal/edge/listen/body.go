package listen

import (
	"bytes"
	"io"
)

// ReadBody reads a body. Up to free bytes need no permission; for a longer body it calls reserve once, which returns
// how many bytes the body may have. Memory for them is then allocated immediately. After an error of reserve, which
// ReadBody returns, nothing more is read.
func ReadBody(body io.Reader, free int64, reserve func() (int64, error)) ([]byte, error) {
	begun, err := io.ReadAll(io.LimitReader(body, free+1))
	if err != nil || int64(len(begun)) <= free {
		return begun, err
	}
	size, err := reserve()
	if err != nil {
		return nil, err
	}
	whole := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	whole.Write(begun)
	_, err = whole.ReadFrom(body)
	return whole.Bytes(), err
}
