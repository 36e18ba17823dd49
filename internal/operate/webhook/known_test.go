package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// A countingStore counts what is read of endpoints.
type countingStore struct {
	store.Events

	mu                 sync.Mutex
	looks, marks, rows int
}

func (s *countingStore) count(looks, marks, rows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks, s.marks, s.rows = s.looks+looks, s.marks+marks, s.rows+rows
}

// readAndReset returns the counts and sets them to 0.
func (s *countingStore) readAndReset() (looks, marks, rows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	looks, marks, rows = s.looks, s.marks, s.rows
	s.looks, s.marks, s.rows = 0, 0, 0
	return looks, marks, rows
}

func (s *countingStore) EndpointMarksUnless(ctx context.Context, mark string) (map[string]string, string, error) {
	marks, now, err := s.Events.EndpointMarksUnless(ctx, mark)
	s.count(1, len(marks), 0)
	return marks, now, err
}

func (s *countingStore) EndpointsOf(ctx context.Context, merchants ...string) ([]store.Endpoint, error) {
	rows, err := s.Events.EndpointsOf(ctx, merchants...)
	s.count(0, 0, len(rows))
	return rows, err
}

func (s *countingStore) Endpoints(ctx context.Context) ([]store.Endpoint, error) {
	rows, err := s.Events.Endpoints(ctx)
	s.count(0, 0, len(rows))
	return rows, err
}

// newNode returns the webhooks of another node with a store.
func newNode(s store.Events) *Service {
	node := &Service{Store: s, Sealer: clear{}, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	node.Configure(Settings{
		Poll: labPoll, Addresses: Addresses{Allowed: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, HTTP: true},
	})
	return node
}

// addMany adds an endpoint to each of n merchants.
func addMany(t testing.TB, s *Service, n int) {
	t.Helper()
	for i := range n {
		if _, err := s.Add(t.Context(), fmt.Sprint("merchant-", i), Endpoint{URL: "http://10.0.0.1/"}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNodeReadsWhatHasChanged: a node reads each endpoint once. While nothing changes it reads one mark each time, and
// when another node changes an endpoint, it reads that merchant's.
func TestNodeReadsWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const merchants = 300
		memory := storetest.NewMemory(time.Now)
		other := newNode(memory)
		addMany(t, other, merchants)
		counting := &countingStore{Events: memory}
		node := newNode(counting)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { node.Run(ctx); close(done) }()
		defer func() { cancel(); <-done }()
		want := func(what string, marks, rows int) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if looks, gotMarks, gotRows := counting.readAndReset(); looks < 2 || gotMarks != marks || gotRows != rows {
				t.Errorf("%s: in a minute the node looked %d times, and read %d marks of merchants and %d endpoints; want %d and %d",
					what, looks, gotMarks, gotRows, marks, rows)
			}
		}
		want("at the start", merchants, merchants)
		want("idle", 0, 0)

		added, err := other.Add(ctx, "merchant-7", Endpoint{URL: "http://10.0.0.2/"})
		if err != nil {
			t.Fatal(err)
		}
		want("after another node has added one", merchants, 2)
		if e, err := node.NewEvent("merchant-7", api.EventCompleted, "", time.Now(), json.RawMessage(`{}`)); err != nil || len(e.Endpoints) != 2 {
			t.Errorf("an event goes to %d endpoints, %v; want 2", len(e.Endpoints), err)
		}
		if _, err := other.Change(ctx, "merchant-7", added.ID, func(e *Endpoint) error { e.Disabled = true; return nil }); err != nil {
			t.Fatal(err)
		}
		want("after another node has changed one", merchants, 2)
		if e := node.endpoint(added.ID); e == nil || !e.Disabled {
			t.Errorf("the node knows the endpoint as %+v, want it disabled", e)
		}
		for _, e := range node.known.of("merchant-7") {
			if err := other.Remove(ctx, "merchant-7", e.ID); err != nil {
				t.Fatal(err)
			}
		}
		want("after another node has removed all of one merchant", merchants-1, 0)
		if node.Wants("merchant-7") || !node.Wants("merchant-8") {
			t.Error("the node makes events of the merchant without endpoints, or none of another")
		}
		if node.endpoint(added.ID) != nil {
			t.Error("the node still knows the endpoint that another node has removed")
		}
	})
}

// TestAnEndpointIsMadeWithoutReadingThoseOfOthers: the number of endpoints of other merchants does not change what an
// addition, a change, a list or a removal reads.
func TestAnEndpointIsMadeWithoutReadingThoseOfOthers(t *testing.T) {
	counting := &countingStore{Events: storetest.NewMemory(time.Now)}
	node := newNode(counting)
	const merchants = 500
	addMany(t, node, merchants)
	if _, _, rows := counting.readAndReset(); rows > 2*merchants {
		t.Errorf("%d endpoints were read to make %d", rows, merchants)
	}
	all, err := node.Endpoints(t.Context(), "merchant-3")
	if err == nil && len(all) == 1 {
		_, err = node.Change(t.Context(), "merchant-3", all[0].ID, func(e *Endpoint) error { e.Description = "new"; return nil })
	}
	if err == nil && len(all) == 1 {
		err = node.Remove(t.Context(), "merchant-3", all[0].ID)
	}
	if _, _, rows := counting.readAndReset(); err != nil || len(all) != 1 || rows > 5 {
		t.Errorf("%d endpoints, %v; %d were read to list, to change and to remove one", len(all), err, rows)
	}
	if node.Wants("merchant-3") || !node.Wants("merchant-4") {
		t.Error("the node that has removed an endpoint does not know it, or forgot another")
	}
}

// BenchmarkIdleNode measures one refresh of a node whose store has 10,000 endpoints that have not changed.
func BenchmarkIdleNode(b *testing.B) {
	node := newBenchNode(b, 10_000)
	if err := node.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := node.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNodeHearsOfAChange measures one refresh of a node whose store has 10,000 endpoints after one of them has
// changed.
func BenchmarkNodeHearsOfAChange(b *testing.B) {
	node := newBenchNode(b, 10_000)
	other := newNode(node.Store)
	if err := node.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	all, err := other.Endpoints(b.Context(), "merchant-7")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		_, err := other.Change(b.Context(), "merchant-7", all[0].ID, func(e *Endpoint) error { e.Disabled = !e.Disabled; return nil })
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := node.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAddEndpoint measures the addition of an endpoint when other merchants have 3,000.
func BenchmarkAddEndpoint(b *testing.B) {
	node := newBenchNode(b, 3_000)
	n := 0
	for b.Loop() {
		n++
		if _, err := node.Add(b.Context(), fmt.Sprint("new-", n), Endpoint{URL: "http://10.0.0.1/"}); err != nil {
			b.Fatal(err)
		}
	}
}

// newBenchNode returns a node with an embedded store that has an endpoint of each of n merchants.
func newBenchNode(b *testing.B, n int) *Service {
	db, err := sqlite.Open(b.TempDir(), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	node := newNode(db)
	addMany(b, node, n)
	return node
}
