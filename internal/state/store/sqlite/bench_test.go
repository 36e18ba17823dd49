package sqlite

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// record is what a transaction with a result may hold.
var record = make([]byte, 2048)

// writers shares b.N calls of f among n goroutines.
func writers(b *testing.B, n int, f func(i int64) error) {
	b.Helper()
	b.ReportAllocs()
	b.SetBytes(int64(len(record)))
	b.ResetTimer()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := f(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}

func benchID(i int64) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i) }

func BenchmarkCreate(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("%dwriters", n), func(b *testing.B) {
			db, _ := openTemp(b)
			ends := time.Now().Add(time.Hour)
			writers(b, n, func(i int64) error {
				return db.Create(context.Background(), store.Txn{
					ID: benchID(i), Owner: "shop", Scheme: "visa", State: "sent", Data: record, Expires: ends})
			})
		})
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("%dwriters", n), func(b *testing.B) {
			db, _ := openTemp(b)
			const live = 4096
			ends := time.Now().Add(time.Hour)
			writersOnce(b, db, live, ends)
			writers(b, n, func(i int64) error {
				return db.Update(context.Background(), store.Txn{ID: benchID(i % live)}, func(t *store.Txn) error {
					t.State, t.Data, t.Expires = "result", record, ends
					return nil
				})
			})
		})
	}
}

// BenchmarkOutcome is what the outcome of an /auth takes: a lazy update of a row that was made before, by a writer that
// has to read it and by one that knows its version.
func BenchmarkOutcome(b *testing.B) {
	for name, isKnown := range map[string]bool{"read": false, "known": true} {
		b.Run(name, func(b *testing.B) {
			db, _ := openTemp(b)
			ends := time.Now().Add(time.Hour)
			made := make([]store.Txn, b.N)
			var wg sync.WaitGroup
			for part := range slices.Chunk(made, (b.N+63)/64) {
				wg.Go(func() {
					for i := range part {
						part[i] = store.Txn{
							ID: rand.Text(), Owner: "shop", Scheme: "visa", State: "sent", Data: record[:1024], Expires: ends,
							Version: store.NewVersion(),
						}
						if err := db.Create(context.Background(), part[i]); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			writers(b, 1, func(i int64) error {
				was := store.Txn{ID: made[i-1].ID}
				if isKnown {
					was = made[i-1]
				}
				return db.Update(context.Background(), was, func(t *store.Txn) error {
					t.State, t.Data, t.Lazy = "final", record, true
					return nil
				})
			})
		})
	}
}

// writersOnce fills the store.
func writersOnce(b *testing.B, db *DB, n int64, ends time.Time) {
	b.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			x := store.Txn{ID: benchID(i), Owner: "shop", Scheme: "visa", State: "sent", Data: record[:1024], Expires: ends}
			if err := db.Create(context.Background(), x); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}

func BenchmarkGet(b *testing.B) {
	db, _ := openTemp(b)
	writersOnce(b, db, 4096, time.Now().Add(time.Hour))
	b.ReportAllocs()
	var i int64
	for b.Loop() {
		if _, err := db.Get(context.Background(), benchID(i%4096)); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkRawInserts is what SQLite itself can do: the same rows into a table of id and data, one prepared statement
// on one connection, a number of rows per commit. It is the measure for BenchmarkCreate and BenchmarkUpdate.
func BenchmarkRawInserts(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("%dpercommit", n), func(b *testing.B) {
			db, dir := openTemp(b)
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
			raw := new(DB)
			writes, err := raw.connect(dir + "/" + fileName)
			if err != nil {
				b.Fatal(err)
			}
			conn := writes.conn
			defer raw.closeFiles() // the data is not needed
			ctx := context.Background()
			if _, err := conn.ExecContext(ctx, "CREATE TABLE raw (id TEXT PRIMARY KEY, data BLOB)"); err != nil {
				b.Fatal(err)
			}
			insert, err := conn.PrepareContext(ctx, "INSERT INTO raw VALUES (?, ?)")
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(record)))
			b.ReportAllocs()
			i := int64(0)
			for b.Loop() {
				if i%int64(n) == 0 {
					if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := insert.Exec(benchID(i), record); err != nil {
					b.Fatal(err)
				}
				if i++; i%int64(n) == 0 {
					if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "writes/s")
		})
	}
}

// snapshotLen is what two million ranges take, about.
const snapshotLen = 60 << 20

// endless gives n bytes, the same again and again.
type endless struct {
	data []byte
	n    int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	n := copy(p, e.data[:min(len(e.data), e.n)])
	e.n -= n
	return n, nil
}

func benchSnapshot(b *testing.B, db *DB, generation int64) {
	b.Helper()
	l, err := db.Acquire(b.Context(), "visa", "me", time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	content := &endless{contentOf(1, 1<<20), snapshotLen}
	s := store.Snapshot{Scheme: "visa", Generation: generation, Created: time.Now()}
	if err := db.PutSnapshot(b.Context(), s, l, content, 3); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPutSnapshot writes one generation after the other; from the fourth on, one is removed for each that is
// added.
func BenchmarkPutSnapshot(b *testing.B) {
	db, _ := openTemp(b)
	b.SetBytes(snapshotLen)
	b.ReportAllocs()
	generation := int64(0)
	for b.Loop() {
		generation++
		benchSnapshot(b, db, generation)
	}
}

func BenchmarkReadSnapshot(b *testing.B) {
	db, _ := openTemp(b)
	benchSnapshot(b, db, 1)
	b.SetBytes(snapshotLen)
	b.ReportAllocs()
	for b.Loop() {
		r, err := db.OpenSnapshot(b.Context(), "visa", 1)
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, r); n != snapshotLen || err != nil {
			b.Fatal(n, err)
		}
		_ = r.Close()
	}
}

// BenchmarkCreateBeside measures how long another write takes while nothing else happens, and while snapshots are
// written all the time.
func BenchmarkCreateBeside(b *testing.B) {
	for _, beside := range []string{"nothing", "snapshots"} {
		b.Run(beside, func(b *testing.B) {
			db, _ := openTemp(b)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			if beside == "snapshots" {
				wg.Go(func() {
					for generation := int64(1); ; generation++ {
						select {
						case <-stop:
							return
						default:
							benchSnapshot(b, db, generation)
						}
					}
				})
			}
			ends := time.Now().Add(time.Hour)
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				err := db.Create(context.Background(), store.Txn{
					ID: benchID(int64(len(took))), Owner: "shop", Scheme: "visa", State: "sent", Data: record, Expires: ends})
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			close(stop)
			wg.Wait()
			slices.Sort(took)
			for _, p := range []int{50, 99} {
				b.ReportMetric(float64(took[len(took)*p/100].Microseconds()), fmt.Sprintf("p%d-µs", p))
			}
		})
	}
}
