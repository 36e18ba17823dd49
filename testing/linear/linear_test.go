package linear_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
	"github.com/openthreeds/threeds/testing/linear"
)

// clock is in milliseconds since 1970.
type clock struct{ atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.Store(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) now() time.Time { return time.UnixMilli(c.Load()) }

func (c *clock) pass(to int64) error {
	c.Store(to)
	return nil
}

var errLost = errors.New("connection lost")

// A shaky store does each write, or does not, and now and then does not say which.
// It lets others go first, so that calls meet.
type shaky struct{ store.Store }

func shake(do func() error) error {
	runtime.Gosched()
	lost := rand.IntN(60)
	if lost == 0 {
		return errLost
	}
	err := do()
	runtime.Gosched()
	if lost == 1 {
		return errLost
	}
	return err
}

func (s shaky) Create(ctx context.Context, t store.Txn) error {
	return shake(func() error { return s.Store.Create(ctx, t) })
}

func (s shaky) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	return shake(func() error { return s.Store.Update(ctx, was, change) })
}

func (s shaky) RevokeKey(ctx context.Context, hash []byte) error {
	return shake(func() error { return s.Store.RevokeKey(ctx, hash) })
}

func (s shaky) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (l store.Lease, err error) {
	err = shake(func() error { l, err = s.Store.Acquire(ctx, name, holder, ttl); return err })
	if err != nil {
		return store.Lease{}, err
	}
	return l, nil
}

func (s shaky) PutState(ctx context.Context, key string, value []byte, l store.Lease) error {
	return shake(func() error { return s.Store.PutState(ctx, key, value, l) })
}

func (s shaky) PutSnapshot(ctx context.Context, g store.Snapshot, l store.Lease, content io.Reader, keep int) error {
	return shake(func() error { return s.Store.PutSnapshot(ctx, g, l, content, keep) })
}

func bed(c *clock, s store.Store, faults ...linear.Fault) linear.Bed {
	known := new(linear.Known)
	return linear.Bed{
		Do:    func(ctx context.Context, _ int, call linear.Call) linear.Answer { return call.On(ctx, known.Of(s)) },
		Nodes: 1, Now: c.Load(), Pass: c.pass, Faults: faults,
	}
}

// TestGood: what keeps the contract is found to, though much goes wrong.
func TestGood(t *testing.T) {
	c := newClock()
	linear.Run(t, bed(c, shaky{storetest.NewMemory(c.now)}), 10_000, linear.Artifacts()).Expect(t)
}

// A stale store reads from a copy that lags behind.
type stale struct {
	store.Store
	mu  sync.Mutex
	old map[string]store.Txn
}

func (s *stale) Get(ctx context.Context, id string) (store.Txn, error) {
	t, err := s.Store.Get(ctx, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.old[id]
	if err != nil {
		return t, err
	}
	if !ok || rand.IntN(10) == 0 {
		s.old[id] = t
	}
	if ok && rand.IntN(20) == 0 {
		return old, nil
	}
	return t, nil
}

// A hasty store acknowledges transactions before they are on its disk, which is a
// log of them. A crash takes what is not.
type hasty struct {
	store.Store
	mu   sync.Mutex
	disk []func(s store.Store)
	sure int // how many of those are on the disk
}

func (s *hasty) note(err error, write func(s store.Store)) error {
	if err == nil {
		s.disk = append(s.disk, write)
	}
	if len(s.disk)-s.sure >= 8 {
		s.sure = len(s.disk)
	}
	return err
}

func (s *hasty) Create(ctx context.Context, t store.Txn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.note(s.Store.Create(ctx, t), func(s store.Store) { _ = s.Create(context.Background(), t) })
}

func (s *hasty) Get(ctx context.Context, id string) (store.Txn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Store.Get(ctx, id)
}

func (s *hasty) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var made store.Txn
	err := s.Store.Update(ctx, was, func(t *store.Txn) error {
		err := change(t)
		made = *t
		return err
	})
	return s.note(err, func(s store.Store) {
		_ = s.Update(context.Background(), store.Txn{ID: was.ID}, func(t *store.Txn) error { *t = made; return nil })
	})
}

func (s *hasty) crash() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk = s.disk[:s.sure]
	if _, err := s.Sweep(context.Background(), time.UnixMilli(1<<60)); err != nil {
		return err
	}
	for _, write := range s.disk {
		write(s.Store)
	}
	return nil
}

// A generous store gives an id to everybody who found it free.
type generous struct{ store.Store }

func (s generous) Create(ctx context.Context, t store.Txn) error {
	_, err := s.Get(ctx, t.ID)
	free := errors.Is(err, store.ErrNotFound)
	time.Sleep(50 * time.Microsecond) // so that others look too
	if err := s.Store.Create(ctx, t); err != nil && !(free && errors.Is(err, store.ErrExists)) {
		return err
	}
	return nil
}

// A forgetful store takes an update for one that nothing came between.
type forgetful struct{ store.Store }

func (s forgetful) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	t, err := s.Get(ctx, was.ID)
	if err != nil {
		return err
	}
	if err := change(&t); err != nil {
		return err
	}
	time.Sleep(50 * time.Microsecond)
	return s.Store.Update(ctx, store.Txn{ID: was.ID}, func(now *store.Txn) error { *now = t; return nil })
}

