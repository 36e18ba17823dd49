package storetest

// This file is one idea: a test for each sentence about transactions.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// crowd is how many goroutines do a thing at the same time.
const crowd = 32

// together calls f(0) to f(crowd-1) at once, each in a goroutine, and waits. f must not
// call Fatal.
func together(f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range crowd {
		wg.Go(func() { <-start; f(i) })
	}
	close(start)
	wg.Wait()
}

// oneWins lets a crowd make the same call at once, and returns the one that succeeded. It wants one call to succeed,
// and all others to get one of the errors lost.
func (c *check) oneWins(call string, f func(i int) error, lost ...error) (winner int) {
	c.Helper()
	var mu sync.Mutex
	var won []int
	together(func(i int) {
		switch err := f(i); {
		case err == nil:
			mu.Lock()
			defer mu.Unlock()
			won = append(won, i)
		case !slices.ContainsFunc(lost, func(fact error) bool { return errors.Is(err, fact) }):
			c.Errorf("%s: %v, want nil or one of %v", call, err, lost)
		}
	})
	if len(won) != 1 {
		c.Fatalf("%s: %d of %d at once succeeded, want 1", call, len(won), crowd)
	}
	return won[0]
}

func testCreateGet(c *check) {
	c.want(c.create("a", time.Minute))
	c.create("b", time.Minute)
	c.want(c.txn("a", time.Minute))
	for i, data := range [][]byte{nil, {}, {0}, []byte("a\x00b\xff'\";--"), []byte(strings.Repeat("x", 300_000))} {
		x := c.txn(fmt.Sprint("data", i), time.Minute)
		x.Data = data
		if err := c.s.Create(c.Context(), x); err != nil {
			c.Errorf("Create with %d bytes of data: %v", len(data), err)
		}
		c.want(x)
	}
	odd := c.txn("Ünïcode ' \" -- 1", time.Minute)
	odd.Owner, odd.Scheme, odd.State = "", "'; DROP TABLE x", "⚙"
	if err := c.s.Create(c.Context(), odd); err != nil {
		c.Errorf("Create with odd texts: %v", err)
	}
	c.want(odd)
}

func testCreateTwice(c *check) {
	first := c.create("a", time.Minute)
	second := c.txn("a", time.Hour)
	second.Owner, second.Data = "another", []byte("other")
	if err := c.s.Create(c.Context(), second); !errors.Is(err, store.ErrExists) {
		c.Errorf("second Create: %v, want ErrExists", err)
	}
	c.want(first)
}

func testCreateAtOnce(c *check) {
	txns := make([]store.Txn, crowd)
	for i := range txns {
		txns[i] = c.txn("a", time.Minute)
		txns[i].Owner = strconv.Itoa(i)
	}
	c.want(txns[c.oneWins("Create", func(i int) error { return c.s.Create(c.Context(), txns[i]) }, store.ErrExists)])
}

func testGetMissing(c *check) {
	c.create("a", time.Minute)
	for _, id := range []string{"", "b", "A", "a "} {
		c.wantMissing(id)
	}
}

func testNoReference(c *check) {
	given := c.txn("a", time.Minute)
	want := c.txn("a", time.Minute)
	if err := c.s.Create(c.Context(), given); err != nil {
		c.Fatalf("Create: %v", err)
	}
	clear(given.Data)
	c.want(want)
	got, err := c.s.Get(c.Context(), "a")
	if err != nil {
		c.Fatalf("Get: %v", err)
	}
	clear(got.Data)
	c.want(want)
	var kept []byte
	c.update("a", func(t *store.Txn) { kept = t.Data })
	clear(kept)
	c.want(want)
	mine := []byte("mine")
	c.update("a", func(t *store.Txn) { t.Data = mine })
	clear(mine)
	want.Data = []byte("mine")
	c.want(want)
}

func testMilliseconds(c *check) {
	x := c.txn("a", time.Minute)
	want := x
	x.Expires = x.Expires.Add(999_999 * time.Nanosecond).In(time.FixedZone("", 3600))
	if err := c.s.Create(c.Context(), x); err != nil {
		c.Fatalf("Create: %v", err)
	}
	c.want(want)
	c.update("a", func(t *store.Txn) { t.Expires = x.Expires.Add(time.Second) })
	want.Expires = want.Expires.Add(time.Second)
	c.want(want)
}

