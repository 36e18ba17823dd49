package storetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// A clock goes only when the test moves it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// memoryBackend keeps what a Memory holds when it is reopened, so that all of the suite is tested.
func memoryBackend(wrap func(*Memory, *clock) store.Store) Backend {
	c := newClock()
	views := make(map[store.Store]*Memory)
	var mu sync.Mutex
	open := func(m *Memory) store.Store {
		mu.Lock()
		defer mu.Unlock()
		s := wrap(m, c)
		views[s] = m
		return s
	}
	under := func(s store.Store) *Memory {
		mu.Lock()
		defer mu.Unlock()
		return views[s]
	}
	return Backend{
		Open: func(testing.TB) store.Store { return open(NewMemory(c.now)) },
		Reopen: func(t testing.TB, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			m := under(s)
			return open(&Memory{now: c.now, memory: m.memory})
		},
		Now: c.now, Pass: c.pass,
	}
}

func TestMemory(t *testing.T) {
	Run(t, memoryBackend(func(m *Memory, _ *clock) store.Store { return m }))
}

// A recorder stands in for the test and remembers what is reported to it.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skip(...any) { runtime.Goexit() }

// fails tells whether b does not pass a test of the suite.
func fails(t *testing.T, b Backend, name string) bool {
	i := slices.IndexFunc(tests, func(x test) bool { return x.name == name })
	if i < 0 {
		t.Fatalf("there is no test %s", name)
	}
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tests[i].on(r, b)
	}()
	<-done
	return len(r.failed) > 0
}

// A broken store is a good one with one method replaced.
type broken struct {
	*Memory
	create func(context.Context, store.Txn) error
	get    func(context.Context, string) (store.Txn, error)
	update func(context.Context, store.Txn, func(*store.Txn) error) error
	sweep  func(context.Context, time.Time) (int, error)
	erase  func(ctx context.Context, merchant string, about []string) (int, error)
	putKey func(context.Context, store.Key) error
	key    func(context.Context, []byte) (store.Key, error)
	keys   func(context.Context) ([]store.Key, error)
	unless func(context.Context, string) ([]store.Key, string, error)
	reseal func(context.Context, []byte, []byte, []byte) error
	revoke func(context.Context, []byte) error
	ping   func(context.Context) error
	marks  func(context.Context, string) (map[string]string, string, error)
	of     func(context.Context, ...string) ([]store.Endpoint, error)
	brokenRanges
	brokenNodes
	brokenMerchants
}

func (b *broken) EndpointMarksUnless(ctx context.Context, mark string) (map[string]string, string, error) {
	if b.marks != nil {
		return b.marks(ctx, mark)
	}
	return b.Memory.EndpointMarksUnless(ctx, mark)
}

func (b *broken) EndpointsOf(ctx context.Context, merchants ...string) ([]store.Endpoint, error) {
	if b.of != nil {
		return b.of(ctx, merchants...)
	}
	return b.Memory.EndpointsOf(ctx, merchants...)
}

func (b *broken) Create(ctx context.Context, t store.Txn) error {
	if b.create != nil {
		return b.create(ctx, t)
	}
	return b.Memory.Create(ctx, t)
}

func (b *broken) Get(ctx context.Context, id string) (store.Txn, error) {
	if b.get != nil {
		return b.get(ctx, id)
	}
	return b.Memory.Get(ctx, id)
}

func (b *broken) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	if b.update != nil {
		return b.update(ctx, was, change)
	}
	return b.Memory.Update(ctx, was, change)
}

func (b *broken) Sweep(ctx context.Context, now time.Time) (int, error) {
	if b.sweep != nil {
		return b.sweep(ctx, now)
	}
	return b.Memory.Sweep(ctx, now)
}

func (b *broken) EraseEvents(ctx context.Context, merchant string, about []string) (int, error) {
	if b.erase != nil {
		return b.erase(ctx, merchant, about)
	}
	return b.Memory.EraseEvents(ctx, merchant, about)
}

