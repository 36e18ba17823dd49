package storetest

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// object returns an object that expires after d; 0: it stays.
func (c *check) object(kind, id string, d time.Duration) store.Object {
	o := store.Object{Kind: kind, ID: id, Data: []byte("data of " + id)}
	if d != 0 {
		o.Expires = c.Now().UTC().Truncate(time.Millisecond).Add(d)
	}
	return o
}

// addObject adds an object that expires after d.
func (c *check) addObject(kind, id string, d time.Duration) store.Object {
	c.Helper()
	o := c.object(kind, id, d)
	given := o
	given.Data = bytes.Clone(o.Data)
	if err := c.s.AddObject(c.Context(), given); err != nil {
		c.Errorf("AddObject(%q, %q): %v", kind, id, err)
	}
	clear(given.Data) // the store has kept no reference
	return o
}

func isSameObject(a, b store.Object) bool {
	return a.Kind == b.Kind && a.ID == b.ID && bytes.Equal(a.Data, b.Data) && a.Expires.Equal(b.Expires)
}

// wantObjects checks which objects of a kind there are, one by one and as a list.
func (c *check) wantObjects(kind string, want ...store.Object) {
	c.Helper()
	got, err := c.s.Objects(c.Context(), kind)
	if err != nil || !slices.EqualFunc(got, want, isSameObject) {
		c.Errorf("Objects(%q) = %+v, %v; want %+v", kind, got, err, want)
	}
	for _, o := range want {
		if got, err := c.s.Object(c.Context(), kind, o.ID); err != nil || !isSameObject(got, o) {
			c.Errorf("Object(%q, %q) = %+v, %v; want %+v", kind, o.ID, got, err, o)
		}
	}
}

func testObjects(c *check) {
	c.wantObjects("a")
	b := c.addObject("a", "b", 0)
	upper := c.addObject("a", "B", time.Hour)
	other := c.addObject("other", "b", 0)
	c.wantObjects("a", upper, b)
	c.wantObjects("other", other)
	if err := c.s.AddObject(c.Context(), c.object("a", "b", time.Second)); !errors.Is(err, store.ErrExists) {
		c.Errorf("AddObject of one that is there: %v", err)
	}
	if _, err := c.s.Object(c.Context(), "a", "c"); !errors.Is(err, store.ErrNotFound) {
		c.Errorf("Object of none: %v", err)
	}
	if err := c.s.RemoveObject(c.Context(), "a", "b"); err != nil {
		c.Errorf("RemoveObject: %v", err)
	}
	if err := c.s.RemoveObject(c.Context(), "a", "b"); !errors.Is(err, store.ErrNotFound) {
		c.Errorf("second RemoveObject: %v", err)
	}
	c.wantObjects("a", upper)
	c.wantObjects("other", other)
}

func testObjectChange(c *check) {
	o := c.addObject("a", "x", 0)
	next := c.object("a", "x", time.Minute)
	next.Data = []byte("next")
	if err := c.s.ChangeObject(c.Context(), next, []byte("else")); !errors.Is(err, store.ErrNotFound) {
		c.Errorf("ChangeObject of other data: %v", err)
	}
	c.wantObjects("a", o)
	if err := c.s.ChangeObject(c.Context(), next, o.Data); err != nil {
		c.Errorf("ChangeObject: %v", err)
	}
	c.wantObjects("a", next)
	if err := c.s.ChangeObject(c.Context(), c.object("a", "y", 0), nil); !errors.Is(err, store.ErrNotFound) {
		c.Errorf("ChangeObject of none: %v", err)
	}
}

// testObjectExpiry: an expired object is gone for every call, and its ID is free.
func testObjectExpiry(c *check) {
	o := c.addObject("a", "x", time.Second)
	stays := c.addObject("a", "y", 0)
	c.Pass(time.Second - time.Millisecond)
	c.wantObjects("a", o, stays)
	c.Pass(time.Millisecond)
	c.wantObjects("a", stays)
	if _, err := c.s.Object(c.Context(), "a", "x"); !errors.Is(err, store.ErrNotFound) {
		c.Errorf("Object of an expired one: %v", err)
	}
	if err := c.s.ChangeObject(c.Context(), o, o.Data); !errors.Is(err, store.ErrNotFound) {
		c.Errorf("ChangeObject of an expired one: %v", err)
	}
	if err := c.s.RemoveObject(c.Context(), "a", "x"); !errors.Is(err, store.ErrNotFound) {
		c.Errorf("RemoveObject of an expired one: %v", err)
	}
	again := c.addObject("a", "x", time.Second)
	c.wantObjects("a", again, stays)
	if err := c.s.SweepObjects(c.Context(), c.Now().Add(time.Hour)); err != nil { // a clock that is ahead
		c.Errorf("SweepObjects: %v", err)
	}
	c.wantObjects("a", again, stays)
	c.Pass(time.Second)
	if err := c.s.SweepObjects(c.Context(), c.Now()); err != nil {
		c.Errorf("SweepObjects: %v", err)
	}
	c.wantObjects("a", stays)
}