func testUpdate(c *check) {
	x := c.create("a", time.Minute)
	other := c.create("b", time.Minute)
	next := store.Txn{ID: "a", Owner: "o", Scheme: "s", State: "final", Data: []byte("d"), Expires: x.Expires.Add(time.Hour)}
	c.update("a", func(t *store.Txn) {
		if !same(*t, x) {
			c.Errorf("change sees %+v, want %+v", *t, x)
		}
		*t = next
	})
	c.want(next)
	c.want(other)
}

func testUpdateMissing(c *check) {
	c.create("b", time.Minute)
	c.wantMissing("a")
}

func testUpdateError(c *check) {
	x := c.create("a", time.Minute)
	for _, stop := range []error{errors.New("stop"), store.ErrExists, fmt.Errorf("odd: %w", context.Canceled)} {
		err := c.s.Update(c.Context(), store.Txn{ID: "a"}, func(t *store.Txn) error {
			clear(t.Data)
			t.State, t.Owner, t.Expires = "final", "x", time.Time{}
			return stop
		})
		if err != stop { // the contract says: as it is
			c.Errorf("Update: %v, want the error of change as it is", err)
		}
		c.want(x)
	}
}

func testUpdateID(c *check) {
	x := c.create("a", time.Minute)
	c.update("a", func(t *store.Txn) { t.ID = "b"; t.State = "final" })
	x.State = "final"
	c.want(x)
	c.wantMissing("b")
}

// testUpdateRead updates what Get returned: just now, before another update, before the
// transaction expired, and before it was swept and its id created again.
func testUpdateRead(c *check) {
	x := c.create("a", time.Minute)
	was := c.get("a")
	add := func() error {
		return c.s.Update(c.Context(), was, func(t *store.Txn) error {
			t.ID, t.Version, t.Data = "b", 0, append(bytes.Clone(t.Data), '+')
			return nil
		})
	}
	for range 3 {
		if err := add(); err != nil {
			c.Errorf("Update: %v", err)
		}
		x.Data = append(x.Data, '+')
		c.want(x)
	}
	if now := c.get("a"); now.Version == was.Version {
		c.Errorf("Version %d after updates, want another one than before", now.Version)
	}
	stop := errors.New("stop")
	if err := c.s.Update(c.Context(), was, func(*store.Txn) error { return stop }); err != stop { // the contract says: as it is
		c.Errorf("Update: %v, want the error of change as it is", err)
	}
	c.want(x)
	c.Pass(time.Minute)
	for range 2 {
		if err := add(); !errors.Is(err, store.ErrNotFound) {
			c.Errorf("Update after the end: %v, want ErrNotFound", err)
		}
		if _, err := c.s.Sweep(c.Context(), c.Now()); err != nil {
			c.Errorf("Sweep: %v", err)
		}
	}
	x = c.txn("a", time.Hour)
	x.Owner = "another"
	if err := errors.Join(c.s.Create(c.Context(), x), add()); err != nil {
		c.Error(err)
	}
	x.Data = append(x.Data, '+')
	c.want(x)
}

// testUpdateMade updates what was created, without reading it: just now, after another update, and after it was swept
// and its id created again. Only the first time change sees what it was given.
func testUpdateMade(c *check) {
	x := c.txn("a", time.Minute)
	x.Version = store.NewVersion()
	if err := c.s.Create(c.Context(), x); err != nil {
		c.Fatalf("Create: %v", err)
	}
	if got := c.get("a"); got.Version != x.Version {
		c.Errorf("Get returns the version %d, want that of Create, %d", got.Version, x.Version)
	}
	if err := c.s.Create(c.Context(), x); !errors.Is(err, store.ErrExists) {
		c.Errorf("second Create: %v, want ErrExists", err)
	}
	was := x
	was.Data = nil // change does not look at it
	update := func(data string, want ...string) {
		c.Helper()
		var seen []string
		err := c.s.Update(c.Context(), was, func(t *store.Txn) error {
			seen = append(seen, string(t.State)+" "+string(t.Data))
			t.State, t.Data = store.State(data), []byte(data)
			return nil
		})
		if err != nil || !slices.Equal(seen, want) {
			c.Errorf("Update: %v, and change sees %q, want %q", err, seen, want)
		}
		x.State, x.Data = store.State(data), []byte(data)
		c.want(x)
	}
	update("first", "sent ")
	update("second", "sent ", "first first")
	c.Pass(time.Minute)
	if _, err := c.s.Sweep(c.Context(), c.Now()); err != nil {
		c.Errorf("Sweep: %v", err)
	}
	x = c.create("a", time.Hour)
	was.Expires = x.Expires
	update("third", "sent ", "sent data of a")
}

