package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// minShutdown is the least time for drain after the lame duck: with a shorter timeouts.shutdown
// there would be no time to see that nothing is in work.
const minShutdown = 3 * time.Second

// drain makes the server unready, goes on for the time of the lame duck so that load
// balancers notice, stops accepting, and waits for the requests that were accepted. The
// console answers to the end. If a listener has failed, there is no lame duck.
func (s *Server) drain(failed context.Context, rt *runtime) error {
	s.console.Stop()
	s.isClosing.Store(true)
	if s.follower != nil {
		s.follower.TellSoon()
	}
	lame := time.NewTimer(rt.cfg.LameDuck)
	defer lame.Stop()
	select {
	case <-lame.C:
	case <-failed.Done():
	}
	rt.v1.StopRetrying()
	s.endWaits()
	_ = s.api.listener.Close()
	_ = s.results.listener.Close()
	if s.browser != nil {
		_ = s.browser.listener.Close()
	}
	limit := max(rt.cfg.Shutdown, minShutdown)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	if rt.cfg.LameDuck > 0 {
		s.awaitQuiet(ctx, ticker.C)
	}
	s.closeIdleConnections(ctx, ticker.C)
	var group errgroup.Group
	servers := []*http.Server{s.api.server, s.results.server}
	if s.browser != nil {
		servers = append(servers, s.browser.server)
	}
	for _, srv := range servers {
		group.Go(func() error { return srv.Shutdown(ctx) })
	}
	err := errors.Join(group.Wait(), s.awaitDrained(ctx), rt.engine.Drain(ctx))
	for _, srv := range s.consoleServers {
		err = errors.Join(err, srv.Shutdown(ctx))
		servers = append(servers, srv)
	}
	if err != nil {
		for _, srv := range servers {
			_ = srv.Close()
		}
		if ctx.Err() != nil { // the joined errors say no more than that
			return fmt.Errorf("what was in flight did not finish in %v", limit)
		}
		return fmt.Errorf("what was in flight did not finish: %w", err)
	}
	return nil
}

// quietTicks is how many ticks in a row, of ten milliseconds, must bring no request on the
// open connections before their clients are taken to have forgotten them. Ticks are
// counted instead of time: if the whole machine stands still for seconds, its clients do
// too, and go on when it does. A longer wait gains little: clients take the connection
// that was used last, so the others are used in a burst only.
const quietTicks = 300

// awaitQuiet waits until no request comes any more on the connections that are still open;
// it looks once a tick. Each answer is the last on its connection, so those that are
// left have been idle all the time. They are closed afterwards. A request that is being
// sent on one at that moment is lost, and the client cannot know whether it was
// accepted.
func (s *Server) awaitQuiet(ctx context.Context, ticks <-chan time.Time) {
	for before, looks := s.lateRequests.Load(), 0; s.connCount.Load() > 0 && looks < quietTicks; looks++ {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		if now := s.lateRequests.Load(); now != before {
			before, looks = now, -1
		}
	}
}

// closeIdleConnections closes the idle connections, once a tick, until the requests in work are answered and no
// connection is open.
func (s *Server) closeIdleConnections(ctx context.Context, ticks <-chan time.Time) {
	for s.keepAlive.CloseIdle() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
	}
}
