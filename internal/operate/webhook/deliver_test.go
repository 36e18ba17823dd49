package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// clear is a Sealer that hides nothing, but checks the name.
type clear struct{}

func (clear) Seal(name string, plain []byte) []byte { return append([]byte(name+"\n"), plain...) }

func (clear) Open(name string, sealed []byte) ([]byte, error) {
	if len(sealed) < len(name)+1 || string(sealed[:len(name)+1]) != name+"\n" {
		return nil, errors.New("sealed under another name")
	}
	return sealed[len(name)+1:], nil
}

// A lab is a service in a bubble of synctest, whose deliveries a function answers.
type lab struct {
	*Service
	memory *storetest.Memory
	stop   func() // ends the service, and waits for that

	mu  sync.Mutex
	got []arrival
}

type arrival struct {
	host, event string
	at          time.Time
}

// labPoll makes days pass quickly.
const labPoll = 30 * time.Second

// newLab starts a service. Answer returns the status for a delivery to a host, or never returns.
func newLab(t *testing.T, retry []time.Duration, answer func(ctx context.Context, host string) int) *lab {
	memory := storetest.NewMemory(time.Now)
	l := &lab{memory: memory, Service: &Service{
		Store: memory, Sealer: clear{}, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}}
	all := Addresses{Allowed: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, HTTP: true}
	sender := NewSender(all, 10*time.Second, nil, time.Now)
	sender.client.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
		l.mu.Lock()
		l.got = append(l.got, arrival{req.URL.Host, req.Header.Get(HeaderID), time.Now()})
		l.mu.Unlock()
		status := answer(req.Context(), req.URL.Host)
		if req.Context().Err() != nil {
			return nil, req.Context().Err()
		}
		w := httptest.NewRecorder()
		w.WriteHeader(status)
		return w.Result(), nil
	})
	l.Configure(Settings{Poll: labPoll, Retry: retry, Timeout: 10 * time.Second, DisableAfter: 120 * time.Hour, Sender: sender, Addresses: all})
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { l.Run(ctx) })
	l.stop = func() {
		cancel()
		done.Wait()
	}
	t.Cleanup(l.stop)
	return l
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

func (l *lab) arrivals(host string) []arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []arrival
	for _, a := range l.got {
		if a.host == host {
			all = append(all, a)
		}
	}
	return all
}

// add adds an endpoint, and tell an event.
func (l *lab) add(t *testing.T, host string) *Endpoint {
	t.Helper()
	e, err := l.Add(t.Context(), "shop", Endpoint{URL: "http://" + host + "/"})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (l *lab) tell(t *testing.T, at time.Time) *store.Event {
	t.Helper()
	e, err := l.NewEvent("shop", api.EventCompleted, "", at, json.RawMessage(`{}`))
	if err == nil {
		err = l.Store.PutEvent(t.Context(), *e)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.Announced()
	return e
}

// TestW4FailedDeliveriesAreRepeated: after each failure the time of the list passes, a tenth more or less, with the
// same id; then the event is given up.
func TestW4FailedDeliveriesAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retry := DefaultRetry()
		l := newLab(t, retry, func(context.Context, string) int { return 500 })
		l.add(t, "10.0.0.1")
		began := time.Now()
		e := l.tell(t, began)
		time.Sleep(6 * 24 * time.Hour)
		synctest.Wait()
		got := l.arrivals("10.0.0.1")
		if len(got) != len(retry)+1 {
			t.Fatalf("%d attempts, want %d", len(got), len(retry)+1)
		}
		for i, a := range got {
			since := a.at.Sub(began)
			if i > 0 {
				since = a.at.Sub(got[i-1].at)
			}
			want := append([]time.Duration{0}, retry...)[i]
			if a.event != e.ID || since < want*9/10 || since > want*11/10+labPoll+time.Second {
				t.Errorf("attempt %d came after %s as %s, want about %s", i+1, since, a.event, want)
			}
		}
	})
}