func (b *broken) PutKey(ctx context.Context, k store.Key) error {
	if b.putKey != nil {
		return b.putKey(ctx, k)
	}
	return b.Memory.PutKey(ctx, k)
}

func (b *broken) Key(ctx context.Context, hash []byte) (store.Key, error) {
	if b.key != nil {
		return b.key(ctx, hash)
	}
	return b.Memory.Key(ctx, hash)
}

func (b *broken) Keys(ctx context.Context) ([]store.Key, error) {
	if b.keys != nil {
		return b.keys(ctx)
	}
	return b.Memory.Keys(ctx)
}

func (b *broken) KeysUnless(ctx context.Context, mark string) ([]store.Key, string, error) {
	if b.unless != nil {
		return b.unless(ctx, mark)
	}
	return b.Memory.KeysUnless(ctx, mark)
}

func (b *broken) ResealKey(ctx context.Context, hash, was, seal []byte) error {
	if b.reseal != nil {
		return b.reseal(ctx, hash, was, seal)
	}
	return b.Memory.ResealKey(ctx, hash, was, seal)
}

func (b *broken) RevokeKey(ctx context.Context, hash []byte) error {
	if b.revoke != nil {
		return b.revoke(ctx, hash)
	}
	return b.Memory.RevokeKey(ctx, hash)
}

func (b *broken) Ping(ctx context.Context) error {
	if b.ping != nil {
		return b.ping(ctx)
	}
	return b.Memory.Ping(ctx)
}

// A sabotage is one way to break a store, and a test that fails then.
type sabotage struct {
	name     string
	fails    string // among others
	sabotage func(b *broken, c *clock)
}

// set writes t over whatever is there, behind the back of the contract.
func (s *Memory) set(t store.Txn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.txns[t.ID] = t
}

// free takes an id out of the store if it is expired.
func (s *Memory) free(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.txns[id]; ok && !s.now().Before(t.Expires) {
		delete(s.txns, id)
	}
}

// pause lets all others run until they wait. It is called in bubbles only: by the broken stores of
// TestBrokenStoresFail.
func pause(d time.Duration) { time.Sleep(d) }

