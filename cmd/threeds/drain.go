package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// toSee is how long it may take to see that nothing is in work any more, whatever time
// there was for that.
const toSee = 3 * time.Second

// drain turns unready, goes on for as long as others need to hear of it, stops
// accepting, and waits for what has been accepted. The console tells that to the
// end. When a listener has failed there is nothing to go on with.
func (n *node) drain(failed context.Context, g *generation) error {
	n.console.Stop()
	n.closing.Store(true)
	if n.door != nil {
		n.door.Leave()
	}
	lame := time.NewTimer(g.cfg.LameDuck)
	defer lame.Stop()
	select {
	case <-lame.C:
	case <-failed.Done():
	}
	g.v1.Hasten()
	for _, l := range n.taken {
		_ = l.Close()
	}
	limit := max(g.cfg.Shutdown, toSee)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	if g.cfg.LameDuck > 0 {
		n.settle(ctx, ticker.C)
	}
	n.part(ctx, ticker.C)
	var group errgroup.Group
	for _, s := range n.servers {
		group.Go(func() error { return s.Shutdown(ctx) })
	}
	err := errors.Join(group.Wait(), n.retired(ctx), g.engine.Drain(ctx))
	all := n.servers
	if n.health != nil {
		err = errors.Join(err, n.health.Shutdown(ctx))
		all = append(all, n.health)
	}
	if err != nil {
		for _, s := range all {
			_ = s.Close()
		}
		if ctx.Err() != nil { // each says only that
			return fmt.Errorf("what was in flight did not finish in %v", limit)
		}
		return fmt.Errorf("what was in flight did not finish: %w", err)
	}
	return nil
}

// calm is how many looks in a row, ten milliseconds apart, have to find nothing on
// connections that were kept, before they are taken for forgotten. They are counted,
// for time says nothing: a machine that stands still for seconds has silent clients,
// who go on with it. Clients use the connection that rested shortest, so those at the
// bottom come up with a burst alone, and the longer one waits the less.
const calm = 300

// settle waits until requests have ceased to come on the connections that are still
// open; it looks once a tick. Each answer is the last on its connection, so those
// that then rest have done so all the time. They are closed afterwards, and a
// request that is just being sent on one is lost: the client cannot know whether it
// was taken.
func (n *node) settle(ctx context.Context, ticks <-chan time.Time) {
	for before, looks := n.late.Load(), 0; n.conns.Load() > 0 && looks < calm; looks++ {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		if now := n.late.Load(); now != before {
			before, looks = now, -1
		}
	}
}

// part closes the connections that rest, until there are none.
func (n *node) part(ctx context.Context, ticks <-chan time.Time) {
	for n.kept.Part() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
	}
}
