package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/api"
)

// addOf adds an endpoint of a merchant.
func (l *lab) addOf(t *testing.T, merchant, host string) {
	t.Helper()
	if _, err := l.Add(t.Context(), merchant, Endpoint{URL: "http://" + host + "/"}); err != nil {
		t.Fatal(err)
	}
}

// tellOf makes an event of a merchant that is due now.
func (l *lab) tellOf(t *testing.T, merchant string) {
	t.Helper()
	e, err := l.NewEvent(merchant, api.EventCompleted, "", time.Now(), json.RawMessage(`{}`))
	if err == nil {
		err = l.Store.PutEvent(t.Context(), *e)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.Announced()
}

// hangs does not answer for hosts that begin with 10.0.6. It answers after 9 s for those that begin with 10.0.5, and
// immediately for others.
func hangs(ctx context.Context, host string) int {
	switch {
	case strings.HasPrefix(host, "10.0.6."):
		<-ctx.Done()
	case strings.HasPrefix(host, "10.0.5."):
		time.Sleep(9 * time.Second)
	}
	return 200
}

// TestW5EachMerchantMayBeTheBadOne: if the endpoints of one merchant do not answer, or slowly, the events of the other
// merchants do not wait, whichever merchant it is.
func TestW5EachMerchantMayBeTheBadOne(t *testing.T) {
	merchants := []string{"alice", "bob", "carol"}
	for i := range 2 * len(merchants) {
		bad, network := merchants[i/2], "10.0.5."
		if i%2 == 1 {
			network = "10.0.6."
		}
		t.Run(bad+" at "+network, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, DefaultRetry(), hangs)
				for i := range MaxEndpoints {
					l.addOf(t, bad, network+fmt.Sprint(i))
				}
				for range 50 {
					l.tellOf(t, bad)
				}
				time.Sleep(65 * time.Second) // some of its attempts have ended, and others are under way
				for n, merchant := range merchants {
					if merchant != bad {
						l.addOf(t, merchant, fmt.Sprintf("10.0.7.%d", n))
					}
				}
				start := time.Now()
				for range 100 {
					for _, merchant := range merchants {
						l.tellOf(t, merchant)
					}
				}
				synctest.Wait()
				if took := time.Since(start); took != 0 {
					t.Fatalf("to make events took %v", took)
				}
				for n, merchant := range merchants {
					if got := len(l.arrivals(fmt.Sprintf("10.0.7.%d", n))); merchant != bad && got != 100 {
						t.Errorf("%s got %d of 100 events immediately", merchant, got)
					}
				}
			})
		})
	}
}

// TestW5DeadEndpointsLeaveRoomForAGoodOne: a merchant's dead endpoints delay its good one for no longer than the three
// attempts after which they count as dead.
func TestW5DeadEndpointsLeaveRoomForAGoodOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, DefaultRetry(), hangs)
		for i := range MaxEndpoints - 1 {
			l.addOf(t, "alice", fmt.Sprintf("10.0.6.%d", i))
		}
		l.addOf(t, "alice", "10.0.7.1")
		for range 20 {
			l.tellOf(t, "alice")
		}
		time.Sleep(2 * time.Minute)
		before := len(l.arrivals("10.0.7.1"))
		if before != 20 {
			t.Errorf("%d of 20 events were delivered within two minutes", before)
		}
		for range 200 {
			l.tellOf(t, "alice")
		}
		synctest.Wait()
		if got := len(l.arrivals("10.0.7.1")) - before; got != 200 {
			t.Errorf("%d of 200 events were delivered at once", got)
		}
	})
}

// TestW5AMerchantHasSixteenEndpoints: the seventeenth is refused with words, and the same one again is not.
func TestW5AMerchantHasSixteenEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil, hangs)
		for i := range MaxEndpoints {
			if _, err := l.Add(t.Context(), "shop", Endpoint{ID: fmt.Sprintf("ep_%d", i), URL: fmt.Sprintf("http://10.0.7.%d/", i)}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := l.Add(t.Context(), "shop", Endpoint{URL: "http://10.0.7.99/"})
		if fault, ok := errors.AsType[*FaultError](err); !ok || fault.Rule != "range" || fault.Most != MaxEndpoints {
			t.Errorf("error %v, want a fault of the rule range", err)
		}
		if e, err := l.Add(t.Context(), "shop", Endpoint{ID: "ep_3", URL: "http://10.0.7.3/"}); err != nil || e.ID != "ep_3" {
			t.Errorf("the same again: %v, %v", e, err)
		}
		l.addOf(t, "other", "10.0.7.99")
	})
}
