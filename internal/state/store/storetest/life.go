package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// calls calls every method except Close, with arguments that would have an effect, and returns the errors by method.
func (c *check) calls(ctx context.Context, l store.Lease) map[string]error {
	errs := make(map[string]error)
	_, errs["Get"] = c.s.Get(ctx, "a")
	errs["Create"] = c.s.Create(ctx, c.txn("new", time.Minute))
	errs["Update"] = c.s.Update(ctx, store.Txn{ID: "a"}, func(t *store.Txn) error { t.State = "final"; return nil })
	_, errs["Sweep"] = c.s.Sweep(ctx, c.Now().Add(time.Hour))
	errs["PutKey"] = c.s.PutKey(ctx, c.key(2))
	errs["ResealKey"] = c.s.ResealKey(ctx, c.key(1).Hash, c.key(1).Seal, c.key(3).Seal)
	errs["RevokeKey"] = c.s.RevokeKey(ctx, c.key(1).Hash)
	_, errs["Key"] = c.s.Key(ctx, c.key(1).Hash)
	_, errs["Keys"] = c.s.Keys(ctx)
	_, _, errs["KeysUnless"] = c.s.KeysUnless(ctx, "")
	_, errs["Acquire"] = c.s.Acquire(ctx, "new", "a", time.Hour)
	errs["Release"] = c.s.Release(ctx, l)
	errs["PutSnapshot"] = c.s.PutSnapshot(ctx, c.snapshot(2, 10), l, bytes.NewReader(contentOf(2, 10)), 1)
	_, errs["Snapshots"] = c.s.Snapshots(ctx, "visa")
	_, errs["OpenSnapshot"] = c.s.OpenSnapshot(ctx, "visa", 1)
	errs["PutState"] = c.s.PutState(ctx, "k", []byte("new"), l)
	_, errs["State"] = c.s.State(ctx, "k")
	errs["PutNode"] = c.s.PutNode(ctx, store.Node{ID: "new"})
	_, errs["Nodes"] = c.s.Nodes(ctx)
	errs["RemoveNode"] = c.s.RemoveNode(ctx, "old")
	errs["AddMerchant"] = c.s.AddMerchant(ctx, store.Merchant{Name: "new"})
	errs["ChangeMerchant"] = c.s.ChangeMerchant(ctx, "new", nil, []byte("new"))
	_, errs["Merchants"] = c.s.Merchants(ctx)
	errs["RemoveMerchant"] = c.s.RemoveMerchant(ctx, "new", nil)
	errs["AddEndpoint"] = c.s.AddEndpoint(ctx, store.Endpoint{ID: "ep_new"})
	errs["ChangeEndpoint"] = c.s.ChangeEndpoint(ctx, "ep_new", nil, []byte("new"))
	_, errs["Endpoints"] = c.s.Endpoints(ctx)
	_, errs["EndpointsOf"] = c.s.EndpointsOf(ctx, "shop")
	_, _, errs["EndpointMarksUnless"] = c.s.EndpointMarksUnless(ctx, "")
	errs["RemoveEndpoint"] = c.s.RemoveEndpoint(ctx, "ep_new")
	eventID := store.NewEventID("new", "a", shop)
	errs["PutEvent"] = c.s.PutEvent(ctx, c.event("new", "a"))
	_, errs["Event"] = c.s.Event(ctx, eventID)
	_, errs["FindEvents"] = c.s.FindEvents(ctx, store.EventQuery{Merchant: "shop", Now: c.Now(), Limit: 1})
	_, errs["Deliveries"] = c.s.Deliveries(ctx, eventID)
	_, errs["ClaimDeliveries"] = c.s.ClaimDeliveries(ctx, c.Now(), c.Now(), nil, 1)
	errs["EndDelivery"] = c.s.EndDelivery(ctx, store.Delivery{Event: eventID})
	errs["Redeliver"] = c.s.Redeliver(ctx, store.Delivery{Event: eventID, Endpoint: "ep_1"}, c.Now())
	_, errs["SweepEvents"] = c.s.SweepEvents(ctx, c.Now().Add(time.Hour))
	_, errs["EraseEvents"] = c.s.EraseEvents(ctx, "shop", []string{"a"})
	errs["Ping"] = c.s.Ping(ctx)
	return errs
}

