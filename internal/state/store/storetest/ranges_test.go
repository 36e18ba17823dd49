package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// brokenRanges are the replaced methods of [store.Leases], [store.Snapshots] and
// [store.States].
type brokenRanges struct {
	acquire   func(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error)
	release   func(context.Context, store.Lease) error
	put       func(context.Context, store.Snapshot, store.Lease, io.Reader, int) error
	snapshots func(context.Context, string) ([]store.Snapshot, error)
	open      func(context.Context, string, int64) (io.ReadCloser, error)
	putState  func(context.Context, string, []byte, store.Lease) error
	state     func(context.Context, string) ([]byte, error)
	close     func() error
}

func (b *broken) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	if b.acquire != nil {
		return b.acquire(ctx, name, holder, ttl)
	}
	return b.Memory.Acquire(ctx, name, holder, ttl)
}

func (b *broken) Release(ctx context.Context, l store.Lease) error {
	if b.release != nil {
		return b.release(ctx, l)
	}
	return b.Memory.Release(ctx, l)
}

func (b *broken) PutSnapshot(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
	if b.put != nil {
		return b.put(ctx, s, l, content, keep)
	}
	return b.Memory.PutSnapshot(ctx, s, l, content, keep)
}

func (b *broken) Snapshots(ctx context.Context, scheme string) ([]store.Snapshot, error) {
	if b.snapshots != nil {
		return b.snapshots(ctx, scheme)
	}
	return b.Memory.Snapshots(ctx, scheme)
}

func (b *broken) OpenSnapshot(ctx context.Context, scheme string, generation int64) (io.ReadCloser, error) {
	if b.open != nil {
		return b.open(ctx, scheme, generation)
	}
	return b.Memory.OpenSnapshot(ctx, scheme, generation)
}

func (b *broken) PutState(ctx context.Context, key string, value []byte, l store.Lease) error {
	if b.putState != nil {
		return b.putState(ctx, key, value, l)
	}
	return b.Memory.PutState(ctx, key, value, l)
}

func (b *broken) State(ctx context.Context, key string) ([]byte, error) {
	if b.state != nil {
		return b.state(ctx, key)
	}
	return b.Memory.State(ctx, key)
}

func (b *broken) Close() error {
	if b.close != nil {
		return b.close()
	}
	return b.Memory.Close()
}

// locked does something behind the back of the contract.
func (s *Memory) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// changeLease changes what is kept of a lease.
func (s *Memory) changeLease(name string, f func(*holding)) {
	s.locked(func() {
		if l, ok := s.leases[name]; ok {
			f(&l)
			s.leases[name] = l
		}
	})
}

// add puts a snapshot before all others.
func (s *Memory) add(x store.Snapshot, content []byte) {
	x.Size = int64(len(content))
	s.locked(func() {
		s.snapshots[x.Scheme] = slices.Insert(s.snapshots[x.Scheme], 0, snapshot{x, content})
	})
}

// slack moves the end of every lease that is acquired, but does not say so.
func slack(b *broken, d time.Duration) {
	b.acquire = func(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
		l, err := b.Memory.Acquire(ctx, name, holder, ttl)
		if err == nil {
			b.changeLease(name, func(h *holding) { h.Expires = h.Expires.Add(d) })
		}
		return l, err
	}
}

// A closing reader reads from memory, whatever happens.
type closing struct{ io.Reader }

func (closing) Close() error { return nil }

