package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// shop is the merchant of events.
const shop = "shop"

// event returns an event of a transaction, which is delivered to endpoints. Its name distinguishes it from others.
func (c *check) event(name, about string, endpoints ...string) store.Event {
	return c.eventOf(shop, name, about, endpoints...)
}

func (c *check) eventOf(merchant, name, about string, endpoints ...string) store.Event {
	return store.Event{
		ID: store.NewEventID(name, about, merchant), Merchant: merchant, Type: "authentication.completed", About: about,
		Created: c.Now().UTC().Truncate(time.Millisecond), Data: []byte("data of " + name), Endpoints: endpoints,
	}
}

// nameOf returns the name of an event.
func nameOf(id string) string {
	return strings.TrimSuffix(strings.TrimPrefix(id, "evt_"), "_"+store.EventKey(id))
}

func (c *check) putEvent(e store.Event) {
	c.Helper()
	if err := c.s.PutEvent(c.Context(), e); err != nil {
		c.Fatalf("PutEvent(%s): %v", e.ID, err)
	}
}

// wantEvent checks that there is an event, and its deliveries.
func (c *check) wantEvent(e store.Event) {
	c.Helper()
	got, err := c.s.Event(c.Context(), e.ID)
	deliveries, failed := c.s.Deliveries(c.Context(), e.ID)
	var to []string
	for _, d := range deliveries {
		to = append(to, d.Endpoint)
	}
	want := e
	want.Endpoints = nil
	if err != nil || failed != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(to, e.Endpoints) {
		c.Errorf("Event(%s) = %+v, %v to %v, %v; want %+v", e.ID, got, err, to, failed, e)
	}
}

func (c *check) wantNoEvent(name, about string) {
	c.Helper()
	id := store.NewEventID(name, about, shop)
	if _, err := c.s.Event(c.Context(), id); !errors.Is(err, store.ErrNotFound) {
		c.Errorf("Event(%s): %v, want ErrNotFound", id, err)
	}
	if all, err := c.s.Deliveries(c.Context(), id); err != nil || len(all) > 0 {
		c.Errorf("Deliveries(%s) = %v, %v; want none", id, all, err)
	}
}

// claim claims deliveries and checks which.
func (c *check) claim(busy []string, most int, want ...string) []store.Delivery {
	c.Helper()
	all, err := c.s.ClaimDeliveries(c.Context(), c.Now(), c.Now().Add(time.Minute), busy, most)
	got := make(map[string]bool)
	for _, d := range all {
		got[nameOf(d.Event)+" to "+d.Endpoint] = true
	}
	for _, w := range want {
		if !got[w] {
			c.Errorf("%s was not claimed", w)
		}
	}
	if err != nil || len(all) != len(want) {
		c.Errorf("ClaimDeliveries = %v, %v; want %v", got, err, want)
	}
	return all
}

func testEndpoints(c *check) {
	a := store.Endpoint{ID: "ep_2", Merchant: "shop", Created: c.Now().UTC().Truncate(time.Millisecond), Data: []byte("a")}
	b := store.Endpoint{ID: "ep_1", Merchant: "other", Created: a.Created.Add(time.Second), Data: []byte("b")}
	for _, e := range []store.Endpoint{b, a} {
		if err := c.s.AddEndpoint(c.Context(), e); err != nil {
			c.Fatal(err)
		}
	}
	want := func(all ...store.Endpoint) {
		c.Helper()
		if got, err := c.s.Endpoints(c.Context()); err != nil || !reflect.DeepEqual(got, all) {
			c.Errorf("Endpoints = %+v, %v; want %+v", got, err, all)
		}
	}
	want(a, b)
	if err := c.s.AddEndpoint(c.Context(), store.Endpoint{ID: a.ID, Merchant: "thief"}); !errors.Is(err, store.ErrExists) {
		c.Errorf("second AddEndpoint: %v, want ErrExists", err)
	}
	if err := c.s.ChangeEndpoint(c.Context(), a.ID, b.Data, []byte("new")); !errors.Is(err, store.ErrNotFound) {
		c.Errorf("ChangeEndpoint of other data: %v, want ErrNotFound", err)
	}
	if err := c.s.ChangeEndpoint(c.Context(), "ep_9", a.Data, nil); !errors.Is(err, store.ErrNotFound) {
		c.Errorf("ChangeEndpoint of none: %v, want ErrNotFound", err)
	}
	want(a, b)
	if err := c.s.ChangeEndpoint(c.Context(), a.ID, a.Data, []byte("new")); err != nil {
		c.Fatal(err)
	}
	a.Data = []byte("new")
	want(a, b)
	c.putEvent(c.event("e1", "t", "ep_1", "ep_2"))
	if err := c.s.RemoveEndpoint(c.Context(), a.ID); err != nil {
		c.Fatal(err)
	}
	want(b)
	c.claim(nil, 9, "e1 to ep_1")
	if err := c.s.RemoveEndpoint(c.Context(), a.ID); !errors.Is(err, store.ErrNotFound) {
		c.Errorf("RemoveEndpoint of none: %v, want ErrNotFound", err)
	}
}