// testObjectAtOnce: of several calls that add, change or remove one object at once, one succeeds.
func testObjectAtOnce(c *check) {
	try := func(what string, do func(i int) error) {
		var wg sync.WaitGroup
		var done atomic.Int32
		for i := range 8 {
			wg.Go(func() {
				if do(i) == nil {
					done.Add(1)
				}
			})
		}
		wg.Wait()
		if n := done.Load(); n != 1 {
			c.Errorf("%d of 8 succeed to %s the object", n, what)
		}
	}
	o := c.object("a", "x", 0)
	try("add", func(int) error { return c.s.AddObject(c.Context(), o) })
	try("change", func(i int) error {
		return c.s.ChangeObject(c.Context(), store.Object{Kind: "a", ID: "x", Data: []byte{byte(i), 1}}, o.Data)
	})
	try("remove", func(int) error { return c.s.RemoveObject(c.Context(), "a", "x") })
}

// appendAudit appends an entry at this moment.
func (c *check) appendAudit(seq int64, data string) store.AuditEntry {
	c.Helper()
	e := store.AuditEntry{Seq: seq, At: c.Now().UTC().Truncate(time.Millisecond), Link: []byte{byte(seq)}, Data: []byte(data)}
	if err := c.s.AppendAudit(c.Context(), e); err != nil {
		c.Errorf("AppendAudit(%d): %v", seq, err)
	}
	return e
}

func (c *check) wantAudit(q store.AuditQuery, want ...store.AuditEntry) {
	c.Helper()
	isSame := func(a, b store.AuditEntry) bool {
		return a.Seq == b.Seq && a.At.Equal(b.At) && bytes.Equal(a.Link, b.Link) && bytes.Equal(a.Data, b.Data)
	}
	got, err := c.s.AuditEntries(c.Context(), q)
	if err != nil || !slices.EqualFunc(got, want, isSame) {
		c.Errorf("AuditEntries(%+v) = %+v, %v; want %+v", q, got, err, want)
	}
}

func testAudit(c *check) {
	c.wantAudit(store.AuditQuery{Limit: 9})
	first := c.appendAudit(1, "a")
	c.Pass(time.Second)
	second := c.appendAudit(2, "b")
	c.Pass(time.Second)
	third := c.appendAudit(3, "c")
	for _, seq := range []int64{0, 3, 5} {
		if err := c.s.AppendAudit(c.Context(), store.AuditEntry{Seq: seq}); !errors.Is(err, store.ErrExists) {
			c.Errorf("AppendAudit(%d) after 3: %v", seq, err)
		}
	}
	c.wantAudit(store.AuditQuery{Limit: 9}, third, second, first)
	c.wantAudit(store.AuditQuery{Limit: 2}, third, second)
	c.wantAudit(store.AuditQuery{Limit: 9, Before: 2}, first)
	c.wantAudit(store.AuditQuery{Limit: 2, Oldest: true}, first, second)
	c.wantAudit(store.AuditQuery{Limit: 2, After: 1, Oldest: true}, second, third)
	c.wantAudit(store.AuditQuery{Limit: 9, From: second.At, To: third.At}, second)
	if c.Reopen != nil {
		c.s = c.Reopen(c, c.s)
		c.wantAudit(store.AuditQuery{Limit: 1}, third)
	}
}

// testAuditAtOnce: of several calls that append the same number at once, one succeeds.
func testAuditAtOnce(c *check) {
	var wg sync.WaitGroup
	var done atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			err := c.s.AppendAudit(c.Context(), store.AuditEntry{Seq: 1, Data: []byte{byte(i)}})
			if err == nil {
				done.Add(1)
			} else if !errors.Is(err, store.ErrExists) {
				c.Errorf("AppendAudit at once: %v", err)
			}
		})
	}
	wg.Wait()
	if n := done.Load(); n != 1 {
		c.Errorf("%d of 8 append entry 1", n)
	}
}