func testContextEnded(c *check) {
	x := c.create("a", time.Minute)
	c.putKey(c.key(1))
	l := c.acquire("visa", "a", time.Minute)
	one := c.put(c.snapshot(1, 10), l, 1)
	c.putState("k", "old", l)
	old := c.putNode("old", "a", "note")
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	for name, err := range c.calls(ctx, l) {
		if !errors.Is(err, context.Canceled) {
			c.Errorf("%s with an ended context: %v, want context.Canceled", name, err)
		}
	}
	c.want(x)
	c.wantMissing("new")
	c.wantKeys(c.key(1))
	c.wantGood(l)
	c.acquire("new", "b", time.Minute)
	c.wantSnapshots("visa", one)
	c.wantState("k", "old")
	c.wantNodes(old)
}

func testPing(c *check) {
	if err := c.s.Ping(c.Context()); err != nil {
		c.Errorf("Ping: %v", err)
	}
}

func testClosed(c *check) {
	c.create("a", time.Minute)
	c.putKey(c.key(1))
	l := c.acquire("visa", "a", time.Minute)
	c.put(c.snapshot(1, 10), l, 1)
	c.putState("k", "old", l)
	for range 2 {
		if err := c.s.Close(); err != nil {
			c.Errorf("Close: %v", err)
		}
	}
	for name, err := range c.calls(c.Context(), l) {
		if err == nil || isContractError(err) {
			c.Errorf("%s after Close: %v, want an error that the contract does not name", name, err)
		}
	}
}

// testCloseUnderLoad closes the store in the middle of writes: each of them returns, and what returned nil is kept.
func testCloseUnderLoad(c *check) {
	var mu sync.Mutex
	var kept []store.Txn
	together(func(i int) {
		if i == 0 {
			if err := c.s.Close(); err != nil {
				c.Errorf("Close: %v", err)
			}
			return
		}
		for n := range 20 {
			x := c.txn(fmt.Sprint("id", i, "-", n), time.Minute)
			switch err := c.s.Create(c.Context(), x); {
			case err == nil:
				mu.Lock()
				kept = append(kept, x)
				mu.Unlock()
			case isContractError(err):
				c.Errorf("Create during Close: %v", err)
			}
		}
	})
	if c.Reopen == nil {
		return
	}
	c.s = c.Reopen(c, c.s)
	for _, x := range kept {
		c.want(x)
	}
}

func testReopen(c *check) {
	if c.Reopen == nil {
		c.Skip("this store keeps nothing: what survives a restart was not tested")
	}
	x, y := c.create("a", time.Minute), c.create("b", time.Minute)
	c.create("short", time.Second)
	c.create("swept", time.Millisecond)
	c.Pass(2 * time.Millisecond)
	if _, err := c.s.Sweep(c.Context(), c.Now()); err != nil {
		c.Errorf("Sweep: %v", err)
	}
	c.update("a", func(t *store.Txn) { t.State, t.Data = "final", []byte("new") })
	x.State, x.Data = "final", []byte("new")
	c.putKey(c.key(1))
	c.putKey(c.key(2))
	if err := c.s.RevokeKey(c.Context(), c.key(1).Hash); err != nil {
		c.Errorf("RevokeKey: %v", err)
	}
	k, err := c.s.Key(c.Context(), c.key(2).Hash)
	if err != nil {
		c.Errorf("Key: %v", err)
	}
	for range 2 {
		c.s = c.Reopen(c, c.s)
		c.want(x)
		c.want(y)
		c.wantMissing("swept")
		c.wantKeys(k)
	}
	if err := c.s.Create(c.Context(), c.txn("a", time.Minute)); !errors.Is(err, store.ErrExists) {
		c.Errorf("Create of an id from before: %v, want ErrExists", err)
	}
	c.Pass(time.Second)
	c.wantMissing("short")
}

