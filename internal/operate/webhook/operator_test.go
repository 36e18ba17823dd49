package webhook

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/state/store"
)

// addNode starts another node on the store of a lab, whose deliveries the same function answers.
func (l *lab) addNode(t *testing.T, settings Settings) *Service {
	node := &Service{Store: l.memory, Sealer: clear{}, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	node.Configure(settings)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { node.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return node
}

// withOperator gives the operator of a lab an endpoint at a URL. Body receives each body that arrives there.
func (l *lab) withOperator(url string, types []api.EventType, status int, body func(text []byte)) Settings {
	settings := *l.settings.Load()
	settings.Operator = []*Endpoint{OperatorEndpoint(url, NewSecret(), types)}
	settings.OperatorSender = NewSender(Addresses{}.ForOperator(), 10*time.Second, nil, time.Now)
	settings.OperatorSender.client.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
		text := make([]byte, req.ContentLength)
		_, _ = req.Body.Read(text)
		l.mu.Lock()
		l.got = append(l.got, arrival{req.URL.Host, req.Header.Get(HeaderID), time.Now()})
		body(text)
		l.mu.Unlock()
		w := httptest.NewRecorder()
		w.WriteHeader(status)
		return w.Result(), nil
	})
	l.Configure(settings)
	return settings
}

// TestW2OperatorIsToldOfDisabledEndpoint: once, although two nodes deliver, and not what it did not ask for.
func TestW2OperatorIsToldOfDisabledEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, []time.Duration{time.Hour}, func(context.Context, string) int { return 503 })
		var bodies [][]byte
		settings := l.withOperator("https://192.168.1.9/ops", []api.EventType{api.EventEndpointDisabled}, 200, func(text []byte) { bodies = append(bodies, text) })
		node := l.addNode(t, settings)
		e := l.add(t, "10.0.0.1")
		for range 130 {
			l.tell(t, time.Now())
			l.tell(t, time.Now())
			time.Sleep(time.Hour)
			synctest.Wait()
		}
		for _, s := range []*Service{l.Service, node} {
			if err := s.TellOperator(t.Context(), api.EventRangesStale, "visa", struct{}{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		var told struct {
			Type string
			Data struct{ Merchant, Endpoint, Reason string }
		}
		if len(bodies) != 1 || json.Unmarshal(bodies[0], &told) != nil || told.Type != string(api.EventEndpointDisabled) ||
			told.Data.Merchant != "shop" || told.Data.Endpoint != e.ID || told.Data.Reason != "answered with status 503" {
			t.Errorf("the operator was told %q", bodies)
		}
	})
}

// TestW2OperatorEndpointIsNeverDisabled: what fails is tried again as for merchants, and the next event comes.
func TestW2OperatorEndpointIsNeverDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, []time.Duration{time.Minute, time.Hour}, func(context.Context, string) int { return 200 })
		l.withOperator("https://ops.example/", nil, 410, func([]byte) {})
		for _, occurrence := range []string{"visa", "jcb"} {
			for range 3 {
				if err := l.TellOperator(t.Context(), api.EventRangesStale, occurrence, struct{}{}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(6 * 24 * time.Hour)
			synctest.Wait()
		}
		got := l.arrivals("ops.example")
		if len(got) != 6 || got[0].event != got[2].event || got[2].event == got[3].event {
			t.Errorf("%v, want three attempts for each of two events", got)
		}
	})
}

// TestW2NodeThatDoesNotKnowTheOperatorLeavesTheEvent: while the nodes get a new configuration one by one, an event
// waits for a node that knows where it goes.
func TestW2NodeThatDoesNotKnowTheOperatorLeavesTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, DefaultRetry(), func(context.Context, string) int { return 200 })
		l.add(t, "10.0.0.1") // so that it looks for what is due
		without := *l.settings.Load()
		with := l.withOperator("https://ops.example/", nil, 200, func([]byte) {})
		other := &Service{Store: l.memory, Sealer: clear{}, Log: l.Log, Now: time.Now}
		other.Configure(with)
		l.Configure(without)
		if err := other.TellOperator(t.Context(), api.EventRangesStale, "visa", struct{}{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := len(l.arrivals("ops.example")); n != 0 {
			t.Fatalf("%d deliveries to an endpoint that is not configured", n)
		}
		l.Configure(with)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := len(l.arrivals("ops.example")); n != 1 {
			t.Errorf("%d deliveries, want 1", n)
		}
		l.Configure(without)
		if err := other.TellOperator(t.Context(), api.EventRangesStale, "jcb", struct{}{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour) // it is given up then
		synctest.Wait()
		events, err := l.Store.FindEvents(t.Context(), store.EventQuery{Now: time.Now(), Limit: 9})
		if err != nil || len(events) != 2 {
			t.Fatal(events, err)
		}
		deliveries, err := l.Store.Deliveries(t.Context(), events[0].ID)
		if err != nil || len(deliveries) != 1 || !deliveries[0].Due.IsZero() || deliveries[0].Attempt != 0 {
			t.Errorf("%v %v", deliveries, err)
		}
	})
}