// addEndpoint adds an endpoint of a merchant, n seconds after the present.
func (c *check) addEndpoint(id, merchant string, n time.Duration) store.Endpoint {
	c.Helper()
	e := store.Endpoint{ID: id, Merchant: merchant, Created: c.Now().UTC().Truncate(time.Millisecond).Add(n * time.Second), Data: []byte(id)}
	if err := c.s.AddEndpoint(c.Context(), e); err != nil {
		c.Fatal(err)
	}
	return e
}

func testEndpointsOf(c *check) {
	want := func(of []string, all ...store.Endpoint) {
		c.Helper()
		if got, err := c.s.EndpointsOf(c.Context(), of...); err != nil || len(got) != len(all) || len(all) > 0 && !reflect.DeepEqual(got, all) {
			c.Errorf("EndpointsOf(%q) = %+v, %v; want %+v", of, got, err, all)
		}
	}
	third, first, second := c.addEndpoint("ep_1", "shop", 3), c.addEndpoint("ep_2", "shop", 1), c.addEndpoint("ep_3", "other", 2)
	want([]string{"shop"}, first, third)
	want([]string{"other"}, second)
	want([]string{"other", "nobody", "shop"}, first, second, third)
	want([]string{"", "Shop", "sho", "shop "})
	want(nil)
}

// wantEndpointMarks checks that the mark of all endpoints and that of the changed merchant are new, and that all other
// merchants in want still have the marks that they had before. want are the merchants that have endpoints.
func (c *check) wantEndpointMarks(before map[string]string, mark string, changed string, want ...string) (map[string]string, string) {
	c.Helper()
	marks, now, err := c.s.EndpointMarksUnless(c.Context(), mark)
	if err != nil || now == "" || now == mark || len(marks) != len(want) {
		c.Errorf("EndpointMarksUnless(%q) = %q, %q, %v; want another mark, and those of %q", mark, marks, now, err, want)
	}
	for _, merchant := range want {
		if m := marks[merchant]; m == "" || (m != before[merchant]) != (merchant == changed) {
			c.Errorf("the mark of %s is %q, and was %q before %s changed", merchant, m, before[merchant], changed)
		}
	}
	if same, again, err := c.s.EndpointMarksUnless(c.Context(), now); len(same) > 0 || again != now || err != nil {
		c.Errorf("EndpointMarksUnless(%q) = %q, %q, %v; want that mark alone", now, same, again, err)
	}
	return marks, now
}

