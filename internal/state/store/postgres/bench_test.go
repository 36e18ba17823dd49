package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// record is what a transaction with a result may hold.
var record = make([]byte, 2048)

// writers shares b.N calls of f among n goroutines, and reports the calls per second and how long they took.
func writers(b *testing.B, n int, f func(i int64) error) {
	b.Helper()
	b.ReportAllocs()
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range n {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				start := time.Now()
				if err := f(i); err != nil {
					b.Error(err)
					return
				}
				took[i-1] = time.Since(start)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(took[len(took)*p/100].Microseconds()), fmt.Sprintf("p%d-µs", p))
	}
}

func benchTxn(i int64, ends time.Time) store.Txn {
	id := fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i)
	return store.Txn{ID: id, Owner: "shop", Scheme: "visa", State: "sent", Data: record, Expires: ends}
}

// BenchmarkCreate is what a claim costs, commit and sync included.
func BenchmarkCreate(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("%dwriters", n), func(b *testing.B) {
			db, _ := openNew(b)
			ends := time.Now().Add(time.Hour)
			writers(b, n, func(i int64) error { return db.Create(context.Background(), benchTxn(i, ends)) })
		})
	}
}

// BenchmarkUpdate is what the result of a challenge costs: a read and a write.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("%dwriters", n), func(b *testing.B) {
			db, _ := openNew(b)
			const live = 1024
			ends := time.Now().Add(time.Hour)
			for i := range int64(live) {
				if err := db.Create(context.Background(), benchTxn(i, ends)); err != nil {
					b.Fatal(err)
				}
			}
			writers(b, n, func(i int64) error {
				return db.Update(context.Background(), store.Txn{ID: benchTxn(i%live, ends).ID}, func(t *store.Txn) error {
					t.State = "result"
					return nil
				})
			})
		})
	}
}

func BenchmarkGet(b *testing.B) {
	db, _ := openNew(b)
	x := benchTxn(1, time.Now().Add(time.Hour))
	if err := db.Create(context.Background(), x); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := db.Get(context.Background(), x.ID); err != nil {
			b.Fatal(err)
		}
	}
}
