package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// scouting marks the context of a connection that a scout opens.
type scouting struct{}

// askTime is how long a scout waits for the answers of hosts.
const askTime = time.Second

// A scout connects to the other hosts of a URL, to see whether one of them has become the
// primary, with a newer timeline. As long as the previous primary still answers reads, no failure would show that.
type scout struct {
	failover *failover
	config   *pgx.ConnConfig
	hosts    map[host]*pgconn.FallbackConfig

	mu    sync.Mutex // is held while the hosts are asked
	began time.Time  // when they were last asked
}

func newScout(g *failover, c *pgx.ConnConfig) *scout {
	hosts := map[host]*pgconn.FallbackConfig{{c.Host, c.Port}: {Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}
	for _, f := range c.Fallbacks {
		if h := (host{f.Host, f.Port}); hosts[h] == nil { // the first form of several is the safest
			hosts[h] = f
		}
	}
	return &scout{failover: g, config: c, hosts: hosts}
}

// watch asks the other hosts now and then, until ctx ends.
func (s *scout) watch(ctx context.Context, every time.Duration) {
	if len(s.hosts) == 1 {
		return
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.askHosts(ctx)
		}
	}
}

// askHosts connects to each host but the one in use, and returns when all have answered or
// askTime is over. Callers that come while the hosts are being asked share the next round,
// for a round that began before a call could have missed a promotion.
func (s *scout) askHosts(ctx context.Context) {
	if len(s.hosts) == 1 {
		return
	}
	called := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began.After(called) {
		return
	}
	s.began = time.Now()
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, scouting{}, true), askTime)
	defer cancel()
	s.failover.mu.Lock()
	best := s.failover.best
	s.failover.mu.Unlock()
	var asked sync.WaitGroup
	for h, f := range s.hosts {
		if h == best {
			continue
		}
		one := s.config.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks = f.Host, f.Port, f.TLSConfig, nil
		asked.Go(func() {
			if conn, err := pgx.ConnectConfig(ctx, one); err == nil {
				_ = conn.Close(ctx)
			}
		})
	}
	asked.Wait()
}