// TestBrokenStoresFail breaks one sentence of the contract after the other and checks that the tests about it fail. In
// a synctest bubble, a pause between reading and writing lets all others read first.
func TestBrokenStoresFail(t *testing.T) {
	for _, test := range append(slices.Concat(brokenRangesStores, brokenNodesStores, brokenMerchantsStores), []sabotage{
		{"Create overwrites", "CreateTwice", func(b *broken, _ *clock) {
			b.create = func(_ context.Context, t store.Txn) error { b.set(ownCopy(t)); return nil }
		}},
		{"Create looks, then writes", "CreateAtOnce", func(b *broken, _ *clock) {
			b.create = func(ctx context.Context, t store.Txn) error {
				b.mu.Lock()
				_, taken := b.txns[t.ID]
				b.mu.Unlock()
				if taken {
					return store.ErrExists
				}
				pause(time.Millisecond) // lets the others look too
				b.set(ownCopy(t))
				return ctx.Err()
			}
		}},
		{"Create takes expired ids", "ExpiredStaysTaken", func(b *broken, _ *clock) {
			b.create = func(ctx context.Context, t store.Txn) error { b.free(t.ID); return b.Memory.Create(ctx, t) }
		}},
		{"Create keeps memory", "NoReference", func(b *broken, _ *clock) {
			b.create = func(ctx context.Context, t store.Txn) error {
				err := b.Memory.Create(ctx, t)
				if err == nil {
					x := ownCopy(t)
					x.Data = t.Data
					b.set(x)
				}
				return err
			}
		}},
		{"Create loses data behind a zero", "CreateGet", func(b *broken, _ *clock) {
			b.create = func(ctx context.Context, t store.Txn) error {
				t.Data, _, _ = bytes.Cut(t.Data, []byte{0})
				return b.Memory.Create(ctx, t)
			}
		}},
		{"nanoseconds are kept", "Milliseconds", func(b *broken, _ *clock) {
			b.get = func(ctx context.Context, id string) (store.Txn, error) {
				x, err := b.Memory.Get(ctx, id)
				x.Expires = x.Expires.Add(1)
				return x, err
			}
		}},
		{"local time", "CreateGet", func(b *broken, _ *clock) {
			b.get = func(ctx context.Context, id string) (store.Txn, error) {
				x, err := b.Memory.Get(ctx, id)
				x.Expires = x.Expires.In(time.FixedZone("", 3600))
				return x, err
			}
		}},
		{"expired a millisecond late", "Expiry", func(b *broken, c *clock) {
			b.now = func() time.Time { return c.now().Add(-time.Millisecond) }
		}},
		{"expired a millisecond early", "Expiry", func(b *broken, c *clock) {
			b.now = func() time.Time { return c.now().Add(time.Millisecond) }
		}},
		{"expired is readable until swept", "Expiry", func(b *broken, _ *clock) {
			b.now = func() time.Time { return time.Time{} }
		}},
		{"Update finds the expired", "Expiry", func(b *broken, _ *clock) {
			b.update = func(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
				b.mu.Lock()
				x, ok := b.txns[was.ID]
				b.mu.Unlock()
				if !ok {
					return store.ErrNotFound
				}
				return change(&x)
			}
		}},
		{"Update loses updates", "UpdateIsAtomic", func(b *broken, _ *clock) { b.update = lostUpdate(b) }},
		{"Update lets two win", "UpdateOnce", func(b *broken, _ *clock) { b.update = lostUpdate(b) }},
		{"Update drops the change", "Update", func(b *broken, _ *clock) {
			b.update = func(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
				x, err := b.Memory.Get(ctx, was.ID)
				if err != nil {
					return err
				}
				return change(&x)
			}
		}},
		{"Update keeps the old end", "ExpiryChanges", func(b *broken, _ *clock) {
			b.update = func(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
				return b.Memory.Update(ctx, was, func(x *store.Txn) error {
					old := x.Expires
					defer func() { x.Expires = old }()
					return change(x)
				})
			}
		}},
		{"Update writes in spite of an error", "UpdateError", func(b *broken, _ *clock) {
			b.update = func(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
				var failed error
				err := b.Memory.Update(ctx, was, func(x *store.Txn) error { failed = change(x); return nil })
				return errors.Join(err, failed)
			}
		}},
		{"Update wraps the error", "UpdateError", func(b *broken, _ *clock) {
			b.update = func(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
				if err := b.Memory.Update(ctx, was, change); err != nil {
					return fmt.Errorf("update: %w", err)
				}
				return nil
			}
		}},
		{"Update calls change for nothing", "UpdateMissing", func(b *broken, _ *clock) {
			b.update = func(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
				err := b.Memory.Update(ctx, was, change)
				if errors.Is(err, store.ErrNotFound) {
					_ = change(&store.Txn{ID: was.ID})
				}
				return err
			}
		}},
		{"Update moves", "UpdateID", func(b *broken, _ *clock) {
			b.update = func(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
				var x store.Txn
				err := b.Memory.Update(ctx, was, func(t *store.Txn) error { err := change(t); x = ownCopy(*t); return err })
				if err == nil {
					b.set(x)
				}
				return err
			}
		}},
		{"Update believes what was read", "UpdateRead", func(b *broken, _ *clock) {
			b.update = func(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
				x, err := b.Memory.Get(ctx, was.ID)
				if was.Version != 0 {
					x = ownCopy(was)
				}
				if err := cmp.Or(err, change(&x)); err != nil {
					return err
				}
				x.ID = was.ID
				b.set(x)
				return nil
			}
		}},
		{"Create makes a version of its own", "UpdateMade", func(b *broken, _ *clock) {
			b.create = func(ctx context.Context, t store.Txn) error {
				t.Version = 0
				return b.Memory.Create(ctx, t)
			}
		}},
		{"a version says nothing", "UpdateMade", func(b *broken, _ *clock) {
			b.update = func(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
				return b.Memory.Update(ctx, store.Txn{ID: was.ID}, change)
			}
		}},
		{"Get returns what was sealed", "Plain", func(b *broken, _ *clock) {
			b.get = func(ctx context.Context, id string) (store.Txn, error) {
				x, err := b.Memory.Get(ctx, id)
				x.Plain = "plain"
				return x, err
			}
		}},
		{"change sees what was sealed", "Plain", func(b *broken, _ *clock) {
			b.update = func(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
				return b.Memory.Update(ctx, was, func(t *store.Txn) error {
					t.Plain = was.Plain
					return change(t)
				})
			}
		}},
		{"a lazy change is forgotten", "UpdateLazily", func(b *broken, _ *clock) { b.update = forgetful(b) }},
		{"Get tells who is lazy", "UpdateLazily", func(b *broken, _ *clock) {
			b.get = func(ctx context.Context, id string) (store.Txn, error) {
				x, err := b.Memory.Get(ctx, id)
				x.Lazy = err == nil
				return x, err
			}
		}},
		{"a refused write undoes another", "WritesAtOnce", func(b *broken, _ *clock) {
			var last atomic.Value
			b.create = func(ctx context.Context, t store.Txn) error {
				err := b.Memory.Create(ctx, t)
				if err == nil {
					last.Store(t.ID)
					return nil
				}
				if id, ok := last.Load().(string); ok {
					b.mu.Lock()
					delete(b.txns, id)
					b.mu.Unlock()
				}
				return err
			}
		}},
		{"Get returns its own memory", "NoReference", func(b *broken, _ *clock) {
			b.get = func(ctx context.Context, id string) (store.Txn, error) {
				x, err := b.Memory.Get(ctx, id)
				if err != nil {
					return x, err
				}
				b.mu.Lock()
				defer b.mu.Unlock()
				return b.txns[id], nil
			}
		}},
		{"Get mixes up failure and absence", "GetMissing", func(b *broken, _ *clock) {
			b.get = func(ctx context.Context, id string) (store.Txn, error) {
				x, err := b.Memory.Get(ctx, id)
				if errors.Is(err, store.ErrNotFound) {
					err = errors.New("no rows")
				}
				return x, err
			}
		}},
		{"EraseEvents erases for no merchant", "EraseEvents", func(b *broken, _ *clock) {
			b.erase = func(ctx context.Context, merchant string, about []string) (int, error) {
				return b.Memory.removeEvents(func(e store.Event) bool { return e.Merchant == merchant || slices.Contains(about, e.About) }), nil
			}
		}},
		{"EraseEvents leaves deliveries", "EraseEvents", func(b *broken, _ *clock) {
			b.erase = func(ctx context.Context, merchant string, about []string) (int, error) {
				before := maps.Clone(b.deliveries)
				n, err := b.Memory.EraseEvents(ctx, merchant, about)
				b.deliveries = before
				return n, err
			}
		}},
		{"EraseEvents leaves what lies ahead", "EraseEvents", func(b *broken, _ *clock) {
			b.erase = func(_ context.Context, merchant string, about []string) (int, error) {
				return b.Memory.removeEvents(func(e store.Event) bool {
					return !e.Created.After(b.now()) && (merchant != "" && e.Merchant == merchant || slices.Contains(about, e.About))
				}), nil
			}
		}},
		{"Sweep frees nothing", "Sweep", func(b *broken, _ *clock) {
			b.sweep = func(context.Context, time.Time) (int, error) { return 0, nil }
		}},
		{"Sweep frees the living", "Sweep", func(b *broken, _ *clock) {
			b.sweep = func(ctx context.Context, now time.Time) (int, error) {
				return b.Memory.Sweep(ctx, now.Add(24*time.Hour))
			}
		}},
		{"Sweep frees one batch", "SweepMany", func(b *broken, _ *clock) {
			b.sweep = func(ctx context.Context, now time.Time) (int, error) {
				n, err := b.Memory.Sweep(ctx, now)
				return min(n, 500), err
			}
		}},
		{"Sweep asks its own clock", "SweepBoundary", func(b *broken, _ *clock) {
			b.sweep = func(ctx context.Context, _ time.Time) (int, error) { return b.Memory.Sweep(ctx, b.now()) }
		}},
		{"Sweep leaves the last millisecond", "SweepBoundary", func(b *broken, _ *clock) {
			b.sweep = func(ctx context.Context, now time.Time) (int, error) {
				return b.Memory.Sweep(ctx, now.Add(-time.Millisecond))
			}
		}},
		{"Sweep frees keys", "KeysStay", func(b *broken, _ *clock) {
			b.sweep = func(ctx context.Context, now time.Time) (int, error) {
				b.mu.Lock()
				clear(b.Memory.keys)
				b.mu.Unlock()
				return b.Memory.Sweep(ctx, now)
			}
		}},
		{"PutKey overwrites", "KeyTwice", func(b *broken, _ *clock) {
			b.putKey = func(ctx context.Context, k store.Key) error {
				_ = b.Memory.RevokeKey(ctx, k.Hash)
				return b.Memory.PutKey(ctx, k)
			}
		}},
		{"PutKey forgets strict", "KeyPutGet", func(b *broken, _ *clock) {
			b.putKey = func(ctx context.Context, k store.Key) error { k.Strict = false; return b.Memory.PutKey(ctx, k) }
		}},
		{"PutKey forgets the seal", "KeyPutGet", func(b *broken, _ *clock) {
			b.putKey = func(ctx context.Context, k store.Key) error { k.Seal = nil; return b.Memory.PutKey(ctx, k) }
		}},
		{"ResealKey keeps the former seal", "KeyReseal", func(b *broken, _ *clock) {
			b.reseal = func(ctx context.Context, hash, was, _ []byte) error {
				return b.Memory.ResealKey(ctx, hash, was, was)
			}
		}},
		{"Key matches a prefix", "KeyMissing", func(b *broken, _ *clock) {
			b.key = func(ctx context.Context, hash []byte) (store.Key, error) {
				all, err := b.Memory.Keys(ctx)
				for _, k := range all {
					if bytes.HasPrefix(k.Hash, hash) {
						return k, nil
					}
				}
				return store.Key{}, cmpErr(err, store.ErrNotFound)
			}
		}},
		{"Keys in another order", "KeysOrder", func(b *broken, _ *clock) {
			b.keys = func(ctx context.Context) ([]store.Key, error) {
				all, err := b.Memory.Keys(ctx)
				slices.Reverse(all)
				return all, err
			}
		}},
		{"Keys returns its own memory", "KeyNoReference", func(b *broken, _ *clock) {
			b.keys = func(ctx context.Context) ([]store.Key, error) {
				all, err := b.Memory.Keys(ctx)
				for i := range all {
					all[i].Hash = b.Memory.keys[string(all[i].Hash)].Hash
				}
				return all, err
			}
		}},
		{"ResealKey puts a key that was revoked", "KeyResealAtOnce", func(b *broken, _ *clock) {
			b.reseal = func(ctx context.Context, hash, was, seal []byte) error {
				k, err := b.Memory.Key(ctx, hash)
				if err != nil || !bytes.Equal(k.Seal, was) {
					return cmpErr(err, store.ErrNotFound)
				}
				k.Seal = seal
				pause(time.Millisecond)
				_ = b.Memory.RevokeKey(ctx, hash)
				return b.Memory.PutKey(ctx, k)
			}
		}},
		{"ResealKey does not look at the former seal", "KeyReseal", func(b *broken, _ *clock) {
			b.reseal = func(ctx context.Context, hash, _, seal []byte) error {
				k, _ := b.Memory.Key(ctx, hash)
				return b.Memory.ResealKey(ctx, hash, k.Seal, seal)
			}
		}},
		{"ResealKey looks at the former seal first and then writes", "KeyResealAtOnce", func(b *broken, _ *clock) {
			b.reseal = func(ctx context.Context, hash, was, seal []byte) error {
				k, err := b.Memory.Key(ctx, hash)
				if err != nil || !bytes.Equal(k.Seal, was) {
					return cmpErr(err, store.ErrNotFound)
				}
				pause(time.Millisecond)
				k, _ = b.Memory.Key(ctx, hash)
				return b.Memory.ResealKey(ctx, hash, k.Seal, seal)
			}
		}},
		{"RevokeKey does not mind", "KeyRevoke", func(b *broken, _ *clock) {
			b.revoke = func(ctx context.Context, hash []byte) error {
				if err := b.Memory.RevokeKey(ctx, hash); !errors.Is(err, store.ErrNotFound) {
					return err
				}
				return nil
			}
		}},
		{"RevokeKey does nothing", "KeyRevoke", func(b *broken, _ *clock) {
			b.revoke = func(ctx context.Context, hash []byte) error { _, err := b.Memory.Key(ctx, hash); return err }
		}},
		{"the mark stays when a key is revoked", "KeysUnless", func(b *broken, _ *clock) {
			b.revoke = func(ctx context.Context, hash []byte) error {
				err := b.Memory.RevokeKey(ctx, hash)
				b.unmark(err)
				return err
			}
		}},
		{"the mark stays when a key is sealed anew", "KeysUnless", func(b *broken, _ *clock) {
			b.reseal = func(ctx context.Context, hash, was, seal []byte) error {
				err := b.Memory.ResealKey(ctx, hash, was, seal)
				b.unmark(err)
				return err
			}
		}},
		{"the mark is made of the keys", "KeysUnless", func(b *broken, _ *clock) {
			b.unless = func(ctx context.Context, mark string) ([]store.Key, string, error) {
				all, err := b.Memory.Keys(ctx)
				if now := fmt.Sprint(all); err != nil || now != mark {
					return all, now, err
				}
				return nil, mark, nil
			}
		}},
		{"the mark is that of states, too", "KeysUnless", func(b *broken, _ *clock) {
			b.unless = func(ctx context.Context, mark string) ([]store.Key, string, error) {
				all, now, err := b.Memory.KeysUnless(ctx, "")
				b.mu.Lock()
				now += fmt.Sprint(b.states)
				b.mu.Unlock()
				if err == nil && now == mark {
					all = nil
				}
				return all, now, err
			}
		}},
		{"an unknown mark is the present one", "KeysUnless", func(b *broken, _ *clock) {
			b.unless = func(ctx context.Context, mark string) ([]store.Key, string, error) {
				all, now, err := b.Memory.KeysUnless(ctx, mark)
				if mark > now {
					all = nil
				}
				return all, now, err
			}
		}},
		{"the mark is newer than the keys", "KeysUnlessAtOnce", func(b *broken, _ *clock) {
			b.unless = func(ctx context.Context, mark string) ([]store.Key, string, error) {
				all, err := b.Memory.Keys(ctx)
				pause(time.Millisecond)
				_, now, _ := b.Memory.KeysUnless(ctx, mark)
				return all, now, err
			}
		}},
		{"the endpoints of a merchant are those of all", "EndpointsOf", func(b *broken, _ *clock) {
			b.of = func(ctx context.Context, _ ...string) ([]store.Endpoint, error) { return b.Memory.Endpoints(ctx) }
		}},
		{"the endpoints of one merchant alone", "EndpointsOf", func(b *broken, _ *clock) {
			b.of = func(ctx context.Context, merchants ...string) ([]store.Endpoint, error) {
				return b.Memory.EndpointsOf(ctx, merchants[:min(len(merchants), 1)]...)
			}
		}},
		{"all merchants have one mark", "EndpointMarks", func(b *broken, _ *clock) {
			b.marks = func(ctx context.Context, mark string) (map[string]string, string, error) {
				all, now, err := b.Memory.EndpointMarksUnless(ctx, mark)
				for merchant := range all {
					all[merchant] = now
				}
				return all, now, err
			}
		}},
		{"the mark of a merchant is made of its endpoints", "EndpointMarks", func(b *broken, _ *clock) {
			b.marks = func(ctx context.Context, mark string) (map[string]string, string, error) {
				all, now, err := b.Memory.EndpointMarksUnless(ctx, mark)
				for merchant := range all {
					rows, _ := b.Memory.EndpointsOf(ctx, merchant)
					all[merchant] = fmt.Sprint(rows)
				}
				return all, now, err
			}
		}},
		{"a merchant without endpoints has a mark", "EndpointMarks", func(b *broken, _ *clock) {
			b.marks = func(ctx context.Context, mark string) (map[string]string, string, error) {
				all, now, err := b.Memory.EndpointMarksUnless(ctx, mark)
				if all != nil {
					all["shop"] = cmp.Or(all["shop"], "none")
				}
				return all, now, err
			}
		}},
		{"the marks come each time", "EndpointMarks", func(b *broken, _ *clock) {
			b.marks = func(ctx context.Context, _ string) (map[string]string, string, error) {
				return b.Memory.EndpointMarksUnless(ctx, "")
			}
		}},
		{"contexts are ignored", "ContextEnded", func(b *broken, _ *clock) {
			b.create = func(ctx context.Context, t store.Txn) error {
				return b.Memory.Create(context.WithoutCancel(ctx), t)
			}
		}},
		{"an ended context writes all the same", "ContextEnded", func(b *broken, _ *clock) {
			b.create = func(ctx context.Context, t store.Txn) error {
				return errors.Join(b.Memory.Create(context.WithoutCancel(ctx), t), ctx.Err())
			}
		}},
		{"Ping fails", "Ping", func(b *broken, _ *clock) {
			b.ping = func(ctx context.Context) error { return cmpErr(ctx.Err(), errors.New("no")) }
		}},
		{"closed is called missing", "Closed", func(b *broken, _ *clock) {
			b.get = func(ctx context.Context, id string) (store.Txn, error) {
				x, err := b.Memory.Get(ctx, id)
				if err != nil && ctx.Err() == nil {
					err = store.ErrNotFound
				}
				return x, err
			}
		}},
		{"acknowledged is not kept", "Reopen", func(b *broken, _ *clock) {
			b.putKey = func(ctx context.Context, k store.Key) error { // on reopening, all keys are gone
				if _, err := b.Memory.Keys(ctx); err != nil {
					return err
				}
				b.mu.Lock()
				b.Memory.keys = map[string]store.Key{string(k.Hash): ownKey(k)}
				b.mu.Unlock()
				return nil
			}
		}},
	}...) {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				backend := memoryBackend(func(m *Memory, c *clock) store.Store {
					b := &broken{Memory: m}
					test.sabotage(b, c)
					return b
				})
				// What goes wrong only when two calls meet may need some tries.
				for range 50 {
					if fails(t, backend, test.fails) {
						return
					}
				}
				t.Errorf("%s passes", test.fails)
			})
		})
	}
}

// forgetful writes nothing that is lazy.
func forgetful(b *broken) func(context.Context, store.Txn, func(*store.Txn) error) error {
	return func(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
		errLazy := errors.New("lazy")
		err := b.Memory.Update(ctx, was, func(t *store.Txn) error {
			if err := change(t); err != nil || !t.Lazy {
				return err
			}
			return errLazy
		})
		if errors.Is(err, errLazy) {
			return nil
		}
		return err
	}
}

// lostUpdate reads, changes and writes in three steps.
func lostUpdate(b *broken) func(context.Context, store.Txn, func(*store.Txn) error) error {
	return func(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
		x, err := b.Memory.Get(ctx, was.ID)
		if err != nil {
			return err
		}
		pause(time.Millisecond) // lets the others read too
		if err := change(&x); err != nil {
			return err
		}
		b.set(ownCopy(x))
		return nil
	}
}

// unmark takes back what a change of the keys has made of their mark.
func (b *broken) unmark(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.changes--
	}
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