// testEndpointMarks: each change of an endpoint makes marks that were never there, for all endpoints and for those of
// its merchant, even a change that restores what was there before. Nothing else changes a mark.
func testEndpointMarks(c *check) {
	marks, mark := c.wantEndpointMarks(nil, "never a mark", "")
	seen := make(map[string]bool)
	changed := func(merchant string, want ...string) {
		c.Helper()
		marks, mark = c.wantEndpointMarks(marks, mark, merchant, want...)
		for _, m := range []string{"all " + mark, "of " + marks[merchant]} {
			if seen[m] && m != "of " {
				c.Errorf("the mark %q is there a second time, want a new one for each change", m)
			}
			seen[m] = true
		}
	}
	e := c.addEndpoint("ep_1", "shop", 0)
	changed("shop", "shop")
	c.addEndpoint("ep_2", "other", 0)
	changed("other", "shop", "other")
	for _, data := range []string{"new", "ep_1", "new"} {
		if err := c.s.ChangeEndpoint(c.Context(), e.ID, e.Data, []byte(data)); err != nil {
			c.Fatal(err)
		}
		e.Data = []byte(data)
		changed("shop", "shop", "other")
	}
	for range 2 {
		if err := c.s.RemoveEndpoint(c.Context(), "ep_1"); err != nil {
			c.Fatal(err)
		}
		changed("shop", "other")
		c.addEndpoint("ep_1", "shop", 0)
		changed("shop", "shop", "other")
	}
	c.putEvent(c.event("e1", "t", "ep_1"))
	c.claim(nil, 9, "e1 to ep_1")
	c.putKey(c.key(1))
	c.create("a", time.Hour)
	if same, now, err := c.s.EndpointMarksUnless(c.Context(), mark); len(same) > 0 || now != mark || err != nil {
		c.Errorf("after other writes EndpointMarksUnless(%q) = %q, %q, %v", mark, same, now, err)
	}
}

func testEventPutGet(c *check) {
	c.wantNoEvent("e1", "")
	e := c.event("e1", "", "ep_1", "ep_2")
	c.putEvent(e)
	c.wantEvent(e)
	other := c.event("e1", "", "ep_3")
	if err := c.s.PutEvent(c.Context(), other); !errors.Is(err, store.ErrExists) {
		c.Errorf("second PutEvent: %v, want ErrExists", err)
	}
	c.wantEvent(e)
}

// testEventOfUpdate: an event is there if, and only if, the update is.
func testEventOfUpdate(c *check) {
	c.create("t", time.Hour)
	x := c.get("t")
	e := c.event("e1", "t", "ep_1")
	c.update("t", func(t *store.Txn) { t.State, t.Event = "next", &e })
	c.wantEvent(e)
	if got := c.get("t"); got.Event != nil || got.State != "next" {
		c.Errorf("Get = %+v", got)
	}
	failed := errors.New("no")
	lost := c.event("e2", "t", "ep_1")
	err := c.s.Update(c.Context(), store.Txn{ID: "t"}, func(t *store.Txn) error { t.Event = &lost; return failed })
	if !errors.Is(err, failed) {
		c.Errorf("Update: %v", err)
	}
	err = c.s.Update(c.Context(), store.Txn{ID: "none"}, func(t *store.Txn) error { t.Event = &lost; return nil })
	if !errors.Is(err, store.ErrNotFound) {
		c.Errorf("Update of none: %v", err)
	}
	c.wantNoEvent("e2", "t")

	// Was is older than the transaction is by now: change is called again, and the last event counts.
	calls := 0
	err = c.s.Update(c.Context(), x, func(t *store.Txn) error {
		calls++
		again := c.event(fmt.Sprintf("call%d", calls), "t", "ep_1")
		t.Event = &again
		return nil
	})
	if err != nil || calls != 2 {
		c.Errorf("Update with an old transaction: %v after %d calls", err, calls)
	}
	c.wantNoEvent("call1", "t")
	if _, err := c.s.Event(c.Context(), store.NewEventID("call2", "t", shop)); err != nil {
		c.Errorf("the event of the last call: %v", err)
	}
}

// testEventAhead: an event that lies ahead goes when another about the same transaction comes, and stays else.
func testEventAhead(c *check) {
	c.create("t", 48*time.Hour)
	c.create("u", 48*time.Hour)
	told := c.event("e0", "t", "ep_1")
	ahead := c.event("e1", "t", "ep_1")
	ahead.Created = ahead.Created.Add(time.Hour)
	other := c.event("e2", "u", "ep_1")
	other.Created = ahead.Created
	c.update("t", func(t *store.Txn) { t.Event = &told })
	c.update("t", func(t *store.Txn) { t.Event = &ahead })
	c.update("u", func(t *store.Txn) { t.Event = &other })
	c.claim(nil, 9, "e0 to ep_1")
	found, err := c.s.FindEvents(c.Context(), store.EventQuery{Merchant: "shop", Now: c.Now(), Limit: 9})
	if err != nil || len(found) != 1 || found[0].ID != told.ID {
		c.Errorf("FindEvents = %+v, %v; want e0 alone", found, err)
	}
	end := c.event("e3", "t", "ep_1")
	c.update("t", func(t *store.Txn) { t.Event = &end })
	c.wantNoEvent("e1", "t")
	c.wantEvent(told)
	c.wantEvent(other)
	c.claim(nil, 9, "e3 to ep_1")
	c.Pass(time.Hour)
	c.claim(nil, 9, "e0 to ep_1", "e3 to ep_1", "e2 to ep_1")
}

