package api

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/state/account"
)

// limitedKey takes every key for one of a merchant with limits.
type limitedKey struct{ *account.Merchant }

func (k limitedKey) Authenticate(context.Context, string) (*account.Account, error) {
	return &account.Account{Merchant: k.Merchant}, nil
}

// newLimited returns a handler for a merchant with limits, on one of several nodes, and the refusals that it counts.
func newLimited(m *account.Merchant, nodes int, takes time.Duration) (*Handler, map[Refusal]int) {
	counted := map[Refusal]int{}
	var mu sync.Mutex
	return &Handler{
		Engine: engine{&fake{takes: takes}}, MPI: former{new(fake)}, Keys: limitedKey{m},
		MerchantLimits: &MerchantLimits{Nodes: func() int { return nodes }}, Log: slog.New(slog.DiscardHandler),
		Refused: func(_ string, why Refusal) {
			mu.Lock()
			defer mu.Unlock()
			counted[why]++
		},
	}, counted
}

// TestG15RateOfAMerchantIsSharedByNodes: a node lets its part of the rate through, of all keys together, and says when
// to come again. What asks for a result passes. A rate that changes counts within a second.
func TestG15RateOfAMerchantIsSharedByNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &account.Merchant{Name: "Shop", Rate: account.Rate{Count: 20, Per: time.Second}}
		h, counted := newLimited(m, 4, 0)
		passed := func(path string, n int) (passed int) {
			for i := range n {
				w := ask(h, path, "key "+strconv.Itoa(i), strings.NewReader("{}"))
				if w.Code != http.StatusTooManyRequests {
					passed++
				} else if w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "set for the merchant") {
					t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
				}
			}
			return passed
		}
		if n := passed("/preauth", 10); n != 5 {
			t.Errorf("%d requests passed, want a quarter of 20", n)
		}
		if n := passed("/postauth", 10) + passed("/outcome", 10); n != 20 {
			t.Errorf("%d of 20 requests for results passed", n)
		}
		time.Sleep(time.Second)
		if n := passed("/auth", 5) + passed("/authentications", 5); n != 5 {
			t.Errorf("%d requests passed a second later, want 5", n)
		}
		m.Rate.Count = 40
		time.Sleep(time.Second)
		if n := passed("/preauth", 1); n != 1 {
			t.Error("no request passed when the rate was raised")
		}
		time.Sleep(time.Second)
		if n := passed("/enrolled", 20); n != 10 {
			t.Errorf("%d requests passed after the rate was raised, want 10", n)
		}
		if len(counted) != 1 || counted[MerchantRate] != 5+5+10 {
			t.Errorf("counted %v", counted)
		}
	})
}

// TestG15InFlightOfAMerchantIsSharedByNodes: a node has its part of the requests in work, rounded up. A request that
// ends makes room for another, and one that asks for a result needs none.
func TestG15InFlightOfAMerchantIsSharedByNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, counted := newLimited(&account.Merchant{Name: "Shop", InFlight: 5}, 2, time.Minute)
		codes := make(chan int, 100)
		call := func(path string) {
			go func() { codes <- ask(h, path, "k", strings.NewReader("{}")).Code }()
			synctest.Wait()
		}
		for range 4 {
			call("/auth")
		}
		if n := len(codes); n != 1 || <-codes != http.StatusTooManyRequests {
			t.Errorf("%d requests were answered, want that the fourth is refused", n)
		}
		call("/postauth")
		if n := len(codes); n != 0 {
			t.Errorf("%d requests were answered, want that one for a result is in work", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for range 4 {
			if code := <-codes; code != http.StatusOK {
				t.Errorf("answered with %d", code)
			}
		}
		for range 3 {
			call("/auth")
		}
		if n := len(codes); n != 0 {
			t.Errorf("%d requests were refused after the others had ended", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(counted) != 1 || counted[MerchantInFlight] != 1 {
			t.Errorf("counted %v", counted)
		}
	})
}
