package storetest

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// acquire takes a lease that no other holder has.
func (c *check) acquire(name, holder string, ttl time.Duration) store.Lease {
	c.Helper()
	want := store.Lease{Name: name, Holder: holder, Expires: expiryOf(c.Now(), ttl)}
	got, err := c.s.Acquire(c.Context(), name, holder, ttl)
	if err != nil {
		c.Fatalf("Acquire(%q, %q): %v", name, holder, err)
	}
	want.Token = got.Token
	if got != want || got.Token <= 0 {
		c.Errorf("Acquire = %+v, want %+v", got, want)
	}
	return got
}

// expiryOf returns when a lease ends that is acquired now: both times are cut.
func expiryOf(now time.Time, ttl time.Duration) time.Time {
	return now.UTC().Truncate(time.Millisecond).Add(ttl.Truncate(time.Millisecond))
}

// wantHeld checks that a holder cannot acquire a lease.
func (c *check) wantHeld(name, holder string) {
	c.Helper()
	if got, err := c.s.Acquire(c.Context(), name, holder, time.Hour); !errors.Is(err, store.ErrHeld) || got != (store.Lease{}) {
		c.Errorf("Acquire(%q, %q) = %+v, %v; want ErrHeld", name, holder, got, err)
	}
}

func (c *check) release(l store.Lease) {
	c.Helper()
	if err := c.s.Release(c.Context(), l); err != nil {
		c.Errorf("Release(%+v): %v", l, err)
	}
}

// wantGood checks that a write under a lease succeeds, wantFenced that it is refused.
func (c *check) wantGood(l store.Lease) {
	c.Helper()
	if err := c.s.PutState(c.Context(), "probe", nil, l); err != nil {
		c.Errorf("write under %+v: %v", l, err)
	}
}

func (c *check) wantFenced(l store.Lease) {
	c.Helper()
	if err := c.s.PutState(c.Context(), "probe", []byte("bad"), l); !errors.Is(err, store.ErrFenced) {
		c.Errorf("write under %+v: %v, want ErrFenced", l, err)
	}
}

func testLease(c *check) {
	c.acquire("visa", "a", time.Minute)
	c.acquire("mastercard", "b", time.Minute)
	c.wantHeld("visa", "b")
	c.wantHeld("visa", "A")
	c.wantHeld("visa", "")
	c.wantHeld("mastercard", "a")
	c.acquire("", "", time.Minute)
	c.acquire("VISA", "'; DROP TABLE x", time.Minute)
	c.wantHeld("", "a")
	c.acquire("odd", "a", time.Minute+999_999) // checks that it is cut
	if l := c.acquire("no time", "a", 0); l.Expires.After(c.Now()) {
		c.Errorf("a lease for no time is %+v, want it expired", l)
	}
	c.acquire("no time", "b", -time.Second)
	c.acquire("no time", "c", time.Second)
}

func testLeaseRenew(c *check) {
	first := c.acquire("visa", "a", time.Minute)
	for _, ttl := range []time.Duration{time.Minute, time.Hour, time.Second} {
		c.Pass(time.Millisecond)
		if l := c.acquire("visa", "a", ttl); l.Token != first.Token {
			c.Errorf("token is %d after renewal, want the same as before, %d", l.Token, first.Token)
		}
		c.wantHeld("visa", "b")
		c.wantGood(first)
	}
	c.Pass(time.Second - time.Millisecond)
	c.wantHeld("visa", "b")
	c.Pass(time.Millisecond)
	c.acquire("visa", "b", time.Minute)
}

func testLeaseExpiry(c *check) {
	c.acquire("visa", "a", time.Second)
	c.acquire("same", "a", time.Second)
	c.acquire("later", "a", time.Second)
	c.Pass(time.Second - time.Millisecond)
	c.wantHeld("visa", "b")
	c.wantHeld("later", "b")
	c.Pass(time.Millisecond)
	c.acquire("visa", "b", time.Second)
	c.wantHeld("visa", "a")
	c.Pass(time.Millisecond)
	c.acquire("later", "b", time.Second)
	c.wantHeld("later", "a")
	c.acquire("same", "a", time.Second)
}