var brokenRangesStores = []sabotage{
	{"Acquire takes what is held", "Lease", func(b *broken, _ *clock) {
		b.acquire = func(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
			b.changeLease(name, func(h *holding) { h.released = h.released || h.Holder != holder })
			return b.Memory.Acquire(ctx, name, holder, ttl)
		}
	}},
	{"Acquire tells the other's lease", "Lease", func(b *broken, _ *clock) {
		b.acquire = func(ctx context.Context, name, holder string, ttl time.Duration) (l store.Lease, err error) {
			if l, err = b.Memory.Acquire(ctx, name, holder, ttl); errors.Is(err, store.ErrHeld) {
				b.locked(func() { l = b.leases[name].Lease })
			}
			return l, err
		}
	}},
	{"one lease for all names", "Lease", func(b *broken, _ *clock) {
		b.acquire = func(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
			l, err := b.Memory.Acquire(ctx, "the one", holder, ttl)
			if err == nil {
				l.Name = name
			}
			return l, err
		}
	}},
	{"names of leases in small letters", "Lease", func(b *broken, _ *clock) {
		b.acquire = func(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
			return b.Memory.Acquire(ctx, string(bytes.ToLower([]byte(name))), holder, ttl)
		}
	}},
	{"leases keep nanoseconds", "Lease", func(b *broken, c *clock) {
		b.acquire = func(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
			l, err := b.Memory.Acquire(ctx, name, holder, ttl)
			l.Expires = c.now().Add(ttl)
			return l, err
		}
	}},
	{"leases in local time", "Lease", func(b *broken, _ *clock) {
		b.acquire = func(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
			l, err := b.Memory.Acquire(ctx, name, holder, ttl)
			l.Expires = l.Expires.In(time.FixedZone("", 3600))
			return l, err
		}
	}},
	{"Acquire looks, then writes", "LeaseAtOnce", func(b *broken, c *clock) {
		b.acquire = func(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
			var l holding
			b.locked(func() { l = b.leases[name] })
			if !l.released && c.now().Before(l.Expires) {
				return store.Lease{}, store.ErrHeld
			}
			pause(time.Millisecond) // lets the others look too
			b.changeLease(name, func(h *holding) { h.released = true })
			return b.Memory.Acquire(ctx, name, holder, ttl)
		}
	}},
	{"a holder cannot renew", "LeaseRenew", func(b *broken, c *clock) {
		b.acquire = func(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
			var l holding
			b.locked(func() { l = b.leases[name] })
			if !l.released && c.now().Before(l.Expires) {
				return store.Lease{}, store.ErrHeld
			}
			return b.Memory.Acquire(ctx, name, holder, ttl)
		}
	}},
	{"renewal begins a new holding", "LeaseRenew", func(b *broken, _ *clock) {
		b.acquire = func(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
			b.changeLease(name, func(h *holding) { h.released = h.released || h.Holder == holder })
			return b.Memory.Acquire(ctx, name, holder, ttl)
		}
	}},
	{"renewal never shortens", "LeaseRenew", func(b *broken, _ *clock) {
		b.acquire = func(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
			var before time.Time
			b.locked(func() { before = b.leases[name].Expires })
			l, err := b.Memory.Acquire(ctx, name, holder, ttl)
			if err == nil && l.Expires.Before(before) {
				b.changeLease(name, func(h *holding) { h.Expires = before })
			}
			return l, err
		}
	}},
	{"leases end a millisecond late", "LeaseExpiry", func(b *broken, _ *clock) { slack(b, time.Millisecond) }},
	{"leases end a millisecond early", "LeaseExpiry", func(b *broken, _ *clock) { slack(b, -time.Millisecond) }},
	{"the same holder goes on with its token", "LeaseTokens", func(b *broken, c *clock) {
		b.acquire = func(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
			b.changeLease(name, func(h *holding) {
				if h.Holder == holder && !h.released && !c.now().Before(h.Expires) {
					h.Expires = c.now().Add(1)
				}
			})
			return b.Memory.Acquire(ctx, name, holder, ttl)
		}
	}},
	{"Release forgets the tokens", "LeaseTokens", func(b *broken, _ *clock) {
		b.release = func(ctx context.Context, l store.Lease) error {
			b.locked(func() {
				if b.fenced(l) == nil {
					delete(b.leases, l.Name)
				}
			})
			return ctx.Err()
		}
	}},
	{"Sweep frees leases", "LeaseTokens", func(b *broken, _ *clock) {
		b.sweep = func(ctx context.Context, now time.Time) (int, error) {
			b.locked(func() { delete(b.leases, "visa") })
			return b.Memory.Sweep(ctx, now)
		}
	}},
	{"Release does nothing", "LeaseRelease", func(b *broken, _ *clock) {
		b.release = func(ctx context.Context, _ store.Lease) error { return ctx.Err() }
	}},
	{"Release ends any holding", "LeaseRelease", func(b *broken, _ *clock) {
		b.release = func(ctx context.Context, l store.Lease) error {
			b.changeLease(l.Name, func(h *holding) { h.released = true })
			return ctx.Err()
		}
	}},
	{"Release minds that it is gone", "LeaseRelease", func(b *broken, _ *clock) {
		b.release = func(ctx context.Context, l store.Lease) (err error) {
			b.locked(func() { err = b.fenced(l) })
			return cmpErr(err, b.Memory.Release(ctx, l))
		}
	}},
	{"Release compares the end", "LeaseRelease", func(b *broken, _ *clock) {
		b.release = func(ctx context.Context, l store.Lease) (err error) {
			var kept store.Lease
			b.locked(func() { kept = b.leases[l.Name].Lease })
			if kept != l {
				return ctx.Err()
			}
			return b.Memory.Release(ctx, l)
		}
	}},
	{"a released lease writes on", "LeaseRelease", func(b *broken, c *clock) {
		b.release = func(ctx context.Context, l store.Lease) error {
			b.locked(func() {
				if h := b.leases[l.Name]; b.fenced(l) == nil {
					h.Expires = c.now()
					b.leases[l.Name] = h
				}
			})
			return ctx.Err()
		}
	}},
	{"the fence does not look at the holder", "LeaseFences", func(b *broken, _ *clock) {
		b.putState = func(ctx context.Context, key string, value []byte, l store.Lease) error {
			b.locked(func() { l.Holder = b.leases[l.Name].Holder })
			return b.Memory.PutState(ctx, key, value, l)
		}
	}},
	{"the fence lets greater tokens through", "LeaseFences", func(b *broken, _ *clock) {
		b.putState = func(ctx context.Context, key string, value []byte, l store.Lease) error {
			b.locked(func() { l.Token = min(l.Token, b.leases[l.Name].Token) })
			return b.Memory.PutState(ctx, key, value, l)
		}
	}},
	{"the fence looks at the time", "LeaseFences", func(b *broken, c *clock) {
		b.putState = func(ctx context.Context, key string, value []byte, l store.Lease) error {
			if !c.now().Before(l.Expires) {
				return store.ErrFenced
			}
			return b.Memory.PutState(ctx, key, value, l)
		}
	}},

	{"PutState is not fenced", "StateFenced", func(b *broken, _ *clock) {
		b.putState = func(ctx context.Context, key string, value []byte, _ store.Lease) error {
			b.locked(func() { b.states[key] = bytes.Clone(value) })
			return ctx.Err()
		}
	}},
	{"a fenced PutState writes all the same", "StateFenced", func(b *broken, _ *clock) {
		b.putState = func(ctx context.Context, key string, value []byte, l store.Lease) error {
			err := b.Memory.PutState(ctx, key, value, l)
			b.locked(func() { b.states[key] = bytes.Clone(value) })
			return err
		}
	}},
	{"PutState looks at the lease, then writes", "StateAtOnce", func(b *broken, _ *clock) {
		b.putState = func(ctx context.Context, key string, value []byte, l store.Lease) (err error) {
			b.locked(func() { err = b.fenced(l) })
			if err != nil {
				return err
			}
			pause(10 * time.Millisecond / time.Duration(l.Token)) // the new holder is faster
			b.locked(func() { b.states[key] = bytes.Clone(value) })
			return ctx.Err()
		}
	}},
	{"PutState keeps the first", "State", func(b *broken, _ *clock) {
		b.putState = func(ctx context.Context, key string, value []byte, l store.Lease) error {
			if _, err := b.Memory.State(ctx, key); err == nil {
				return nil
			}
			return b.Memory.PutState(ctx, key, value, l)
		}
	}},
	{"values of any size", "State", func(b *broken, _ *clock) {
		b.putState = func(ctx context.Context, key string, value []byte, l store.Lease) error {
			return b.Memory.PutState(ctx, key, value[:min(len(value), store.MaxValue)], l)
		}
	}},
	{"an empty value is none", "State", func(b *broken, _ *clock) {
		b.state = func(ctx context.Context, key string) ([]byte, error) {
			value, err := b.Memory.State(ctx, key)
			if err == nil && len(value) == 0 {
				err = store.ErrNotFound
			}
			return value, err
		}
	}},
	{"a value never set is empty", "State", func(b *broken, _ *clock) {
		b.state = func(ctx context.Context, key string) ([]byte, error) {
			value, err := b.Memory.State(ctx, key)
			if errors.Is(err, store.ErrNotFound) {
				err = nil
			}
			return value, err
		}
	}},
	{"a state for each lease", "State", func(b *broken, _ *clock) {
		b.putState = func(ctx context.Context, key string, value []byte, l store.Lease) error {
			if l.Name != "visa" {
				key = l.Name + key
			}
			return b.Memory.PutState(ctx, key, value, l)
		}
	}},
	{"Sweep frees states", "State", func(b *broken, _ *clock) {
		b.sweep = func(ctx context.Context, now time.Time) (int, error) {
			b.locked(func() { clear(b.states) })
			return b.Memory.Sweep(ctx, now)
		}
	}},
	{"PutState keeps memory", "StateNoReference", func(b *broken, _ *clock) {
		b.putState = func(ctx context.Context, key string, value []byte, l store.Lease) error {
			err := b.Memory.PutState(ctx, key, value, l)
			b.locked(func() { b.states[key] = value })
			return err
		}
	}},
	{"State returns its own memory", "StateNoReference", func(b *broken, _ *clock) {
		b.state = func(ctx context.Context, key string) (value []byte, err error) {
			b.locked(func() { value = b.states[key] })
			return value, ctx.Err()
		}
	}},

	{"Snapshots in another order", "Snapshot", func(b *broken, _ *clock) {
		b.snapshots = func(ctx context.Context, scheme string) ([]store.Snapshot, error) {
			all, err := b.Memory.Snapshots(ctx, scheme)
			slices.Reverse(all)
			return all, err
		}
	}},
	{"Snapshots of all schemes", "Snapshot", func(b *broken, _ *clock) {
		b.snapshots = func(ctx context.Context, scheme string) ([]store.Snapshot, error) {
			return b.Memory.Snapshots(ctx, "visa")
		}
	}},
	{"the newest instead of a missing one", "Snapshot", func(b *broken, _ *clock) {
		b.open = func(ctx context.Context, scheme string, generation int64) (io.ReadCloser, error) {
			r, err := b.Memory.OpenSnapshot(ctx, scheme, generation)
			if all, _ := b.Memory.Snapshots(ctx, scheme); errors.Is(err, store.ErrNotFound) && len(all) > 0 {
				return b.Memory.OpenSnapshot(ctx, scheme, all[0].Generation)
			}
			return r, err
		}
	}},
	{"the last byte is lost", "Snapshot", func(b *broken, _ *clock) {
		b.open = func(ctx context.Context, scheme string, generation int64) (io.ReadCloser, error) {
			r, err := b.Memory.OpenSnapshot(ctx, scheme, generation)
			if err != nil {
				return nil, err
			}
			content, err := io.ReadAll(r)
			return closing{bytes.NewReader(content[:max(0, len(content)-1)])}, err
		}
	}},
	{"Sweep frees snapshots", "Snapshot", func(b *broken, _ *clock) {
		b.sweep = func(ctx context.Context, now time.Time) (int, error) {
			b.locked(func() { clear(b.Memory.snapshots) })
			return b.Memory.Sweep(ctx, now)
		}
	}},
	{"Size is what was said", "SnapshotFields", func(b *broken, _ *clock) {
		var said int64
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			said = s.Size
			return b.Memory.PutSnapshot(ctx, s, l, content, keep)
		}
		b.snapshots = func(ctx context.Context, scheme string) ([]store.Snapshot, error) {
			all, err := b.Memory.Snapshots(ctx, scheme)
			for i := range all {
				all[i].Size = said
			}
			return all, err
		}
	}},
	{"notes of any size", "SnapshotFields", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			s.Note = s.Note[:min(len(s.Note), store.MaxNote)]
			return b.Memory.PutSnapshot(ctx, s, l, content, keep)
		}
	}},
	{"the largest note is too large", "SnapshotFields", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			if len(s.Note) >= store.MaxNote {
				return store.ErrTooLarge
			}
			return b.Memory.PutSnapshot(ctx, s, l, content, keep)
		}
	}},
	{"PutSnapshot keeps the note's memory", "SnapshotFields", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			err := b.Memory.PutSnapshot(ctx, s, l, content, keep)
			b.locked(func() { b.Memory.snapshots[s.Scheme][0].Note = s.Note })
			return err
		}
	}},
	{"Snapshots returns its own memory", "SnapshotFields", func(b *broken, _ *clock) {
		b.snapshots = func(ctx context.Context, scheme string) ([]store.Snapshot, error) {
			all, err := b.Memory.Snapshots(ctx, scheme)
			b.locked(func() {
				for i := range all {
					all[i].Note = b.Memory.snapshots[scheme][i].Note
				}
			})
			return all, err
		}
	}},
	{"snapshots keep nanoseconds", "SnapshotFields", func(b *broken, _ *clock) {
		b.snapshots = func(ctx context.Context, scheme string) ([]store.Snapshot, error) {
			all, err := b.Memory.Snapshots(ctx, scheme)
			for i := range all {
				all[i].Created = all[i].Created.Add(1)
			}
			return all, err
		}
	}},
	{"no bytes are the end", "SnapshotReaders", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			var data []byte
			buf := make([]byte, 1000)
			for {
				n, err := content.Read(buf)
				data = append(data, buf[:n]...)
				if n == 0 || err != nil {
					return b.Memory.PutSnapshot(ctx, s, l, bytes.NewReader(data), keep)
				}
			}
		}
	}},
	{"bytes that come with the end are lost", "SnapshotReaders", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			var data []byte
			buf := make([]byte, 1000)
			for {
				n, err := content.Read(buf)
				if err != nil {
					return b.Memory.PutSnapshot(ctx, s, l, bytes.NewReader(data), keep)
				}
				data = append(data, buf[:n]...)
			}
		}
	}},
	{"a closed reader reads on", "SnapshotReaders", func(b *broken, _ *clock) {
		b.open = func(ctx context.Context, scheme string, generation int64) (io.ReadCloser, error) {
			r, err := b.Memory.OpenSnapshot(ctx, scheme, generation)
			return closing{r}, err
		}
	}},
	{"a generation is replaced", "SnapshotGenerations", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			b.locked(func() {
				if all := b.Memory.snapshots[s.Scheme]; len(all) > 0 && all[0].Generation == s.Generation {
					b.Memory.snapshots[s.Scheme] = all[1:]
				}
			})
			return b.Memory.PutSnapshot(ctx, s, l, content, keep)
		}
	}},
	{"an earlier generation is as good", "SnapshotGenerations", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			all, _ := b.Memory.Snapshots(ctx, s.Scheme)
			if i := slices.IndexFunc(all, func(x store.Snapshot) bool { return x.Generation == s.Generation }); i >= 0 {
				return store.ErrExists
			}
			data, err := io.ReadAll(content)
			b.add(s, data)
			return err
		}
	}},
	{"generations are of all schemes", "SnapshotGenerations", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			if all, _ := b.Memory.Snapshots(ctx, "visa"); len(all) > 0 && all[0].Generation >= s.Generation {
				return store.ErrExists
			}
			return b.Memory.PutSnapshot(ctx, s, l, content, keep)
		}
	}},
	{"all are kept", "SnapshotKeep", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, _ int) error {
			return b.Memory.PutSnapshot(ctx, s, l, content, 1000)
		}
	}},
	{"the new one does not count", "SnapshotKeep", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			return b.Memory.PutSnapshot(ctx, s, l, content, keep+1)
		}
	}},
	{"to keep none is to keep all", "SnapshotKeep", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			if keep <= 0 {
				keep = 1000
			}
			return b.Memory.PutSnapshot(ctx, s, l, content, keep)
		}
	}},
	{"other schemes go too", "SnapshotKeep", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			err := b.Memory.PutSnapshot(ctx, s, l, content, keep)
			b.locked(func() {
				for scheme := range b.Memory.snapshots {
					if scheme != s.Scheme {
						delete(b.Memory.snapshots, scheme)
					}
				}
			})
			return err
		}
	}},
	{"the oldest stay", "SnapshotKeep", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			err := b.Memory.PutSnapshot(ctx, s, l, content, 1000)
			b.locked(func() {
				all := b.Memory.snapshots[s.Scheme]
				if keep = max(1, keep); len(all) > keep {
					b.Memory.snapshots[s.Scheme] = append(all[:1:1], all[len(all)-keep+1:]...)
				}
			})
			return err
		}
	}},
	{"errors of the reader are wrapped", "SnapshotReaderFails", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			if err := b.Memory.PutSnapshot(ctx, s, l, content, keep); err != nil {
				return fmt.Errorf("put: %w", err)
			}
			return nil
		}
	}},
	{"half of the content is enough", "SnapshotReaderFails", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			data, err := io.ReadAll(content)
			return errors.Join(b.Memory.PutSnapshot(ctx, s, l, bytes.NewReader(data), keep), err)
		}
	}},
	{"an unexpected end is an end", "SnapshotReaderFails", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			data, err := io.ReadAll(content)
			if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				return err
			}
			return b.Memory.PutSnapshot(ctx, s, l, bytes.NewReader(data), keep)
		}
	}},
	{"the old ones go first", "SnapshotReaderFails", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			b.locked(func() {
				all := b.Memory.snapshots[s.Scheme]
				b.Memory.snapshots[s.Scheme] = all[:min(len(all), keep-1)]
			})
			return b.Memory.PutSnapshot(ctx, s, l, content, keep)
		}
	}},
	{"seen before it is whole", "SnapshotAllAtOnce", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			half := make([]byte, s.Size/2)
			n, err := io.ReadFull(content, half)
			if err != nil && n < len(half) {
				return err
			}
			b.add(s, half)
			_, err = io.Copy(io.Discard, content)
			return err
		}
	}},
	{"others wait for all of it", "SnapshotAllAtOnce", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			busy := errors.New("busy")
			b.create = func(context.Context, store.Txn) error { return busy }
			return b.Memory.PutSnapshot(ctx, s, l, content, keep)
		}
	}},
	{"PutSnapshot is not fenced", "SnapshotFenced", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, _ store.Lease, content io.Reader, _ int) error {
			data, err := io.ReadAll(content)
			b.add(s, data)
			return err
		}
	}},
	{"fenced at the beginning only", "SnapshotFenced", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) (err error) {
			b.locked(func() { err = b.fenced(l) })
			if err != nil {
				return err
			}
			data, err := io.ReadAll(content)
			b.locked(func() { l = b.leases[l.Name].Lease })
			return cmpErr(err, b.Memory.PutSnapshot(ctx, s, l, bytes.NewReader(data), keep))
		}
	}},
	{"fenced when it is merely over", "SnapshotFenced", func(b *broken, c *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) (err error) {
			data, err := io.ReadAll(content)
			if !c.now().Before(l.Expires) {
				return store.ErrFenced
			}
			return cmpErr(err, b.Memory.PutSnapshot(ctx, s, l, bytes.NewReader(data), keep))
		}
	}},
	{"nothing but the name is fenced", "SnapshotFencedAtOnce", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) (err error) {
			b.locked(func() { l = b.leases[l.Name].Lease })
			return b.Memory.PutSnapshot(ctx, s, l, content, keep)
		}
	}},
	{"the earlier goes on", "SnapshotNextTakesOver", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) (err error) {
			data, err := io.ReadAll(content)
			return cmpErr(err, b.Memory.PutSnapshot(ctx, s, l, bytes.NewReader(data), keep))
		}
	}},
	{"the fenced take over", "SnapshotNextTakesOver", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) (err error) {
			b.locked(func() { b.uploads[s.Scheme]++ })
			return b.Memory.PutSnapshot(ctx, s, l, content, keep)
		}
	}},
	{"other schemes take over", "SnapshotNextTakesOver", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) (err error) {
			b.locked(func() { b.uploads["visa"]++ })
			return b.Memory.PutSnapshot(ctx, s, l, content, keep)
		}
	}},
	{"PutSnapshot looks, then writes", "SnapshotAtOnce", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) (err error) {
			if all, _ := b.Memory.Snapshots(ctx, s.Scheme); len(all) > 0 {
				return store.ErrExists
			}
			pause(time.Millisecond) // lets the others look too
			data, err := io.ReadAll(content)
			b.add(s, data)
			return err
		}
	}},
	{"an ended context puts all the same", "SnapshotContextEnds", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) (err error) {
			return b.Memory.PutSnapshot(context.WithoutCancel(ctx), s, l, content, keep)
		}
	}},
	{"a context that ends last is not seen", "SnapshotContextEnds", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) (err error) {
			data, err := io.ReadAll(content)
			if len(data) < full {
				err = cmpErr(err, ctx.Err())
			}
			return cmpErr(err, b.Memory.PutSnapshot(context.WithoutCancel(ctx), s, l, bytes.NewReader(data), keep))
		}
	}},
	{"the context is for opening only", "SnapshotContextEnds", func(b *broken, _ *clock) {
		b.open = func(ctx context.Context, scheme string, generation int64) (io.ReadCloser, error) {
			return b.Memory.OpenSnapshot(context.WithoutCancel(ctx), scheme, generation)
		}
	}},
	{"a reader goes on in the newest", "SnapshotReplaced", func(b *broken, _ *clock) {
		b.open = func(ctx context.Context, scheme string, generation int64) (io.ReadCloser, error) {
			r, err := b.Memory.OpenSnapshot(ctx, scheme, generation)
			return &newest{b: b, scheme: scheme, ReadCloser: r}, err
		}
	}},
	{"what is gone is an end", "SnapshotReplaced", func(b *broken, _ *clock) {
		b.open = func(ctx context.Context, scheme string, generation int64) (io.ReadCloser, error) {
			r, err := b.Memory.OpenSnapshot(ctx, scheme, generation)
			return &newest{b: b, scheme: scheme, ReadCloser: r, generation: generation}, err
		}
	}},
	{"reading needs no store", "SnapshotClosed", func(b *broken, _ *clock) {
		b.open = func(ctx context.Context, scheme string, generation int64) (io.ReadCloser, error) {
			r, err := b.Memory.OpenSnapshot(ctx, scheme, generation)
			if err != nil {
				return nil, err
			}
			content, err := io.ReadAll(r)
			return closing{bytes.NewReader(content)}, err
		}
	}},
	{"Close does not wait", "SnapshotCloseWaits", func(b *broken, _ *clock) {
		b.close = func() error { b.locked(func() { b.done = true }); return nil }
	}},
	{"Close ends a PutSnapshot", "SnapshotCloseWaits", func(b *broken, _ *clock) {
		b.put = func(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
			data, err := io.ReadAll(content)
			return cmpErr(err, b.Memory.PutSnapshot(ctx, s, l, bytes.NewReader(data), keep))
		}
	}},

	{"Acquire ignores its context", "ContextEnded", func(b *broken, _ *clock) {
		b.acquire = func(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
			l, err := b.Memory.Acquire(context.WithoutCancel(ctx), name, holder, ttl)
			return l, errors.Join(err, ctx.Err())
		}
	}},
	{"Release ignores its context", "ContextEnded", func(b *broken, _ *clock) {
		b.release = func(ctx context.Context, l store.Lease) error {
			return errors.Join(b.Memory.Release(context.WithoutCancel(ctx), l), ctx.Err())
		}
	}},
	{"PutState ignores its context", "ContextEnded", func(b *broken, _ *clock) {
		b.putState = func(ctx context.Context, key string, value []byte, l store.Lease) error {
			return errors.Join(b.Memory.PutState(context.WithoutCancel(ctx), key, value, l), ctx.Err())
		}
	}},
	{"closed is called fenced", "Closed", func(b *broken, _ *clock) {
		b.putState = func(ctx context.Context, key string, value []byte, l store.Lease) error {
			if err := b.Memory.PutState(ctx, key, value, l); err != nil && ctx.Err() == nil {
				return store.ErrFenced
			}
			return ctx.Err()
		}
	}},
	{"leases end with the process", "ReopenRanges", func(b *broken, _ *clock) {
		b.locked(func() {
			for name, h := range b.leases {
				h.released = true
				b.leases[name] = h
			}
		})
	}},
	{"tokens end with the process", "ReopenRanges", func(b *broken, _ *clock) {
		b.locked(func() { delete(b.leases, "gone") })
	}},
	{"states end with the process", "ReopenRanges", func(b *broken, _ *clock) {
		b.locked(func() { clear(b.states) })
	}},
	{"snapshots end with the process", "ReopenRanges", func(b *broken, _ *clock) {
		b.locked(func() { clear(b.Memory.snapshots) })
	}},
}

// A newest reader of generation 0 goes on reading in whichever snapshot is the newest. A reader of another generation
// ends when that is no longer the newest.
type newest struct {
	io.ReadCloser
	b          *broken
	scheme     string
	generation int64
	at         int
}

func (r *newest) Read(p []byte) (n int, err error) {
	pause(time.Millisecond) // lets the others write
	r.b.locked(func() {
		now := r.b.Memory.snapshots[r.scheme][0]
		if r.generation != 0 && now.Generation != r.generation || r.at >= len(now.content) {
			err = io.EOF
			return
		}
		n = copy(p, now.content[r.at:])
		r.at += n
	})
	return n, err
}