// testPlain: what was sealed is the caller's alone.
func testPlain(c *check) {
	x := c.txn("a", time.Minute)
	x.Plain = "plain"
	if err := c.s.Create(c.Context(), x); err != nil {
		c.Fatalf("Create: %v", err)
	}
	for _, was := range []store.Txn{{ID: "a", Plain: "plain"}, c.get("a"), {ID: "a"}} {
		if was.Version != 0 {
			was.Plain = "plain"
		}
		err := c.s.Update(c.Context(), was, func(t *store.Txn) error {
			if t.Plain != nil {
				c.Errorf("change sees Plain, want it always nil")
			}
			t.Plain = "plain"
			return nil
		})
		if err != nil {
			c.Errorf("Update: %v", err)
		}
		if c.get("a").Plain != nil {
			c.Errorf("Get returns Plain, want it always nil")
		}
	}
}

// testUpdateLazily mixes changes that may be lost with others.
func testUpdateLazily(c *check) {
	x := c.create("a", time.Minute)
	for i, lazy := range []bool{true, true, false, true} {
		was := c.get("a")
		if was.Lazy {
			c.Errorf("Get returns Lazy, want it always false")
		}
		if was.Lazy = true; i%2 == 0 {
			was = store.Txn{ID: "a", Lazy: true}
		}
		err := c.s.Update(c.Context(), was, func(t *store.Txn) error {
			if t.Lazy {
				c.Errorf("change sees Lazy, want it false")
			}
			t.Data, t.Lazy = append(bytes.Clone(t.Data), '+'), lazy
			return nil
		})
		if err != nil {
			c.Errorf("Update: %v", err)
		}
		x.Data = append(x.Data, '+')
		c.want(x)
	}
	stop := errors.New("stop")
	err := c.s.Update(c.Context(), store.Txn{ID: "a"}, func(t *store.Txn) error { t.Data, t.Lazy = nil, true; return stop })
	if err != stop { // the contract says: as it is
		c.Errorf("Update: %v, want the error of change as it is", err)
	}
	c.want(x)
	c.Pass(time.Minute)
	c.wantMissing("a")
	y := c.txn("b", time.Minute)
	y.Lazy = true // not for Create
	if err := c.s.Create(c.Context(), y); err != nil {
		c.Errorf("Create: %v", err)
	}
	if c.get("b").Lazy {
		c.Errorf("Get returns Lazy, want it always false")
	}
}

func testUpdateIsAtomic(c *check) {
	x := c.txn("a", time.Minute)
	x.Data = []byte("0")
	if err := c.s.Create(c.Context(), x); err != nil {
		c.Fatalf("Create: %v", err)
	}
	together(func(int) {
		err := c.s.Update(c.Context(), store.Txn{ID: "a"}, func(t *store.Txn) error {
			n, err := strconv.Atoi(string(t.Data))
			t.Data = strconv.AppendInt(nil, int64(n+1), 10)
			return err
		})
		if err != nil {
			c.Errorf("Update: %v", err)
		}
	})
	x.Data = strconv.AppendInt(nil, crowd, 10)
	c.want(x)
}

// testUpdateOnce is what an engine does with a second result: the first one wins.
func testUpdateOnce(c *check) {
	c.create("a", time.Minute)
	late := errors.New("late")
	var won atomic.Int32
	var winner atomic.Value
	together(func(i int) {
		err := c.s.Update(c.Context(), store.Txn{ID: "a"}, func(t *store.Txn) error {
			if t.State != "sent" {
				return late
			}
			t.State, t.Data = "result", []byte(strconv.Itoa(i))
			return nil
		})
		switch err {
		case nil:
			won.Add(1)
			winner.Store(strconv.Itoa(i))
		case late:
		default:
			c.Errorf("Update: %v", err)
		}
	})
	if n := won.Load(); n != 1 {
		c.Fatalf("%d of %d Updates succeeded, want 1", n, crowd)
	}
	if got, err := c.s.Get(c.Context(), "a"); err != nil || string(got.Data) != winner.Load() {
		c.Errorf("Get = %q, %v; want what the winner wrote, %q", got.Data, err, winner.Load())
	}
}

