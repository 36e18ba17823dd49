package webhook

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/state/record"
	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	refreshEvery = 500 * time.Millisecond // how often the store is asked whether endpoints have changed
	sweepEvery   = time.Minute
	keepEvents   = 30 * 24 * time.Hour

	claimMargin = 30 * time.Second // a claim lasts the time of an attempt and this much longer
)

// Run delivers events until ctx ends, and then waits for the attempts that are under way.
func (s *Service) Run(ctx context.Context) {
	d := &deliverer{Service: s}
	defer d.attempts.Wait()
	next := make(map[string]time.Time)
	isDue := func(what string, every time.Duration) bool {
		if now := time.Now(); !now.Before(next[what]) {
			next[what] = now.Add(every)
			return true
		}
		return false
	}
	for {
		if isDue("refresh", refreshEvery) {
			s.logStoreFailure(ctx, "webhook endpoints not read", s.Refresh(ctx))
		}
		if isDue("sweep", sweepEvery) {
			_, err := s.Store.SweepEvents(ctx, s.Now().Add(-keepEvents))
			s.logStoreFailure(ctx, "old events not removed", err)
		}
		if known, _ := s.known.count(); known+len(s.settings.Load().Operator) > 0 {
			d.startDue(ctx)
		}
		timer := time.NewTimer(s.settings.Load().Poll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.wake.channel():
			timer.Stop()
		case <-timer.C:
		}
	}
}

// logStoreFailure logs that the store did not do its part, as often as StoreFailures allows. Without an error, or after
// the end of ctx, it logs nothing.
func (s *Service) logStoreFailure(ctx context.Context, what string, err error, attrs ...any) {
	if err != nil && ctx.Err() == nil {
		record.LogFailure(ctx, s.Log, s.StoreFailures, s.Now(), what, err, attrs...)
	}
}

// Reseal seals every endpoint again, so that it outlives rotations of the key file. An endpoint that does not open
// stays as it is.
func (s *Service) Reseal(ctx context.Context) error {
	all, err := s.AllEndpoints(ctx)
	for _, e := range all {
		failed := s.Store.ChangeEndpoint(ctx, e.ID, e.sealed, e.seal(s.Sealer))
		if !errors.Is(failed, store.ErrNotFound) { // someone has changed it, which has sealed it again
			err = errors.Join(err, failed)
		}
	}
	return err
}

// ResealEndpoints takes all endpoints of a store that are sealed under a previous secret of a ring, and seals them
// under the current one. It returns how many are then sealed under the current secret, and how many are refused because
// no secret opens their seal.
func ResealEndpoints(ctx context.Context, st store.Events, ring store.ResealRing) (sealed, refused int, err error) {
	rows, err := st.Endpoints(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("webhook endpoints: seal again: %w", err)
	}
	for _, row := range rows {
		e, failed := openEndpoint(ring, row)
		if failed != nil {
			refused++
			continue
		}
		if ring.IsSealedByPrevious(row.Data) {
			err := st.ChangeEndpoint(ctx, e.ID, e.sealed, e.seal(ring))
			if errors.Is(err, store.ErrNotFound) { // a node has changed it, which seals it again, or removed it
				continue
			}
			if err != nil {
				return 0, 0, fmt.Errorf("webhook endpoints: seal again: %w", err)
			}
		}
		sealed++
	}
	return sealed, refused, nil
}

// A deliverer makes the attempts of one node.
type deliverer struct {
	*Service
	attempts sync.WaitGroup
	shares   shares
}

// startDue claims what is due and starts an attempt for each.
func (d *deliverer) startDue(ctx context.Context) {
	for {
		busy, free := d.shares.findBusy(&d.known)
		if free == 0 {
			return
		}
		now := d.Now()
		claimed, err := d.Store.ClaimDeliveries(ctx, now, now.Add(d.settings.Load().Timeout+claimMargin), busy, free)
		if err != nil {
			d.logStoreFailure(ctx, "deliveries not claimed", err)
			return
		}
		for _, one := range claimed {
			d.startAttempt(ctx, one)
		}
		if len(claimed) < free {
			return
		}
	}
}

// startAttempt starts an attempt. If its endpoint has no place left, for others to it were claimed
// with it, it is due again.
func (d *deliverer) startAttempt(ctx context.Context, one store.Delivery) {
	merchant := operatorMerchant
	if e := d.endpoint(one.Endpoint); e != nil {
		merchant = e.Merchant
	}
	if !d.shares.takePlace(one.Endpoint, merchant) {
		one.Due = d.Now()
		d.storeEnd(ctx, one)
		return
	}
	d.attempts.Go(func() {
		defer d.wake.signal()
		defer d.shares.freePlace(one.Endpoint)
		d.makeAttempt(ctx, one)
	})
}

