package storetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// Memory is a [store.Store] that keeps everything in memory and loses it with the process, for tests of code that uses
// a store.
type Memory struct {
	now  func() time.Time
	mu   sync.Mutex
	done bool           // closed
	puts sync.WaitGroup // PutSnapshots under way, for which Close waits
	memory
}

// memory is what a Memory holds.
type memory struct {
	txns      map[string]store.Txn
	keys      map[string]store.Key
	changes   int64 // of keys, merchants and disabled merchants: their mark
	leases    map[string]holding
	snapshots map[string][]snapshot // by scheme, newest first
	uploads   map[string]int64      // how many PutSnapshots of a scheme have begun
	states    map[string][]byte
	nodes     map[string]node
	merchants map[string][]byte

	endpoints  map[string]store.Endpoint
	marks      map[string]int64 // of the endpoints of each merchant: the number of their last change
	hooked     int64            // changes of endpoints: the mark of all
	events     map[string]store.Event
	deliveries map[[2]string]store.Delivery // by event and endpoint

	objects map[[2]string]store.Object // by kind and ID
	audit   []store.AuditEntry
}

var _ store.Store = (*Memory)(nil)

// NewMemory returns an empty store with the given clock.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, memory: memory{
		txns: make(map[string]store.Txn), keys: make(map[string]store.Key),
		leases: make(map[string]holding), snapshots: make(map[string][]snapshot),
		uploads: make(map[string]int64), states: make(map[string][]byte), nodes: make(map[string]node), merchants: make(map[string][]byte),
		endpoints: make(map[string]store.Endpoint), marks: make(map[string]int64), events: make(map[string]store.Event),
		deliveries: make(map[[2]string]store.Delivery), objects: make(map[[2]string]store.Object),
	}}
}

// lock begins a call. The caller unlocks s.mu unless there is an error.
func (s *Memory) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.done {
		s.mu.Unlock()
		return errors.New("store: closed")
	}
	return nil
}

// ownCopy returns a copy of t that shares no memory with it, with the time in UTC and whole milliseconds, Lazy false
// and no Plain, as the contract requires.
func ownCopy(t store.Txn) store.Txn {
	t.Data, t.Lazy, t.Event, t.Plain = bytes.Clone(t.Data), false, nil, nil
	t.Expires = t.Expires.UTC().Truncate(time.Millisecond)
	return t
}

func ownKey(k store.Key) store.Key {
	k.Hash, k.Seal = bytes.Clone(k.Hash), bytes.Clone(k.Seal)
	k.Created = k.Created.UTC().Truncate(time.Millisecond)
	return k
}

// Create implements [store.Store].
func (s *Memory) Create(ctx context.Context, t store.Txn) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if _, taken := s.txns[t.ID]; taken {
		return store.ErrExists
	}
	t.Version = cmp.Or(t.Version, store.NewVersion())
	s.txns[t.ID] = ownCopy(t)
	return nil
}

// live returns a copy of a transaction that has not expired. s.mu is held.
func (s *Memory) live(id string) (store.Txn, error) {
	t, ok := s.txns[id]
	if !ok || !s.now().Before(t.Expires) {
		return store.Txn{}, store.ErrNotFound
	}
	return ownCopy(t), nil
}

// Get implements [store.Store].
func (s *Memory) Get(ctx context.Context, id string) (store.Txn, error) {
	if err := s.lock(ctx); err != nil {
		return store.Txn{}, err
	}
	defer s.mu.Unlock()
	return s.live(id)
}

// Update implements [store.Store].
func (s *Memory) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now, err := s.live(was.ID)
	t := now
	if was.Version != 0 {
		t = ownCopy(was)
	} else if err != nil {
		return err
	}
	if err := change(&t); err != nil {
		return err
	}
	if err != nil { // other stores only notice when they write, after a first call of change
		return err
	}
	if was.Version != 0 && was.Version != now.Version {
		t = now
		if err := change(&t); err != nil {
			return err
		}
	}
	t.ID, t.Version = was.ID, now.Version+1
	if t.Event != nil {
		s.replaceAhead(t.Event)
	}
	s.txns[t.ID] = ownCopy(t)
	return nil
}

// Sweep implements [store.Store].
func (s *Memory) Sweep(ctx context.Context, now time.Time) (int, error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	n := 0
	for id, t := range s.txns {
		if !now.Before(t.Expires) {
			delete(s.txns, id)
			n++
		}
	}
	return n, nil
}

// PutKey implements [store.Store].
func (s *Memory) PutKey(ctx context.Context, k store.Key) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if _, taken := s.keys[string(k.Hash)]; taken {
		return store.ErrExists
	}
	s.keys[string(k.Hash)] = ownKey(k)
	s.changes++
	return nil
}

// Key implements [store.Store].
func (s *Memory) Key(ctx context.Context, hash []byte) (store.Key, error) {
	if err := s.lock(ctx); err != nil {
		return store.Key{}, err
	}
	defer s.mu.Unlock()
	k, ok := s.keys[string(hash)]
	if !ok {
		return store.Key{}, store.ErrNotFound
	}
	return ownKey(k), nil
}

// Keys implements [store.Store].
func (s *Memory) Keys(ctx context.Context) ([]store.Key, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.allKeys(), nil
}

// allKeys returns copies of the keys in their order. s.mu is held.
func (s *Memory) allKeys() (keys []store.Key) {
	for _, k := range s.keys {
		keys = append(keys, ownKey(k))
	}
	slices.SortFunc(keys, func(a, b store.Key) int {
		return cmp.Or(a.Created.Compare(b.Created), bytes.Compare(a.Hash, b.Hash))
	})
	return keys
}

// KeysUnless implements [store.Store].
func (s *Memory) KeysUnless(ctx context.Context, mark string) (keys []store.Key, now string, err error) {
	if err := s.lock(ctx); err != nil {
		return nil, "", err
	}
	defer s.mu.Unlock()
	if now = strconv.FormatInt(s.changes, 10); now == mark {
		return nil, now, nil
	}
	return s.allKeys(), now, nil
}

// ResealKey implements [store.Store].
func (s *Memory) ResealKey(ctx context.Context, hash, was, seal []byte) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	k, ok := s.keys[string(hash)]
	if !ok || !bytes.Equal(k.Seal, was) {
		return store.ErrNotFound
	}
	k.Seal = seal
	s.keys[string(hash)] = ownKey(k)
	s.changes++
	return nil
}

// RevokeKey implements [store.Store].
func (s *Memory) RevokeKey(ctx context.Context, hash []byte) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if _, ok := s.keys[string(hash)]; !ok {
		return store.ErrNotFound
	}
	delete(s.keys, string(hash))
	s.changes++
	return nil
}

// Ping implements [store.Store].
func (s *Memory) Ping(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	s.mu.Unlock()
	return nil
}

// Close implements [store.Store].
func (s *Memory) Close() error {
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
	s.puts.Wait()
	return nil
}
