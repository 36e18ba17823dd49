package directory

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

// briefly is how long a lease lasts when nobody renews it: so long does one who
// vanished keep the others from work.
const briefly = 15 * time.Second

func (c *Client) leaseTime() time.Duration { return cmp.Or(c.LeaseTime, briefly) }

// stayOn renews a lease until its result is called, or ctx ends. A lease that is
// lost all the same is no harm: what is written under it is fenced.
func stayOn(ctx context.Context, k store.Leases, l store.Lease, ttl time.Duration, complain func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(ttl / 3)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if _, err := k.Acquire(ctx, l.Name, l.Holder, ttl); err != nil {
					complain(err)
				}
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
