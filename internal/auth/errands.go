package auth

import (
	"context"
	"sync"
)

// Errands are what is left to do for requests that have been answered. Engines that
// follow each other in one process have theirs in common: what one has begun goes on
// when another takes its place. The zero value is ready for use.
type Errands struct {
	mu   sync.Mutex         // guards the rest, and work.Add against Wait
	ctx  context.Context    //nolint:containedctx // of all of them; nil: there was none yet
	end  context.CancelFunc // of ctx
	work sync.WaitGroup
}

// begin runs do in a goroutine, with a context that ends with End. After End it runs do
// at once.
func (e *Errands) begin(do func(ctx context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ctx := e.life()
	if ctx.Err() != nil {
		do(ctx)
		return
	}
	e.work.Go(func() { do(ctx) })
}

// End breaks all of them off and returns when they have ended.
func (e *Errands) End() {
	e.mu.Lock()
	e.life()
	e.end()
	e.mu.Unlock()
	e.work.Wait()
}

// life is the context of all. e.mu is held.
func (e *Errands) life() context.Context {
	if e.ctx == nil {
		e.ctx, e.end = context.WithCancel(context.Background())
	}
	return e.ctx
}
