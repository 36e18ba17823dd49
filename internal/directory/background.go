package directory

import (
	"sync"
	"sync/atomic"
)

// A background is what goes on while nobody waits for it, until it is ended.
type background struct {
	mu     sync.Mutex // guards closed, and work.Add against Wait
	closed bool
	work   sync.WaitGroup

	hasty atomic.Bool // the process is about to end
}

// start does f, if there is a free slot and the background has not ended, and
// says whether it does.
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
