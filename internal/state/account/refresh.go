package account

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	// refreshInterval is how often the store is asked whether keys have changed. A revoked
	// key stops within twice this.
	refreshInterval = 500 * time.Millisecond

	// maxAge is the age at which all rows are read again, even if the store reports no changes: there are ways to
	// change a database that it does not notice.
	maxAge = time.Minute

	// maxTimeout is how long one reading of all rows may take. It may take so long only
	// after shorter timeouts have expired: most connections that say nothing for half a
	// second are dead.
	maxTimeout = 8 * refreshInterval

	// maxReseals is how many rows are resealed in each interval. After a rotation of the key file all rows have to be,
	// and other writes must be served in between.
	maxReseals = 100
)

// Run reads the rows of all keys, immediately and then whenever they have changed. It asks twice a second, or as often
// as a slow store answers, until ctx ends. While the store cannot be read, the keys in the cache go on working. A store
// that cannot be written to, or only slowly, does not delay reading.
func (c *KeyCache) Run(ctx context.Context) {
	var resealing sync.WaitGroup
	defer resealing.Wait()
	resealing.Go(func() { c.runReseal(ctx) })
	tick := time.NewTicker(refreshInterval)
	defer tick.Stop()
	isFailing, timeout := false, refreshInterval
	for {
		start := time.Now()
		hasRead, err := c.refresh(ctx, timeout)
		if hasRead || err != nil { // how long it takes to read the mark alone says nothing
			timeout = nextTimeout(timeout, time.Since(start), err)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !isFailing:
			isFailing = true
			c.log.ErrorContext(ctx, "API keys cannot be read, those known go on working", "err", err)
		case err == nil && isFailing:
			isFailing = false
			c.log.InfoContext(ctx, "API keys can be read again")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// nextTimeout returns how long the next reading may take, given the timeout and the duration of the last one. A slow
// store still serves requests, so it must be given the time to say that a key was revoked.
func nextTimeout(timeout, took time.Duration, err error) time.Duration {
	switch {
	case err == nil:
		return min(max(refreshInterval, 2*took), maxTimeout)
	case took >= timeout:
		return min(2*timeout, maxTimeout)
	}
	return timeout
}

// refresh updates the cache from the store if the store's mark has changed, and in any case if the last reading is
// older than maxAge. It reports whether it has read all rows.
func (c *KeyCache) refresh(ctx context.Context, timeout time.Duration) (hasRead bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start, known := time.Now(), c.current.Load()
	mark := known.mark
	if start.Sub(known.readAt) >= maxAge {
		mark = ""
	}
	rows, now, err := c.store.KeysUnless(ctx, mark)
	if err != nil {
		return false, err
	}
	if mark != "" && now == mark {
		return false, nil
	}
	// A merchant that changes after the keys with their mark were read makes another mark, and is read again.
	merchants, err := c.store.Merchants(ctx)
	var disabled []store.Object
	if err == nil {
		disabled, err = c.store.Objects(ctx, store.DisabledObjects)
	}
	if err != nil {
		now = "" // so that both are read again
	}
	for {
		former := c.current.Load()
		merged := former
		if err == nil {
			merged = former.withMerchants(merchants, disabled)
		}
		next := merged.withRows(rows)
		next.mark, next.readAt = now, start
		if c.replace(former, next) {
			c.logRefusedMerchants(former, next)
			return true, err
		}
	}
}

// A resealQueue has the rows of a snapshot that are to be resealed, in random order: nodes that do this at the same
// time rarely work on the same row. Only runReseal takes rows out.
type resealQueue struct{ rows []cachedKey }

// runReseal reseals rows that are sealed under the previous secret, until ctx ends.
func (c *KeyCache) runReseal(ctx context.Context) {
	tick := time.NewTicker(refreshInterval)
	defer tick.Stop()
	isFailing := false
	for {
		if err := c.reseal(ctx); err != nil && !isFailing && ctx.Err() == nil {
			isFailing = true
			c.log.WarnContext(ctx,
				"API keys cannot be sealed under the current secret, do not drop the previous one", "err", err)
		} else if err == nil && isFailing {
			isFailing = false
			c.log.InfoContext(ctx, "API keys can be sealed under the current secret again")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// reseal reseals up to maxReseals rows. It seals a row as it was when its old seal was checked, so that a later change
// to the row does not get a good seal. If the row now has another seal, the store does not find it: the key was
// revoked, or another node was quicker. A row that cannot be written stays in the queue.
func (c *KeyCache) reseal(ctx context.Context) error {
	for range maxReseals {
		now := c.current.Load()
		if len(now.reseals.rows) == 0 {
			return c.resealStored(ctx, now)
		}
		err := c.resealRow(ctx, now.ring, now.reseals.rows[0])
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		now.reseals.rows = now.reseals.rows[1:]
	}
	return nil
}

// resealStored reseals the rows of merchants.
func (c *KeyCache) resealStored(ctx context.Context, now *snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, maxTimeout)
	defer cancel()
	rows := make([]store.Merchant, 0, len(now.stored))
	for _, known := range now.stored {
		rows = append(rows, known.row)
	}
	_, err := resealMerchants(ctx, c.store, now.ring, rows)
	return err
}

func (c *KeyCache) resealRow(ctx context.Context, ring Ring, key cachedKey) error {
	ctx, cancel := context.WithTimeout(ctx, maxTimeout)
	defer cancel()
	return c.store.ResealKey(ctx, key.row.Hash, key.row.Seal, ring.Seal(key.row.Name(), key.plain))
}