// testWritesAtOnce makes writes that succeed and writes that fail, of many ids, at once:
// none of them affects another.
func testWritesAtOnce(c *check) {
	c.create("taken", time.Minute)
	stop := errors.New("stop")
	together(func(i int) {
		id := fmt.Sprint("id", i)
		for n := range 8 {
			x := c.txn(fmt.Sprint(id, "-", n), time.Minute)
			if err := c.s.Create(c.Context(), x); err != nil {
				c.Errorf("Create: %v", err)
			}
			if err := c.s.Create(c.Context(), c.txn("taken", time.Minute)); !errors.Is(err, store.ErrExists) {
				c.Errorf("Create of a taken id: %v, want ErrExists", err)
			}
			if err := c.s.Update(c.Context(), store.Txn{ID: x.ID}, func(t *store.Txn) error { t.State = "bad"; return stop }); err != stop {
				c.Errorf("Update: %v, want the error of change", err)
			}
			if err := c.s.Update(c.Context(), store.Txn{ID: x.ID}, func(t *store.Txn) error { t.State = "final"; return nil }); err != nil {
				c.Errorf("Update: %v", err)
			}
			x.State = "final"
			c.want(x)
		}
	})
	c.want(c.txn("taken", time.Minute))
}

func testExpiry(c *check) {
	x := c.create("a", time.Second)
	long := c.create("b", time.Hour)
	c.Pass(time.Second - time.Millisecond)
	c.want(x)
	c.update("a", func(*store.Txn) {})
	was := c.get("a")
	c.Pass(time.Millisecond)
	c.wantMissing("a")
	if err := c.s.Update(c.Context(), was, func(*store.Txn) error { return nil }); !errors.Is(err, store.ErrNotFound) {
		c.Errorf("Update of one that was read before it expired: %v, want ErrNotFound", err)
	}
	c.Pass(time.Millisecond)
	c.wantMissing("a")
	c.want(long)
}

func testExpiryChanges(c *check) {
	x := c.create("shorter", time.Hour)
	y := c.create("longer", time.Second)
	c.create("gone", time.Hour)
	now := x.Expires.Add(-time.Hour)
	c.update("shorter", func(t *store.Txn) { t.Expires = now.Add(2 * time.Second) })
	c.update("longer", func(t *store.Txn) { t.Expires = now.Add(3 * time.Second) })
	c.update("gone", func(t *store.Txn) { t.Expires = now })
	c.wantMissing("gone")
	x.Expires, y.Expires = now.Add(2*time.Second), now.Add(3*time.Second)
	c.Pass(2*time.Second - time.Millisecond)
	c.want(x)
	c.Pass(time.Millisecond)
	c.wantMissing("shorter")
	c.want(y)
	c.Pass(time.Second)
	c.wantMissing("longer")
}

func testExpiredStaysTaken(c *check) {
	c.create("a", time.Second)
	past := c.txn("past", -time.Minute)
	if err := c.s.Create(c.Context(), past); err != nil {
		c.Errorf("Create of an expired transaction: %v", err)
	}
	c.wantMissing("past")
	c.Pass(time.Hour)
	for _, id := range []string{"a", "past"} {
		if err := c.s.Create(c.Context(), c.txn(id, time.Minute)); !errors.Is(err, store.ErrExists) {
			c.Errorf("Create of an expired id before Sweep: %v, want ErrExists", err)
		}
		c.wantMissing(id)
	}
	if n, err := c.s.Sweep(c.Context(), c.Now()); n != 2 || err != nil {
		c.Errorf("Sweep = %d, %v; want 2", n, err)
	}
	c.want(c.create("a", time.Minute))
}