// testLeaseTokens: a holder that acquires a lease again gets a greater token, however the previous holding ended, and
// the previous lease is fenced.
func testLeaseTokens(c *check) {
	other := c.acquire("other", "a", time.Hour)
	last := c.acquire("visa", "a", time.Second)
	next := func(how, holder string) {
		c.Helper()
		l := c.acquire("visa", holder, time.Second)
		if l.Token <= last.Token {
			c.Errorf("token after %s is %d, want more than before, %d", how, l.Token, last.Token)
		}
		c.wantGood(l)
		c.wantFenced(last)
		last = l
	}
	c.Pass(time.Second)
	next("its end", "b")
	c.Pass(time.Second)
	next("its end, by the same holder", "b")
	c.release(last)
	next("release", "a")
	c.release(last)
	next("release, by the same holder", "a")
	c.Pass(1000 * time.Hour)
	if _, err := c.s.Sweep(c.Context(), c.Now()); err != nil {
		c.Errorf("Sweep: %v", err)
	}
	next("a long time and Sweep", "c")
	c.wantGood(other)
}

func testLeaseRelease(c *check) {
	l := c.acquire("visa", "a", time.Hour)
	for _, not := range []store.Lease{
		{}, {Name: "unknown", Holder: "a", Token: l.Token}, {Name: "visa", Holder: "b", Token: l.Token},
		{Name: "visa", Holder: "a", Token: l.Token + 1}, {Name: "visa", Holder: "a", Token: l.Token - 1},
	} {
		c.release(not)
		c.wantHeld("visa", "b")
	}
	c.release(store.Lease{Name: l.Name, Holder: l.Holder, Token: l.Token}) // Expires does not count
	c.wantFenced(l)
	c.release(l)
	next := c.acquire("visa", "b", time.Hour)
	c.release(l)
	c.wantHeld("visa", "a")
	c.wantGood(next)
	c.Pass(time.Hour)
	c.release(next)
	c.wantFenced(next)
}

func testLeaseFences(c *check) {
	l := c.acquire("visa", "a", time.Second)
	c.wantGood(store.Lease{Name: l.Name, Holder: l.Holder, Token: l.Token})
	for _, not := range []store.Lease{
		{}, {Name: "unknown", Holder: "a", Token: l.Token}, {Name: "visa", Holder: "b", Token: l.Token},
		{Name: "visa", Holder: "", Token: l.Token},
		{Name: "visa", Holder: "a", Token: l.Token + 1}, {Name: "visa", Holder: "a", Token: l.Token - 1},
		{Name: "visa", Holder: "a", Token: math.MaxInt64},
	} {
		c.wantFenced(not)
	}
	c.Pass(time.Second)
	c.wantGood(l) // over, but no other holder came after it
	c.Pass(1000 * time.Hour)
	c.wantGood(l)
	c.acquire("visa", "a", time.Second)
	c.wantFenced(l)
}

func testLeaseAtOnce(c *check) {
	last := int64(0)
	for range 3 {
		leases := make([]store.Lease, crowd)
		won := leases[c.oneWins("Acquire", func(i int) (err error) {
			leases[i], err = c.s.Acquire(c.Context(), "visa", strconv.Itoa(i), time.Second)
			return err
		}, store.ErrHeld)]
		if won.Token <= last {
			c.Errorf("token is %d, want more than before, %d", won.Token, last)
		}
		last = won.Token
		c.Pass(time.Second)
	}
}

func (c *check) putState(key, value string, l store.Lease) {
	c.Helper()
	if err := c.s.PutState(c.Context(), key, []byte(value), l); err != nil {
		c.Errorf("PutState(%q): %v", key, err)
	}
}

func (c *check) wantState(key, want string) {
	c.Helper()
	if got, err := c.s.State(c.Context(), key); err != nil || string(got) != want {
		c.Errorf("State(%q) = %.40q, %v; want %.40q", key, got, err, want)
	}
}

func (c *check) wantNoState(key string) {
	c.Helper()
	if got, err := c.s.State(c.Context(), key); !errors.Is(err, store.ErrNotFound) || got != nil {
		c.Errorf("State(%q) = %.40q, %v; want ErrNotFound", key, got, err)
	}
}