// TestW3ReceiverDownForTenMinutes: what happens meanwhile arrives soon after it is back, each event
// once and under its id.
func TestW3ReceiverDownForTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var delivered []string
		began := time.Now()
		isDown := func() bool { return time.Since(began) < 10*time.Minute }
		l := newLab(t, DefaultRetry(), func(ctx context.Context, _ string) int {
			if isDown() {
				return 502
			}
			return 200
		})
		l.add(t, "10.0.0.1")
		var told []string
		for isDown() {
			told = append(told, l.tell(t, time.Now()).ID)
			time.Sleep(7 * time.Second)
			synctest.Wait()
		}
		time.Sleep(12 * time.Minute) // the longest pause before that is ten minutes, a tenth more or less
		synctest.Wait()
		for _, a := range l.arrivals("10.0.0.1") {
			if a.at.Sub(began) >= 10*time.Minute {
				delivered = append(delivered, a.event)
			}
		}
		slices.Sort(told)
		slices.Sort(delivered)
		if !slices.Equal(told, delivered) {
			t.Errorf("%d events, and %d deliveries after the ten minutes", len(told), len(delivered))
		}
	})
}

// TestW4SlowEndpointDelaysNoOther: while an endpoint never answers, another has each event within a second.
func TestW4SlowEndpointDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, DefaultRetry(), func(ctx context.Context, host string) int {
			if host == "10.0.0.1" {
				<-ctx.Done()
			}
			return 200
		})
		l.add(t, "10.0.0.1")
		l.add(t, "10.0.0.2")
		var told []time.Time
		for range 200 {
			told = append(told, time.Now())
			l.tell(t, time.Now())
			time.Sleep(50 * time.Millisecond)
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		got := l.arrivals("10.0.0.2")
		if len(got) != len(told) {
			t.Fatalf("%d of %d events arrived", len(got), len(told))
		}
		var took []time.Duration
		for i, a := range got {
			took = append(took, a.at.Sub(told[i]).Abs())
		}
		slices.Sort(took)
		if p95 := took[len(took)*95/100]; p95 > time.Second {
			t.Errorf("p95 %s", p95)
		}
	})
}

// TestW3AttemptThatTheEndOfTheProcessCutsIsDueAtOnce: the next process need not wait for the end of the claim.
func TestW3AttemptThatTheEndOfTheProcessCutsIsDueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, []time.Duration{time.Hour}, func(ctx context.Context, _ string) int {
			<-ctx.Done()
			return 0
		})
		l.add(t, "10.0.0.1")
		told := l.tell(t, time.Now())
		synctest.Wait()
		if len(l.arrivals("10.0.0.1")) != 1 {
			t.Fatal("nothing is under way, so the test shows nothing")
		}
		l.stop()
		due, err := l.Store.Deliveries(t.Context(), told.ID)
		if err != nil || len(due) != 1 || due[0].Due.After(time.Now()) || due[0].Attempt != 0 {
			t.Errorf("after the end: %+v, %v; want it due, and no attempt counted", due, err)
		}
	})
}

// TestW4EndpointIsDisabledAfterFiveDays: from then on nothing is delivered to it, until its merchant enables it.
func TestW4EndpointIsDisabledAfterFiveDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		works := false
		l := newLab(t, []time.Duration{time.Hour}, func(context.Context, string) int {
			if works {
				return 204
			}
			return 503
		})
		e := l.add(t, "10.0.0.1")
		for range 130 {
			l.tell(t, time.Now())
			time.Sleep(time.Hour)
			synctest.Wait()
		}
		now, err := l.Endpoint(t.Context(), "shop", e.ID)
		if err != nil || !now.Disabled {
			t.Fatalf("after 130 hours: %+v, %v", now, err)
		}
		before := len(l.arrivals("10.0.0.1"))
		l.tell(t, time.Now())
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if n := len(l.arrivals("10.0.0.1")); n != before {
			t.Errorf("%d deliveries to a disabled endpoint", n-before)
		}
		works = true
		if _, err := l.Change(t.Context(), "shop", e.ID, func(e *Endpoint) error { e.Disabled = false; return nil }); err != nil {
			t.Fatal(err)
		}
		l.tell(t, time.Now())
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(l.arrivals("10.0.0.1")); n != before+1 {
			t.Errorf("%d deliveries after it was enabled, want 1", n-before)
		}
	})
}

