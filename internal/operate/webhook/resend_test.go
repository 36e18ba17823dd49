package webhook

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// TestFailedEventsAreSentAgainOnce: what failed while the receiver was away arrives at once when it is back, each event
// once, however often that is asked for meanwhile. What was delivered does not come again, unless all is asked for.
func TestFailedEventsAreSentAgainOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var isDown atomic.Bool
		l := newLab(t, []time.Duration{30 * 24 * time.Hour}, func(_ context.Context, host string) int {
			if isDown.Load() && host == "10.0.0.1" {
				return 503
			}
			return 200
		})
		e := l.add(t, "10.0.0.1")
		l.add(t, "10.0.0.2")
		pass := func() {
			time.Sleep(time.Hour)
			synctest.Wait()
		}
		l.tell(t, time.Now())
		pass()
		isDown.Store(true)
		began := time.Now()
		var missed []string
		for range 5 {
			missed = append(missed, l.tell(t, time.Now()).ID)
			pass()
		}
		late := time.Now()
		l.tell(t, late)
		pass()
		isDown.Store(false)
		before := len(l.arrivals("10.0.0.2"))
		resend := func(r Resending) (total int) {
			t.Helper()
			r.Find.Merchant = "shop"
			for {
				n, last, err := l.ResendAll(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				total += n
				if last.ID == "" {
					return total
				}
				r.Find.AfterCreated, r.Find.AfterID = last.Created, last.ID
			}
		}
		failed := Resending{HasFailed: true, Find: store.EventQuery{From: began, To: late, Limit: 2}}
		again := time.Now()
		if n := resend(failed); n != len(missed) {
			t.Errorf("%d events are sent again, want %d", n, len(missed))
		}
		if n := resend(failed); n != 0 {
			t.Errorf("%d events are sent again while they are on their way", n)
		}
		pass()
		var arrived []string
		for _, a := range l.arrivals("10.0.0.1") {
			if !a.at.Before(again) {
				arrived = append(arrived, a.event)
			}
		}
		slices.Sort(arrived)
		slices.Sort(missed)
		if !slices.Equal(arrived, missed) {
			t.Errorf("%v arrived, want each of %v once", arrived, missed)
		}
		if n := len(l.arrivals("10.0.0.2")); n != before {
			t.Errorf("%d events went to the endpoint that has missed none", n-before)
		}
		if n := resend(failed); n != 0 {
			t.Errorf("%d events are sent again that were delivered", n)
		}
		all := Resending{Endpoint: e.ID, Find: store.EventQuery{Limit: 9}}
		if n := resend(all); n != 7 {
			t.Errorf("%d of all events are sent again, want 7", n)
		}
		pass()
		if n := len(l.arrivals("10.0.0.2")); n != before {
			t.Errorf("%d events went to the other endpoint", n-before)
		}
	})
}
