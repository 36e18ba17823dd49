package storetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/openthreeds/threeds/internal/state/store"
)

// AddMerchant implements [store.Merchants].
func (s *Memory) AddMerchant(ctx context.Context, m store.Merchant) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if _, taken := s.merchants[m.Name]; taken {
		return store.ErrExists
	}
	s.merchants[m.Name] = bytes.Clone(m.Data)
	s.changes++
	return nil
}

// ChangeMerchant implements [store.Merchants].
func (s *Memory) ChangeMerchant(ctx context.Context, name string, was, data []byte) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if now, ok := s.merchants[name]; !ok || !bytes.Equal(now, was) {
		return store.ErrNotFound
	}
	s.merchants[name] = bytes.Clone(data)
	s.changes++
	return nil
}

// RemoveMerchant implements [store.Merchants].
func (s *Memory) RemoveMerchant(ctx context.Context, name string, was []byte) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if now, ok := s.merchants[name]; !ok || !bytes.Equal(now, was) {
		return store.ErrNotFound
	}
	delete(s.merchants, name)
	s.changes++
	return nil
}

// Merchants implements [store.Merchants].
func (s *Memory) Merchants(ctx context.Context) (all []store.Merchant, err error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for name, data := range s.merchants {
		all = append(all, store.Merchant{Name: name, Data: bytes.Clone(data)})
	}
	slices.SortFunc(all, func(a, b store.Merchant) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// wantMerchants checks which merchants there are, as name=data, in this order.
func (c *check) wantMerchants(want ...string) {
	c.Helper()
	all, err := c.s.Merchants(c.Context())
	var got []string
	for _, m := range all {
		got = append(got, m.Name+"="+string(m.Data))
	}
	if err != nil || !slices.Equal(got, want) {
		c.Errorf("Merchants = %q, %v; want %q", got, err, want)
	}
}

// wantMerchantError checks what a change of merchants has returned.
func (c *check) wantMerchantError(what string, err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Errorf("%s: %v, want %v", what, err, want)
	}
}

func testMerchants(c *check) {
	ctx := c.Context()
	c.wantMerchants()
	data := []byte("one")
	for _, name := range []string{"b", "B", "a'; --", "é"} {
		c.wantMerchantError("AddMerchant", c.s.AddMerchant(ctx, store.Merchant{Name: name, Data: data}), nil)
	}
	clear(data) // the store has kept no reference
	c.wantMerchants("B=one", "a'; --=one", "b=one", "é=one")
	c.wantMerchantError("AddMerchant, again", c.s.AddMerchant(ctx, store.Merchant{Name: "b", Data: []byte("x")}), store.ErrExists)
	c.wantMerchantError("ChangeMerchant", c.s.ChangeMerchant(ctx, "b", []byte("one"), []byte("two")), nil)
	c.wantMerchantError("ChangeMerchant of what it was", c.s.ChangeMerchant(ctx, "b", []byte("one"), []byte("x")), store.ErrNotFound)
	c.wantMerchantError("ChangeMerchant of nobody", c.s.ChangeMerchant(ctx, "c", nil, []byte("x")), store.ErrNotFound)
	c.wantMerchantError("RemoveMerchant of what it was", c.s.RemoveMerchant(ctx, "b", []byte("one")), store.ErrNotFound)
	c.wantMerchantError("RemoveMerchant of nobody", c.s.RemoveMerchant(ctx, "c", nil), store.ErrNotFound)
	c.wantMerchants("B=one", "a'; --=one", "b=two", "é=one")
	c.wantMerchantError("RemoveMerchant", c.s.RemoveMerchant(ctx, "B", []byte("one")), nil)
	c.wantMerchants("a'; --=one", "b=two", "é=one")
	if c.Reopen != nil {
		c.s = c.Reopen(c, c.s)
		c.wantMerchants("a'; --=one", "b=two", "é=one")
	}
}

// testMerchantsMark: each change of a merchant makes a mark of the keys that was never there before.
func testMerchantsMark(c *check) {
	ctx := c.Context()
	seen := map[string]bool{}
	mark := c.wantKeysUnless("")
	changed := func(err error) {
		c.Helper()
		seen[mark] = true
		mark = c.wantKeysUnless(mark)
		if err != nil || seen[mark] {
			c.Errorf("a change of a merchant: %v; the mark was there before: %t", err, seen[mark])
		}
	}
	for range 2 {
		changed(c.s.AddMerchant(ctx, store.Merchant{Name: "a", Data: []byte("one")}))
		changed(c.s.ChangeMerchant(ctx, "a", []byte("one"), []byte("two")))
		changed(c.s.RemoveMerchant(ctx, "a", []byte("two")))
	}
	c.wantMark(mark)
}

// testDisabledMark: each change of an object of a disabled merchant makes a mark of the keys that was never there
// before. No other object does.
func testDisabledMark(c *check) {
	ctx := c.Context()
	seen := map[string]bool{}
	mark := c.wantKeysUnless("")
	changed := func(err error) {
		c.Helper()
		seen[mark] = true
		mark = c.wantKeysUnless(mark)
		if err != nil || seen[mark] {
			c.Errorf("a change of a disabled merchant: %v; the mark was there before: %t", err, seen[mark])
		}
	}
	o := store.Object{Kind: store.DisabledObjects, ID: "Shop", Data: []byte("one")}
	next := o
	next.Data = []byte("two")
	for range 2 {
		changed(c.s.AddObject(ctx, o))
		changed(c.s.ChangeObject(ctx, next, o.Data))
		changed(c.s.RemoveObject(ctx, o.Kind, o.ID))
	}
	other := c.addObject("other", "Shop", 0)
	c.wantMerchantError("ChangeObject", c.s.ChangeObject(ctx, other, other.Data), nil)
	c.wantMerchantError("RemoveObject", c.s.RemoveObject(ctx, other.Kind, other.ID), nil)
	c.wantMark(mark)
}

// testMerchantsAtOnce: of several changes of the same data one is made.
func testMerchantsAtOnce(c *check) {
	ctx := c.Context()
	c.wantMerchantError("AddMerchant", c.s.AddMerchant(ctx, store.Merchant{Name: "a", Data: []byte("0")}), nil)
	var wg sync.WaitGroup
	made := make(chan string, 8)
	for i := range 8 {
		wg.Go(func() {
			data := fmt.Sprint("by ", i)
			switch err := c.s.ChangeMerchant(ctx, "a", []byte("0"), []byte(data)); {
			case err == nil:
				made <- "a=" + data
			case !errors.Is(err, store.ErrNotFound):
				c.Errorf("ChangeMerchant: %v", err)
			}
		})
	}
	wg.Wait()
	if len(made) != 1 {
		c.Fatalf("%d of 8 changes were made, want 1", len(made))
	}
	c.wantMerchants(<-made)
}

func testShareMerchants(c *check) {
	other := c.shared()
	defer other.s.Close() // the data is no longer needed
	mark := other.wantKeysUnless("")
	c.wantMerchantError("AddMerchant", c.s.AddMerchant(c.Context(), store.Merchant{Name: "a", Data: []byte("one")}), nil)
	other.wantMerchants("a=one")
	other.wantKeysUnless(mark)
}