func testSweep(c *check) {
	for i := range 10 {
		c.create(fmt.Sprint("old", i), time.Second)
	}
	live := c.create("live", time.Minute)
	if n, err := c.s.Sweep(c.Context(), c.Now()); n != 0 || err != nil {
		c.Errorf("Sweep of live transactions = %d, %v; want 0", n, err)
	}
	c.Pass(2 * time.Second)
	if n, err := c.s.Sweep(c.Context(), c.Now()); n != 10 || err != nil {
		c.Errorf("Sweep = %d, %v; want 10", n, err)
	}
	if n, err := c.s.Sweep(c.Context(), c.Now()); n != 0 || err != nil {
		c.Errorf("second Sweep = %d, %v; want 0", n, err)
	}
	c.want(live)
	c.wantMissing("old0")
}

// testSweepMany sweeps more than any batch may hold while others write.
func testSweepMany(c *check) {
	const each = 20 // all together are more than any one statement removes
	together(func(i int) {
		for n := range each {
			if err := c.s.Create(c.Context(), c.txn(fmt.Sprint("old", i, "-", n), time.Second)); err != nil {
				c.Errorf("Create: %v", err)
			}
		}
	})
	c.Pass(time.Minute)
	var swept atomic.Int64
	together(func(i int) {
		if i == 0 {
			n, err := c.s.Sweep(c.Context(), c.Now())
			if err != nil {
				c.Errorf("Sweep: %v", err)
			}
			swept.Add(int64(n))
			return
		}
		x := c.txn(fmt.Sprint("new", i), time.Minute)
		if err := c.s.Create(c.Context(), x); err != nil {
			c.Errorf("Create during Sweep: %v", err)
		}
		c.want(x)
	})
	if n := swept.Load(); n != crowd*each {
		c.Errorf("Sweep = %d, want %d", n, crowd*each)
	}
	for i := 1; i < crowd; i++ {
		c.want(c.txn(fmt.Sprint("new", i), time.Minute))
	}
}

func testSweepBoundary(c *check) {
	x := c.create("a", time.Second)
	c.Pass(time.Hour)
	for _, step := range []struct {
		at   time.Duration
		want int
	}{{-time.Hour, 0}, {-time.Millisecond, 0}, {0, 1}, {time.Millisecond, 0}} {
		if n, err := c.s.Sweep(c.Context(), x.Expires.Add(step.at)); n != step.want || err != nil {
			c.Errorf("Sweep at %v from its end = %d, %v; want %d", step.at, n, err, step.want)
		}
	}
}

// testList: a [store.Lister] lists all transactions once, or those of a state, by expiry and id, in pages.
func testList(c *check) {
	lister, ok := c.s.(store.Lister)
	if !ok {
		return
	}
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	for i := range 7 {
		err := c.s.Create(c.Context(), store.Txn{
			ID: "id" + strconv.Itoa(9-i), State: "sent", Data: []byte("data"), Expires: at.Add(time.Duration(i/3) * time.Minute),
		})
		if err != nil {
			c.Fatal(err)
		}
	}
	err := c.s.Create(c.Context(), store.Txn{ID: "id0", State: "waiting", Data: []byte("data"), Expires: at.Add(time.Minute)})
	if err != nil {
		c.Fatal(err)
	}
	waiting, err := lister.List(c.Context(), store.Txn{State: "waiting"}, at.Add(time.Minute), 2)
	if err != nil || len(waiting) != 1 || waiting[0].ID != "id0" {
		c.Errorf("List of the waiting returned %+v, %v", waiting, err)
	}
	var ids []string
	after := store.Txn{State: "sent"}
	for {
		page, err := lister.List(c.Context(), after, at.Add(time.Minute), 2)
		if err != nil {
			c.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, t := range page {
			if string(t.Data) != "data" || t.State != "sent" {
				c.Errorf("List returned %+v", t)
			}
			ids = append(ids, t.ID)
		}
		after = page[len(page)-1]
	}
	if got, want := strings.Join(ids, " "), "id7 id8 id9 id4 id5 id6"; got != want {
		c.Errorf("List returned %s, want %s", got, want)
	}
	all, err := lister.List(c.Context(), store.Txn{}, at.Add(time.Minute), 10)
	if err != nil || len(all) != 7 {
		c.Errorf("List of all returned %d, %v; want 7", len(all), err)
	}
}
