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

// hold takes the scheme's lease and reads what the last holder left.
func (r *refresher) hold(ctx context.Context) bool {
	if r.keeper == nil {
		return true
	}
	lease, err := r.keeper.Acquire(ctx, standingKey(r.p.Scheme), r.node, r.leaseTime())
	if errors.Is(err, store.ErrHeld) {
		r.standing.Next = time.Now().Add(lookEvery)
		return false
	}
	if err != nil {
		r.complain(ctx, "lease not taken", err)
		r.standing.Next = time.Now().Add(lookEvery)
		return false
	}
	r.lease = lease
	now, err := r.read(ctx)
	if err != nil || !r.due(now) { // another node has asked meanwhile
		r.release(ctx)
		r.standing.Next = time.Now().Add(lookEvery)
		return false
	}
	r.standing = now
	return true
}

// renew keeps the lease alive until its result is called.
func (r *refresher) renew(ctx context.Context) (stop func()) {
	if r.keeper == nil {
		return func() {}
	}
	return stayOn(ctx, r.keeper, r.lease, r.leaseTime(), func(err error) { r.complain(ctx, "lease not renewed", err) })
}

func (r *refresher) release(ctx context.Context) {
	if r.keeper == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := r.keeper.Release(ctx, r.lease); err != nil {
		r.complain(ctx, "lease not released", err)
	}
}

// save keeps how things stand; false: it could not.
func (r *refresher) save(ctx context.Context) bool {
	if r.keeper == nil {
		return true
	}
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