// A stubborn store tries again what may have happened.
type stubborn struct{ store.Store }

func (s stubborn) Create(ctx context.Context, t store.Txn) error {
	err := s.Store.Create(ctx, t)
	if err == nil && rand.IntN(20) == 0 {
		return s.Store.Create(ctx, t)
	}
	return err
}

// A late store finds what has expired, for a while.
type late struct {
	store.Store
	c *clock
}

func lateOf(c *clock) store.Store {
	return late{storetest.NewMemory(func() time.Time { return c.now().Add(-40 * time.Millisecond) }), c}
}

// A half store may write one field of an update and not the others.
type half struct{ store.Store }

func (s half) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	return s.Store.Update(ctx, was, func(t *store.Txn) error {
		old := t.Data
		err := change(t)
		if rand.IntN(50) == 0 {
			t.Data = old
		}
		return err
	})
}

// A lax store takes the newest lease of whoever asks.
type lax struct {
	store.Store
	mu     sync.Mutex
	newest map[string]store.Lease
}

func (s *lax) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.Store.Acquire(ctx, name, holder, ttl)
	if err == nil {
		s.newest[name] = l
	}
	return l, err
}

func (s *lax) PutState(ctx context.Context, key string, value []byte, l store.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Store.PutState(ctx, key, value, s.newest[l.Name])
}

// A shared store renews a lease for whoever asks.
type shared struct{ store.Store }

func (s shared) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	l, err := s.Store.Acquire(ctx, name, "anybody", ttl)
	l.Holder = holder
	return l, err
}

// An undead store brings a revoked key back.
type undead struct{ store.Store }

func (s undead) RevokeKey(ctx context.Context, hash []byte) error {
	k, err := s.Key(ctx, hash)
	if err == nil {
		err = s.Store.RevokeKey(ctx, hash)
	}
	if err == nil && rand.IntN(4) == 0 {
		_ = s.PutKey(context.WithoutCancel(ctx), k)
	}
	return err
}

// A silent store says of some keys that are revoked nothing to who knows them.
type silent struct {
	store.Store
	same atomic.Int32 // changes that are not told
}

func (s *silent) RevokeKey(ctx context.Context, hash []byte) error {
	err := s.Store.RevokeKey(ctx, hash)
	if err == nil && rand.IntN(4) == 0 {
		s.same.Add(1)
	}
	return err
}

func (s *silent) KeysUnless(ctx context.Context, mark string) ([]store.Key, string, error) {
	keys, now, err := s.Store.KeysUnless(ctx, mark)
	if err == nil && now != mark && mark != "" && s.same.Swap(0) > 0 {
		return nil, mark, nil
	}
	return keys, now, err
}

// A blurred store shows the content of another snapshot.
type blurred struct{ store.Store }

func (s blurred) OpenSnapshot(ctx context.Context, scheme string, generation int64) (io.ReadCloser, error) {
	r, err := s.Store.OpenSnapshot(ctx, scheme, generation)
	if err == nil && rand.IntN(4) == 0 {
		err = r.Close()
		r = io.NopCloser(strings.NewReader("v0"))
	}
	return r, err
}

// TestBroken: every way to break the contract is noticed, most of them within a
// thousand calls.
func TestBroken(t *testing.T) {
	c := newClock()
	memory := func() store.Store { return storetest.NewMemory(c.now) }
	lost := &hasty{Store: memory()}
	for name, b := range map[string]linear.Bed{
		"stale reads":                    bed(c, &stale{Store: memory(), old: make(map[string]store.Txn)}),
		"acknowledged, then lost":        bed(c, lost, linear.Fault{Name: "crash", Every: 1, Do: lost.crash}),
		"two claims win":                 bed(c, generous{memory()}),
		"lost updates":                   bed(c, forgetful{memory()}),
		"tried again":                    bed(c, stubborn{memory()}),
		"found though expired":           bed(c, lateOf(c)),
		"half an update":                 bed(c, half{memory()}),
		"written under somebody's lease": bed(c, &lax{Store: memory(), newest: make(map[string]store.Lease)}),
		"a lease for two":                bed(c, shared{memory()}),
		"a revoked key that works":       bed(c, undead{memory()}),
		"a revoked key, unheard of":      bed(c, &silent{Store: memory()}),
		"a snapshot of something else":   bed(c, blurred{memory()}),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			report := linear.Run(t, b, 100_000, dir)
			if len(report.Violations) == 0 {
				t.Fatal("not noticed")
			}
			if pages, err := os.ReadDir(dir); err != nil || len(pages) != len(report.Violations) {
				t.Errorf("%d pages for %d violations, %v", len(pages), len(report.Violations), err)
			}
		})
	}
}

// TestArtifactsAreAtTheRoot: pages of violations are where CI looks for them, and not in the module of the tests.
func TestArtifactsAreAtTheRoot(t *testing.T) {
	if _, err := os.Stat(filepath.Join(filepath.Dir(linear.Artifacts()), "ARCHITECTURE.md")); err != nil {
		t.Errorf("pages go to %s: %v", linear.Artifacts(), err)
	}
}
