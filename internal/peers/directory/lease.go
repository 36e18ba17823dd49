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

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/state/store"
)

// defaultLeaseTime is how long a lease lasts that is not renewed. When a node dies, the others wait so long.
const defaultLeaseTime = 15 * time.Second

func (c *Client) leaseTime() time.Duration { return cmp.Or(c.LeaseTime, defaultLeaseTime) }

// renewLease renews a lease in the background until stop is called or ctx ends. Stop waits for the last renewal. Failed
// is called with each error. A lost lease does no harm: its fencing token makes later writes fail.
func renewLease(ctx context.Context, k store.Leases, l store.Lease, ttl time.Duration,
	failed func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for tasks.Sleep(ctx, ttl/3) {
			if _, err := k.Acquire(ctx, l.Name, l.Holder, ttl); err != nil {
				failed(err)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// acquireLease acquires the scheme's lease.
func (r *refresher) acquireLease(ctx context.Context) error {
	lease, err := r.keeper.Acquire(ctx, statusKey(r.peer.Scheme), r.node, r.leaseTime())
	if err == nil {
		r.lease = lease
	}
	return err
}

// acquireForPReq acquires the scheme's lease for a PReq and reads the status that the last holder stored. It returns
// false if no PReq may be sent: another node sends one or has sent it, or the store cannot be reached.
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

// keepLease renews the lease until stop is called.
func (r *refresher) keepLease(ctx context.Context) (stop func()) {
	return renewLease(ctx, r.keeper, r.lease,
		r.leaseTime(), func(err error) { r.logStoreError(ctx, "lease not renewed", err) })
}

// releaseLease releases the lease, even if ctx has ended.
func (r *refresher) releaseLease(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := r.keeper.Release(ctx, r.lease); err != nil {
		r.logStoreError(ctx, "lease not released", err)
	}
}

// saveStatus stores the status and reports whether that succeeded.
func (r *refresher) saveStatus(ctx context.Context) bool {
	value, err := json.Marshal(r.status)
	if err == nil {
		err = r.keeper.PutState(ctx, statusKey(r.peer.Scheme), value, r.lease)
	}
	if err != nil {
		r.logStoreError(ctx, "refresh status not stored", err)
		r.status.Next = time.Now().Add(pollInterval)
		return false
	}
	return true
}

// newNodeID returns a random name for this process as a holder of leases.
func newNodeID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