func testFindEvents(c *check) {
	start := c.Now().UTC().Truncate(time.Millisecond)
	for n := range 6 {
		e := c.event(fmt.Sprintf("e%d", n), fmt.Sprintf("t%d", n%2))
		e.Created = start.Add(time.Duration(n/2) * time.Second) // two of each moment
		if n == 5 {
			e.Type = "authentication.failed"
		}
		c.putEvent(e)
	}
	c.putEvent(c.eventOf("other", "e9", "t0"))
	c.Pass(time.Minute)
	for _, q := range []struct {
		query store.EventQuery
		want  string
	}{
		{store.EventQuery{Limit: 9}, "543210"},
		{store.EventQuery{Limit: 2}, "54"},
		{store.EventQuery{Limit: 2, AfterID: store.NewEventID("e4", "t0", shop), AfterCreated: start.Add(2 * time.Second)}, "32"},
		{store.EventQuery{Limit: 9, AfterID: store.NewEventID("e3", "t1", shop), AfterCreated: start.Add(time.Second)}, "210"},
		{store.EventQuery{Limit: 9, Type: "authentication.failed"}, "5"},
		{store.EventQuery{Limit: 9, About: "t0"}, "420"},
		{store.EventQuery{Limit: 9, From: start.Add(time.Second)}, "5432"},
		{store.EventQuery{Limit: 9, To: start.Add(time.Second)}, "10"},
		{store.EventQuery{Limit: 9, About: "none"}, ""},
	} {
		q.query.Merchant, q.query.Now = "shop", c.Now()
		all, err := c.s.FindEvents(c.Context(), q.query)
		got := ""
		for _, e := range all {
			got += strings.TrimPrefix(nameOf(e.ID), "e")
		}
		if err != nil || got != q.want {
			c.Errorf("FindEvents(%+v) = %s, %v; want %s", q.query, got, err, q.want)
		}
	}
}

func testDeliveries(c *check) {
	e := c.event("e1", "t", "ep_1", "ep_2", "ep_3")
	c.putEvent(e)
	c.claim([]string{"ep_1", "ep_2"}, 9, "e1 to ep_3")
	c.claim([]string{"ep_1"}, 9, "e1 to ep_2")
	c.claim(nil, 9, "e1 to ep_1")
	c.claim(nil, 9)
	c.Pass(time.Minute)
	all, err := c.s.ClaimDeliveries(c.Context(), c.Now(), c.Now().Add(time.Minute), nil, 2)
	if err != nil || len(all) != 2 {
		c.Errorf("%v, %v were claimed, want 2", all, err)
	}
	all, err = c.s.ClaimDeliveries(c.Context(), c.Now(), c.Now().Add(time.Minute), nil, 2)
	if err != nil || len(all) != 1 {
		c.Errorf("%v, %v were claimed, want the third", all, err)
	}

	last := c.Now().UTC().Truncate(time.Millisecond)
	done := store.Delivery{Event: e.ID, Endpoint: "ep_1", Attempt: 1, Last: last, Status: 204}
	failed := store.Delivery{Event: e.ID, Endpoint: "ep_2", Attempt: 2, Last: last, Due: last.Add(5 * time.Second), Status: 500, Error: "status 500"}
	none := store.Delivery{Event: e.ID, Endpoint: "ep_9", Attempt: 1}
	for _, d := range []store.Delivery{done, failed, none} {
		if err := c.s.EndDelivery(c.Context(), d); err != nil {
			c.Errorf("EndDelivery: %v", err)
		}
	}
	all, err = c.s.Deliveries(c.Context(), e.ID)
	if err != nil || len(all) != 3 || all[0] != done || all[1] != failed {
		c.Errorf("Deliveries = %+v, %v", all, err)
	}
	c.Pass(5 * time.Second)
	c.claim(nil, 9, "e1 to ep_2")
	redeliver := func(all ...store.Delivery) {
		c.Helper()
		for _, d := range all {
			d.Due, d.Status, d.Error = time.Time{}, 0, "" // they do not matter
			if err := c.s.Redeliver(c.Context(), d, c.Now()); err != nil {
				c.Errorf("Redeliver: %v", err)
			}
		}
	}
	fewer, earlier := failed, failed
	fewer.Attempt, earlier.Last = 1, last.Add(-time.Second)
	redeliver(fewer, earlier, none)
	c.claim(nil, 9)
	redeliver(all...)
	for _, d := range c.claim(nil, 9, "e1 to ep_1", "e1 to ep_2", "e1 to ep_3") {
		if d.Attempt != 0 {
			c.Errorf("delivered again with %d attempts made", d.Attempt)
		}
	}
}