// A slowStore answers the first question for endpoints late, with what was there when it was asked.
type slowStore struct {
	store.Events
	asked, release chan struct{}
	questions      atomic.Int32
}

func (s *slowStore) EndpointsOf(ctx context.Context, merchants ...string) ([]store.Endpoint, error) {
	rows, err := s.Events.EndpointsOf(ctx, merchants...)
	if s.questions.Add(1) == 1 {
		close(s.asked)
		<-s.release
	}
	return rows, err
}

// TestW4ChangeOutlivesARefreshBeforeIt: what a refresh read before a change does not take the place of the change.
func TestW4ChangeOutlivesARefreshBeforeIt(t *testing.T) {
	slow := &slowStore{Events: storetest.NewMemory(time.Now), asked: make(chan struct{}), release: make(chan struct{})}
	s := &Service{Store: slow.Events, Sealer: clear{}, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	s.Configure(Settings{Addresses: Addresses{Allowed: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, HTTP: true}})
	e, err := s.Add(t.Context(), "shop", Endpoint{URL: "http://10.0.0.1/"})
	if err != nil {
		t.Fatal(err)
	}
	s.Store = slow
	var refreshes sync.WaitGroup
	refreshes.Go(func() { _ = s.Refresh(t.Context()) })
	<-slow.asked
	_, err = s.Change(t.Context(), "shop", e.ID, func(e *Endpoint) error { e.Disabled = true; return nil })
	close(slow.release)
	refreshes.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if now := s.endpoint(e.ID); !now.Disabled { // which deliveries go by, and which reads nothing
		t.Error("after the change deliveries still go to the endpoint")
	}
}

// TestD32GoneDisablesAtOnce holds what an endpoint says that is there no more.
func TestD32GoneDisablesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, DefaultRetry(), func(context.Context, string) int { return 410 })
		e := l.add(t, "10.0.0.1")
		l.tell(t, time.Now())
		time.Sleep(time.Hour)
		synctest.Wait()
		if now, err := l.Endpoint(t.Context(), "shop", e.ID); err != nil || !now.Disabled || len(l.arrivals("10.0.0.1")) != 1 {
			t.Errorf("%+v, %v after %d deliveries", now, err, len(l.arrivals("10.0.0.1")))
		}
	})
}

// TestEventThatLiesAheadIsDeliveredThen tests the event of a challenge that ends only by its time limit.
func TestEventThatLiesAheadIsDeliveredThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, DefaultRetry(), func(context.Context, string) int { return 200 })
		l.add(t, "10.0.0.1")
		due := time.Now().Add(time.Hour)
		l.tell(t, due)
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		if n := len(l.arrivals("10.0.0.1")); n != 0 {
			t.Fatalf("%d deliveries before the time", n)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		got := l.arrivals("10.0.0.1")
		if len(got) != 1 || got[0].at.Sub(due).Abs() > labPoll {
			t.Errorf("%v", got)
		}
	})
}

// TestEventOfAnotherMerchantIsNotOpened: an attacker who can write to the database cannot give an event to another
// merchant.
func TestEventOfAnotherMerchantIsNotOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, DefaultRetry(), func(context.Context, string) int { return 200 })
		e := l.tell(t, time.Now())
		stolen := *e
		stolen.ID, stolen.Merchant = "evt_stolen", "thief"
		if err := l.Store.PutEvent(t.Context(), stolen); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Event(t.Context(), "thief", "evt_stolen"); err == nil {
			t.Error("an event was opened under another merchant")
		}
		if _, err := l.Event(t.Context(), "thief", e.ID); !errors.Is(err, ErrNoEvent) {
			t.Error(err)
		}
	})
}

// TestOldEventsGo holds that events are kept for 30 days.
func TestOldEventsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, DefaultRetry(), func(context.Context, string) int { return 200 })
		e := l.tell(t, time.Now())
		time.Sleep(30*24*time.Hour - time.Minute)
		synctest.Wait()
		if _, err := l.Event(t.Context(), "shop", e.ID); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if _, err := l.Event(t.Context(), "shop", e.ID); !errors.Is(err, ErrNoEvent) {
			t.Error(err)
		}
	})
}
