package listen

import (
	"bytes"
	"io"
	"sync"
)

// ReadBody reads a body, whose announced length is -1 where it is not known. Up to free bytes need no permission; for a
// longer body it calls reserve once, which returns how many bytes the body may have. Memory for them is then allocated
// immediately, and so is that for a short body of a known length once it begins to come. After an error of reserve,
// which ReadBody returns, nothing more is read.
func ReadBody(body io.Reader, length, free int64, reserve func() (int64, error)) ([]byte, error) {
	begun, err := readShort(io.LimitReader(body, free+1), length, free)
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

// firstReadLen is how many bytes of a short body have to come in one piece for it to get the memory of its whole
// length. Clients that announce much and send little get little.
const firstReadLen = 512

var firstReads = sync.Pool{New: func() any { return new([firstReadLen]byte) }}

// readShort reads a body, or the beginning of a long one.
func readShort(body io.Reader, length, free int64) ([]byte, error) {
	if length < 0 || length > free {
		return io.ReadAll(body)
	}
	first := firstReads.Get().(*[firstReadLen]byte)
	n, err := body.Read(first[:])
	size := int64(n)
	if n == firstReadLen {
		size = length
	}
	whole := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	whole.Write(first[:n])
	clear(first[:n])
	firstReads.Put(first)
	if err == nil {
		_, err = whole.ReadFrom(body)
	}
	if err == io.EOF {
		err = nil
	}
	return whole.Bytes(), err
}
