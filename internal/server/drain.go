package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// toSee is the least time for drain after the lame duck: with a shorter timeouts.shutdown
// there would be no time to see that nothing is in work.
const toSee = 3 * time.Second

// drain makes the node unready, serves on for the time of the lame duck, so that load
// balancers hear of it, stops accepting, and waits for what has been accepted. The
// console answers to the end. If a listener has failed, the lame duck is left out.
func (n *Server) drain(failed context.Context, g *runtime) error {
	n.console.Stop()
	n.closing.Store(true)
	lame := time.NewTimer(g.cfg.LameDuck)
	defer lame.Stop()
	select {
	case <-lame.C:
	case <-failed.Done():
	}
	g.v1.StopRetrying()
	_ = n.api.listener.Close()
	_ = n.results.listener.Close()
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
	servers := []*http.Server{n.api.server, n.results.server}
	for _, s := range servers {
		group.Go(func() error { return s.Shutdown(ctx) })
	}
	err := errors.Join(group.Wait(), n.awaitDrained(ctx), g.engine.Drain(ctx))
	if n.health != nil {
		err = errors.Join(err, n.health.Shutdown(ctx))
		servers = append(servers, n.health)
	}
	if err != nil {
		for _, s := range servers {
			_ = s.Close()
		}
		if ctx.Err() != nil { // the joined errors say no more than that
			return fmt.Errorf("what was in flight did not finish in %v", limit)
		}
		return fmt.Errorf("what was in flight did not finish: %w", err)
	}
	return nil
}

// calm is how many ticks in a row, of ten milliseconds, must bring no request on the
// open connections before their clients are taken to have forgotten them. Ticks are
// counted instead of time: if the whole machine stands still for seconds, its clients do
// too, and go on when it does. A longer wait gains little: clients take the connection
// that was used last, so the others are used in a burst only.
const calm = 300

// settle waits until no request comes any more on the connections that are still open;
// it looks once a tick. Each answer is the last on its connection, so those that are
// left have rested all the time. They are closed afterwards. A request that is being
// sent on one at that moment is lost, and the client cannot know whether it was
// accepted.
func (n *Server) settle(ctx context.Context, ticks <-chan time.Time) {
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

// part closes the connections that rest, once a tick, until none is open.
func (n *Server) part(ctx context.Context, ticks <-chan time.Time) {
	for n.kept.CloseIdle() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
	}
}