// testReopenLazy: a lazy change survives the end of the process.
func testReopenLazy(c *check) {
	if c.Reopen == nil {
		c.Skip("this store keeps nothing: what survives a restart was not tested")
	}
	x := c.create("a", time.Minute)
	c.update("a", func(t *store.Txn) { t.State, t.Lazy = "final", true })
	x.State = "final"
	c.s = c.Reopen(c, c.s)
	c.want(x)
}

// shared opens the store of c a second time.
func (c *check) shared() *check {
	c.Helper()
	if c.Share == nil {
		c.Skip("this store has one user: sharing was not tested")
	}
	return &check{TB: c.TB, Backend: c.Backend, s: c.Share(c, c.s)}
}

func testShare(c *check) {
	other := c.shared()
	defer other.s.Close() // closed below, where it matters
	x := c.create("a", time.Minute)
	other.want(x)
	other.update("a", func(t *store.Txn) { t.State = "final" })
	x.State = "final"
	c.want(x)
	other.putKey(c.key(1))
	c.wantKeys(c.key(1))
	if err := c.s.RevokeKey(c.Context(), c.key(1).Hash); err != nil {
		c.Errorf("RevokeKey: %v", err)
	}
	other.wantKeys()
	if err := other.s.Close(); err != nil {
		c.Errorf("Close: %v", err)
	}
	c.want(x)
	c.create("b", time.Minute)
}

// testShareKeys: all openings of a store have the same mark.
func testShareKeys(c *check) {
	other := c.shared()
	defer other.s.Close() // the data is no longer needed
	mark := c.wantKeysUnless("")
	other.putKey(c.key(1))
	mark = c.wantKeysUnless(mark, c.key(1))
	other.wantMark(mark)
	if err := other.s.RevokeKey(c.Context(), c.key(1).Hash); err != nil {
		c.Errorf("RevokeKey: %v", err)
	}
	other.wantMark(c.wantKeysUnless(mark))
}

// testShareLazy: all open handles of a store see a lazy change immediately.
func testShareLazy(c *check) {
	other := c.shared()
	defer other.s.Close() // the data is no longer needed
	x := c.create("a", time.Minute)
	for range 20 {
		c.update("a", func(t *store.Txn) { t.Data, t.Lazy = append(t.Data, '+'), true })
		x.Data = append(x.Data, '+')
		other.want(x)
		c, other = other, c
	}
}

// testShareAtOnce has the crowd work through two openings of one store.
func testShareAtOnce(c *check) {
	sides := []*check{c, c.shared()}
	defer sides[1].s.Close() // the data is no longer needed
	x := c.txn("a", time.Minute)
	x.Data = nil
	if err := c.s.Create(c.Context(), x); err != nil {
		c.Fatalf("Create: %v", err)
	}
	together(func(i int) {
		side := sides[i%2]
		if err := side.s.Create(c.Context(), c.txn(fmt.Sprint("id", i), time.Minute)); err != nil {
			c.Errorf("Create: %v", err)
		}
		err := side.s.Update(c.Context(), store.Txn{ID: "a"}, func(t *store.Txn) error { t.Data = append(t.Data, '+'); return nil })
		if err != nil {
			c.Errorf("Update: %v", err)
		}
		sides[1-i%2].want(c.txn(fmt.Sprint("id", i), time.Minute))
	})
	for _, side := range sides {
		got, err := side.s.Get(c.Context(), "a")
		if err != nil || len(got.Data) != crowd {
			c.Errorf("Get has %d updates, %v; want %d", len(got.Data), err, crowd)
		}
	}
}
