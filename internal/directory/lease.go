package directory

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

// briefly is how long a lease lasts that is not renewed: a process that vanished keeps
// the others from work for so long.
const briefly = 15 * time.Second

func (c *Client) leaseTime() time.Duration { return cmp.Or(c.LeaseTime, briefly) }

// stayOn renews a lease until stop is called or ctx ends; stop waits for the last
// renewal. Failures go to complain. A lease that is lost all the same does no harm: what
// is written under it is fenced.
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

// acquire takes the scheme's lease.
func (r *refresher) acquire(ctx context.Context) error {
	lease, err := r.keeper.Acquire(ctx, standingKey(r.p.Scheme), r.node, r.leaseTime())
	if err == nil {
		r.lease = lease
	}
	return err
}

// hold takes the scheme's lease for a PReq and reads what the last holder left. False:
// another node is asking or has asked, or the store cannot be reached; the next look
// comes soon.
func (r *refresher) hold(ctx context.Context) bool {
	err := r.acquire(ctx)
	if err == nil {
		now, err := r.read(ctx)
		if err == nil && r.due(now) {
			r.standing = now
			return true
		}
		r.release(ctx)
	} else if !errors.Is(err, store.ErrHeld) {
		r.complain(ctx, "lease not taken", err)
	}
	r.standing.Next = time.Now().Add(lookEvery)
	return false
}

// renew keeps the lease alive until stop is called.
func (r *refresher) renew(ctx context.Context) (stop func()) {
	return stayOn(ctx, r.keeper, r.lease, r.leaseTime(), func(err error) { r.complain(ctx, "lease not renewed", err) })
}

// release gives the lease back, even if ctx has ended.
func (r *refresher) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := r.keeper.Release(ctx, r.lease); err != nil {
		r.complain(ctx, "lease not released", err)
	}
}

// save stores the standing; false: it could not.
func (r *refresher) save(ctx context.Context) bool {
	value, err := json.Marshal(r.standing)
	if err == nil {
		err = r.keeper.PutState(ctx, standingKey(r.p.Scheme), value, r.lease)
	}
	if err != nil {
		r.complain(ctx, "standing not kept", err)
		r.standing.Next = time.Now().Add(lookEvery)
		return false
	}
	return true
}

// newNode is a name for this process among the holders of leases.
func newNode() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