// makeAttempt makes one attempt and notes how it ended. An attempt that ends because the process does is made again.
func (d *deliverer) makeAttempt(ctx context.Context, one store.Delivery) {
	e := d.endpoint(one.Endpoint)
	row, err := d.Store.Event(ctx, one.Event)
	if err != nil {
		d.logStoreFailure(ctx, "event not read", err, "event", one.Event)
		return
	}
	event, err := d.openEvent(&row)
	if err != nil {
		d.Log.Error("event not read", "event", one.Event, "err", err)
		d.endUnread(ctx, one, "the event is not as it was sealed, or the key file lacks its secret")
		return
	}
	if d.known.isUnread(one.Endpoint) {
		d.endUnread(ctx, one, "the endpoint is not as it was sealed, or the key file lacks its secret")
		return
	}
	if e == nil && isOperator(one.Endpoint) && d.Now().Sub(row.Created) < maxUnknown {
		return // it is claimed again, perhaps by a node that knows the endpoint
	}
	one.Due = time.Time{}
	if e == nil || e.Disabled {
		one.Error = "the endpoint is disabled"
		d.storeEnd(ctx, one)
		return
	}
	settings, now := d.settings.Load(), d.Now()
	status, err := settings.senderFor(e).Send(ctx,
		Delivery{URL: e.URL, EventID: one.Event, Body: event.Body, Secrets: e.secrets(now)})
	if err != nil && ctx.Err() != nil { // the process gives up, so the next one need not wait for the end of the claim
		one.Due = now
		d.storeEnd(ctx, one)
		return
	}
	one.Attempt, one.Last, one.Status, one.Error = one.Attempt+1, now, status, ""
	d.attempted(err == nil)
	d.shares.noteResult(one.Endpoint, err == nil)
	if err != nil {
		one.Error = err.Error()
		d.tryLater(&one)
	}
	d.storeEnd(ctx, one)
	if d.Attempted != nil && row.About != "" {
		d.Attempted(Attempt{row.About, row.Merchant, row.Type, one.Event, one.Endpoint, one.Attempt, now, status,
			one.Error, event.Body})
	}
	switch {
	case !isOperator(e.ID):
		d.noteHealth(ctx, e, err, now)
	case err != nil:
		d.Log.Warn("event not delivered to the operator", "event", one.Event, "attempt", one.Attempt, "err", err)
	}
}

// tryLater sets when a delivery that has failed is due again, unless that was the last attempt.
func (d *deliverer) tryLater(one *store.Delivery) {
	if retry := d.settings.Load().Retry; one.Attempt <= len(retry) {
		one.Due = d.Now().Add(jitter(retry[one.Attempt-1]))
	}
}

// endUnread notes an attempt whose event or endpoint does not open, and why. The attempt counts as failed, and is
// repeated: the secret that sealed the row may be put back into the key file.
func (d *deliverer) endUnread(ctx context.Context, one store.Delivery, why string) {
	one.Attempt, one.Last, one.Status, one.Due = one.Attempt+1, d.Now(), 0, time.Time{}
	one.Error = why
	d.attempted(false)
	d.tryLater(&one)
	d.storeEnd(ctx, one)
}

// jitter varies a time by a tenth, so that what failed together is not tried again together.
func jitter(d time.Duration) time.Duration {
	return d*9/10 + rand.N(max(d/5, 1))
}

// storeEnd notes how an attempt has ended. It is noted though the process is about to end.
func (d *deliverer) storeEnd(ctx context.Context, one store.Delivery) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := d.Store.EndDelivery(ctx, one); err != nil {
		record.LogFailure(ctx, d.Log, d.StoreFailures, d.Now(), "end of a delivery not stored", err, "event", one.Event,
			"endpoint", one.Endpoint)
	}
}

// noteHealth notes since when an endpoint has been failing, and disables it when that is too long or when
// it says that it is gone.
func (d *deliverer) noteHealth(ctx context.Context, e *Endpoint, failed error, now time.Time) {
	const gone = StatusError(410)
	isTooLong := !e.Failing.IsZero() && now.Sub(e.Failing) >= d.settings.Load().DisableAfter
	disable := failed != nil && (isTooLong || errors.Is(failed, gone))
	if !disable && (failed == nil) == e.Failing.IsZero() {
		return
	}
	if disable {
		d.tellDisabled(ctx, e, failed, now) // before the change, which a crash may follow
	}
	_, err := d.Change(ctx, e.Merchant, e.ID, func(e *Endpoint) error {
		switch {
		case failed == nil:
			e.Failing = time.Time{}
		case e.Failing.IsZero():
			e.Failing = now.UTC().Truncate(time.Second)
		}
		e.Disabled = e.Disabled || disable
		return nil
	})
	if err != nil && !errors.Is(err, ErrNoEndpoint) {
		d.logStoreFailure(ctx, "state of a webhook endpoint not stored", err, "endpoint", e.ID)
	}
	if disable {
		d.Log.Warn("webhook endpoint disabled", "endpoint", e.ID, "merchant", e.Merchant, "since", e.Failing, "err", failed)
	}
}
