// Package tasks runs work that goes on after the request it belongs to has been
// answered, and ends it when the process ends. Use [Group.Start] for work that has to be
// accounted for in any case, [Group.TryStart] for work that may be dropped, and [Sleep]
// to wait inside of either.
package tasks

import (
	"context"
	"sync"
	"time"
)

// A Group is a set of tasks that end together. The zero value is ready for use. Its
// methods are safe for concurrent use.
//
// Several owners may share a Group. A task that one of them has started goes on when
// another takes its place, until the Group ends.
type Group struct {
	mu      sync.Mutex         // guards the fields below, and running.Add against running.Wait
	ctx     context.Context    // the context of all tasks; nil until it is needed
	cancel  context.CancelFunc // ends ctx
	running sync.WaitGroup
}

// Start runs do in a goroutine, with a context that ends when End is called. After End it runs do immediately, in the
// caller's goroutine, with a context that has ended: so do can record what is left undone.
func (g *Group) Start(do func(ctx context.Context)) {
	g.mu.Lock()
	ctx := g.context()
	if ctx.Err() != nil {
		g.mu.Unlock()
		do(ctx)
		return
	}
	g.running.Go(func() { do(ctx) })
	g.mu.Unlock()
}

// TryStart runs do as Start does and returns true, if there is a free place in slots. It
// holds that place until do returns. When slots is full, and after End, it does nothing
// and returns false.
func (g *Group) TryStart(slots chan struct{}, do func(ctx context.Context)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	ctx := g.context()
	if ctx.Err() != nil {
		return false
	}
	select {
	case slots <- struct{}{}:
	default:
		return false
	}
	g.running.Go(func() {
		defer func() { <-slots }()
		do(ctx)
	})
	return true
}

// End ends the context of all tasks and waits until they have returned. A task that takes
// no notice of its context is waited for.
func (g *Group) End() {
	g.mu.Lock()
	g.context()
	g.cancel()
	g.mu.Unlock()
	g.running.Wait()
}

// context returns the context of all tasks. The caller holds g.mu.
func (g *Group) context() context.Context {
	if g.ctx == nil {
		g.ctx, g.cancel = context.WithCancel(context.Background())
	}
	return g.ctx
}

// Sleep waits for d and returns true. If ctx ends earlier, it returns false immediately.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Wait waits for a group and returns nil. If ctx ends earlier, it returns the error of ctx immediately.
func Wait(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