// testClaimAtOnce: if several callers claim at once, each delivery goes to one of them.
func testClaimAtOnce(c *check) {
	const events = 60
	for n := range events {
		c.putEvent(c.event(fmt.Sprintf("e%d", n), "t", "ep_1"))
	}
	now := c.Now()
	var mu sync.Mutex
	times := make(map[string]int)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for {
				all, err := c.s.ClaimDeliveries(c.Context(), now, now.Add(time.Minute), nil, 5)
				if err != nil {
					c.Error(err)
					return
				}
				mu.Lock()
				for _, d := range all {
					times[d.Event]++
				}
				n := len(times)
				mu.Unlock()
				if n == events || len(all) == 0 && n > events-30 {
					return
				}
			}
		})
	}
	wg.Wait()
	for id, n := range times {
		if n != 1 {
			c.Errorf("%s was claimed %d times", id, n)
		}
	}
}

func testSweepEvents(c *check) {
	old, recent := c.event("e1", "t", "ep_1"), c.event("e2", "t", "ep_1")
	recent.Created = old.Created.Add(time.Millisecond)
	c.putEvent(old)
	c.putEvent(recent)
	if n, err := c.s.SweepEvents(c.Context(), recent.Created); n != 1 || err != nil {
		c.Errorf("SweepEvents = %d, %v; want 1", n, err)
	}
	c.wantNoEvent("e1", "t")
	c.wantEvent(recent)
}

// testEraseEvents: what is about a transaction goes, or what a merchant has, also ahead, and nothing else does.
func testEraseEvents(c *check) {
	ofCard, ahead, other, operator := c.event("e1", "t", "ep_1"), c.event("e2", "u", "ep_1"), c.event("e3", "v", "ep_1"), c.eventOf("", "e4", "", "ep_1")
	ahead.Created = ahead.Created.Add(time.Hour)
	for _, e := range []store.Event{ofCard, ahead, other, operator} {
		c.putEvent(e)
	}
	erase := func(want int, merchant string, about ...string) {
		c.Helper()
		if n, err := c.s.EraseEvents(c.Context(), merchant, about); n != want || err != nil {
			c.Errorf("EraseEvents(%q, %q) = %d, %v; want %d", merchant, about, n, err, want)
		}
	}
	erase(0, "")
	erase(0, "nobody", "none")
	erase(2, "", "t", "u", "none")
	c.wantNoEvent("e1", "t")
	c.wantNoEvent("e2", "u")
	c.wantEvent(other)
	c.wantEvent(operator)
	c.claim(nil, 9, "e3 to ep_1", "e4 to ep_1")
	many := 600 // more than any one statement removes
	for n := range many {
		c.putEvent(c.eventOf("big", fmt.Sprintf("many%d", n), "w"))
	}
	erase(many, "big")
	erase(1, "shop")
	c.wantNoEvent("e3", "v")
	c.wantEvent(operator)
}
