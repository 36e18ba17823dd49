package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	// usesInterval is how often the uses of keys are written to the store, each key's at most
	// once a minute.
	usesInterval = 10 * time.Second

	// usesLease is the name of the lease that the uses are written under.
	usesLease = "key uses"

	// usesTTL is how long that lease lasts, and the longest time that one writing may take.
	usesTTL = 5 * time.Second

	// usesLen is the length of what the store keeps about the use of one key: its hash, and the minute since 1970.
	usesLen = sha256.Size + 4
)

// A UseStore is where the uses of keys are kept. Each of its values has the keys whose hashes begin with the same byte.
// The values are apart from the rows of keys, because nodes read those again at each change.
type UseStore interface {
	store.Leases
	store.States
}

// usesKey is the name of the value that has the uses of keys with a hash.
func usesKey(hash []byte) string { return "keys/uses/" + hex.EncodeToString(hash[:1]) }

// A useLog keeps when keys were used last, until that is in the store.
type useLog struct {
	mu      sync.Mutex
	minutes map[[sha256.Size]byte]use
}

// A use is the minute in which a key was used last, and the last one that the store has.
type use struct{ used, written uint32 }

// note records that a key is used now.
func (l *useLog) note(hash [sha256.Size]byte) {
	minute := uint32(time.Now().Unix() / 60)
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.minutes[hash]; known.used != minute {
		known.used = minute
		l.minutes[hash] = known
	}
}

// takeUnwritten returns the uses that are not in the store, by the values that they belong to. It forgets keys that
// were not used in this minute, and whose last use is written.
func (l *useLog) takeUnwritten() map[string]map[[sha256.Size]byte]uint32 {
	minute := uint32(time.Now().Unix() / 60)
	unwritten := make(map[string]map[[sha256.Size]byte]uint32)
	l.mu.Lock()
	defer l.mu.Unlock()
	for hash, known := range l.minutes {
		key := usesKey(hash[:])
		switch {
		case known.used != known.written && unwritten[key] == nil:
			unwritten[key] = map[[sha256.Size]byte]uint32{hash: known.used}
		case known.used != known.written:
			unwritten[key][hash] = known.used
		case known.used != minute:
			delete(l.minutes, hash)
		}
	}
	return unwritten
}

// markWritten records that the store has uses.
func (l *useLog) markWritten(uses map[[sha256.Size]byte]uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for hash, minute := range uses {
		known := l.minutes[hash]
		known.written = minute
		l.minutes[hash] = known
	}
}

// RunUses writes to the store when keys were used last, until ctx ends. It is late by up to usesInterval, and what it
// has not written when ctx ends is lost.
func (c *KeyCache) RunUses(ctx context.Context, uses UseStore) {
	holder := rand.Text()
	tick := time.NewTicker(usesInterval)
	defer tick.Stop()
	isFailing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := c.writeUses(ctx, uses, holder)
		switch {
		case errors.Is(err, store.ErrHeld), errors.Is(err, store.ErrFenced), ctx.Err() != nil:
			// Another node is writing. The uses are written at the next time.
		case err != nil && !isFailing:
			isFailing = true
			c.log.WarnContext(ctx, "last uses of API keys cannot be written", "err", err)
		case err == nil && isFailing:
			isFailing = false
			c.log.InfoContext(ctx, "last uses of API keys can be written again")
		}
	}
}

// writeUses writes the uses that the store has not.
func (c *KeyCache) writeUses(ctx context.Context, uses UseStore, holder string) error {
	unwritten := c.uses.takeUnwritten()
	if len(unwritten) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, usesTTL)
	defer cancel()
	lease, err := uses.Acquire(ctx, usesLease, holder, usesTTL)
	if err != nil {
		return err
	}
	for key, minutes := range unwritten {
		if err := c.writeValue(ctx, uses, lease, key, minutes); err != nil {
			return errors.Join(err, uses.Release(ctx, lease))
		}
		c.uses.markWritten(minutes)
	}
	return uses.Release(ctx, lease)
}

// writeValue adds uses to one value, and removes those of keys that were revoked.
func (c *KeyCache) writeValue(
	ctx context.Context, uses UseStore, lease store.Lease, key string, minutes map[[sha256.Size]byte]uint32,
) error {
	all, err := readUses(ctx, uses, key)
	if err != nil {
		return err
	}
	for hash, minute := range minutes {
		all[hash] = max(all[hash], minute)
	}
	now := c.current.Load()
	var value []byte
	for hash, minute := range all {
		_, isGood := now.good[string(hash[:])]
		_, isRefused := now.refused[string(hash[:])]
		if isNew := minutes[hash] > 0; isGood || isRefused || isNew || !now.hasRead {
			value = binary.BigEndian.AppendUint32(append(value, hash[:]...), minute)
		}
	}
	return uses.PutState(ctx, key, value, lease)
}

// readUses returns the minutes in which keys were used last, of one value.
func readUses(ctx context.Context, uses store.States, key string) (map[[sha256.Size]byte]uint32, error) {
	value, err := uses.State(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("account: last uses of keys: %w", err)
	}
	all := make(map[[sha256.Size]byte]uint32, len(value)/usesLen)
	for entry := range slices.Chunk(value, usesLen) {
		if len(entry) == usesLen {
			all[[sha256.Size]byte(entry)] = binary.BigEndian.Uint32(entry[sha256.Size:])
		}
	}
	return all, nil
}

// LastUses returns when each of some keys was used last, to a minute, in their order. The time is zero for a key that
// was never used. An attacker who can write to the store can change it, for it is not sealed.
func LastUses(ctx context.Context, uses store.States, rows []store.Key) ([]time.Time, error) {
	values := make(map[string]map[[sha256.Size]byte]uint32)
	last := make([]time.Time, len(rows))
	for i, row := range rows {
		if len(row.Hash) != sha256.Size {
			continue
		}
		key := usesKey(row.Hash)
		if values[key] == nil {
			var err error
			if values[key], err = readUses(ctx, uses, key); err != nil {
				return nil, err
			}
		}
		if minute := values[key][[sha256.Size]byte(row.Hash)]; minute > 0 {
			last[i] = time.Unix(int64(minute)*60, 0).UTC()
		}
	}
	return last, nil
}
