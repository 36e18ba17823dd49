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
const defaultLeaseTime = 15 * time.Second

func (c *Client) leaseTime() time.Duration { return cmp.Or(c.LeaseTime, defaultLeaseTime) }

// renewLease renews a lease until stop is called or ctx ends; stop waits for the last
// renewal. Failures go to complain. A lease that is lost all the same does no harm: what
// is written under it is fenced.
func renewLease(ctx context.Context, k store.Leases, l store.Lease, ttl time.Duration, complain func(error)) (stop func()) {
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

// acquireLease takes the scheme's lease.
func (r *refresher) acquireLease(ctx context.Context) error {
	lease, err := r.keeper.Acquire(ctx, statusKey(r.peer.Scheme), r.node, r.leaseTime())
	if err == nil {
		r.lease = lease
	}
	return err
}

// acquireForPReq takes the scheme's lease for a PReq and reads what the last holder left. False:
// another node is asking or has asked, or the store cannot be reached; the next look
// comes soon.
func (r *refresher) acquireForPReq(ctx context.Context) bool {
	err := r.acquireLease(ctx)
	if err == nil {
		now, err := r.readStatus(ctx)
		if err == nil && r.isDue(now) {
			r.status = now
			return true
		}
		r.releaseLease(ctx)
	} else if !errors.Is(err, store.ErrHeld) {
		r.logStoreError(ctx, "lease not taken", err)
	}
	r.status.Next = time.Now().Add(pollInterval)
	return false
}

// keepLease keeps the lease alive until stop is called.
func (r *refresher) keepLease(ctx context.Context) (stop func()) {
	return renewLease(ctx, r.keeper, r.lease, r.leaseTime(), func(err error) { r.logStoreError(ctx, "lease not renewed", err) })
}

// releaseLease gives the lease back, even if ctx has ended.
func (r *refresher) releaseLease(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := r.keeper.Release(ctx, r.lease); err != nil {
		r.logStoreError(ctx, "lease not released", err)
	}
}

// saveStatus stores the standing; false: it could not.
func (r *refresher) saveStatus(ctx context.Context) bool {
	value, err := json.Marshal(r.status)
	if err == nil {
		err = r.keeper.PutState(ctx, statusKey(r.peer.Scheme), value, r.lease)
	}
	if err != nil {
		r.logStoreError(ctx, "standing not kept", err)
		r.status.Next = time.Now().Add(pollInterval)
		return false
	}
	return true
}

// newNodeID is a name for this process among the holders of leases.
func newNodeID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
