package waittest

import (
	"bytes"
	"sync"
)

// A Log keeps what goroutines write, for a test that reads it meanwhile. It is safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