func testState(c *check) {
	l := c.acquire("visa", "a", time.Minute)
	c.wantNoState("k")
	c.putState("k", "one", l)
	c.wantState("k", "one")
	for _, key := range []string{"", "K", "k "} {
		c.wantNoState(key)
	}
	most := string(bytes.Repeat([]byte{0, 0xff, '\''}, store.MaxValue))[:store.MaxValue]
	for _, value := range []string{"two", "", most, "a\x00b"} {
		c.putState("k", value, l)
		c.wantState("k", value)
	}
	if err := c.s.PutState(c.Context(), "k", make([]byte, store.MaxValue+1), l); !errors.Is(err, store.ErrTooLarge) {
		c.Errorf("PutState of too much: %v, want ErrTooLarge", err)
	}
	c.wantState("k", "a\x00b")
	if err := c.s.PutState(c.Context(), "nil", nil, l); err != nil {
		c.Errorf("PutState of nil: %v", err)
	}
	c.wantState("nil", "")
	// The key has nothing to do with the name of the lease.
	c.putState("k", "other", c.acquire("other", "b", time.Minute))
	c.wantState("k", "other")
	c.Pass(1000 * time.Hour)
	if n, err := c.s.Sweep(c.Context(), c.Now()); n != 0 || err != nil {
		c.Errorf("Sweep = %d, %v; want 0", n, err)
	}
	c.wantState("k", "other")
}

func testStateFenced(c *check) {
	l := c.acquire("visa", "a", time.Second)
	c.putState("k", "one", l)
	c.Pass(time.Second)
	next := c.acquire("visa", "b", time.Second)
	for _, key := range []string{"k", "new"} {
		if err := c.s.PutState(c.Context(), key, []byte("late"), l); !errors.Is(err, store.ErrFenced) {
			c.Errorf("PutState(%q) of the holder before: %v, want ErrFenced", key, err)
		}
	}
	c.wantState("k", "one")
	c.wantNoState("new")
	c.putState("k", "two", next)
	c.wantState("k", "two")
}

// testStateAtOnce gives the lease to another holder while the old one goes on writing: once the new holder has it,
// every write of the old one is refused.
func testStateAtOnce(c *check) {
	old := c.acquire("visa", "old", time.Second)
	var taken atomic.Bool
	together(func(i int) {
		if i == 0 {
			c.Pass(time.Second)
			next, err := c.s.Acquire(c.Context(), "visa", "new", time.Hour)
			if err != nil {
				c.Errorf("Acquire: %v", err)
			}
			taken.Store(true)
			c.putState("k", "new", next)
			return
		}
		for range 8 {
			late := taken.Load()
			err := c.s.PutState(c.Context(), "k", []byte("old"), old)
			if err != nil && !errors.Is(err, store.ErrFenced) || err == nil && late {
				c.Errorf("PutState, with the lease lost before: %t: %v, want nil (only if not) or ErrFenced", late, err)
			}
		}
	})
	c.wantState("k", "new")
}

func testStateNoReference(c *check) {
	l := c.acquire("visa", "a", time.Minute)
	given := []byte("value")
	if err := c.s.PutState(c.Context(), "k", given, l); err != nil {
		c.Errorf("PutState: %v", err)
	}
	clear(given)
	got, err := c.s.State(c.Context(), "k")
	if err != nil {
		c.Errorf("State: %v", err)
	}
	clear(got)
	c.wantState("k", "value")
}

// testShareLeases: leases, fences and states of one opening of a store count in the other.
func testShareLeases(c *check) {
	other := c.shared()
	defer other.s.Close() // the data is no longer needed
	l := c.acquire("visa", "a", time.Second)
	other.wantHeld("visa", "b")
	other.wantGood(l)
	c.putState("k", "one", l)
	other.wantState("k", "one")
	c.Pass(time.Second)
	next := other.acquire("visa", "b", time.Hour)
	c.wantFenced(l)
	c.wantHeld("visa", "a")
	if next.Token <= l.Token {
		c.Errorf("token is %d, want more than before, %d", next.Token, l.Token)
	}
	c.release(next)
	other.wantFenced(next)
	sides := []*check{c, other}
	leases := make([]store.Lease, crowd)
	won := leases[c.oneWins("Acquire", func(i int) (err error) {
		leases[i], err = sides[i%2].s.Acquire(c.Context(), "visa", strconv.Itoa(i), time.Hour)
		return err
	}, store.ErrHeld)]
	if won.Token <= next.Token {
		c.Errorf("token is %d, want more than before, %d", won.Token, next.Token)
	}
	c.wantGood(won)
	other.wantGood(won)
}
