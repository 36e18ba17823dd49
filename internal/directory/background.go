package directory

import (
	"sync"
	"sync/atomic"
)

// A background runs work that nobody waits for, until it is ended.
type background struct {
	mu     sync.Mutex // guards closed, and work.Add against Wait
	closed bool
	work   sync.WaitGroup

	hasty atomic.Bool // the process is about to end, see V1Client.Hasten
}

// start runs f in a goroutine and returns true, or returns false when slots is full or
// the background has ended.
func (b *background) start(slots chan struct{}, f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	select {
	case slots <- struct{}{}:
	default:
		return false
	}
	b.work.Go(func() {
		defer func() { <-slots }()
		f()
	})
	return true
}

// end starts nothing more and waits for what was started.
func (b *background) end() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.work.Wait()
}
