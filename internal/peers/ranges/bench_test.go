package ranges_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/peers/ranges/rangestest"
)

// written is a PRes as it is written, so that no benchmark holds one.
func written(set rangestest.Set, pres rangestest.PRes) io.Reader {
	r, w := io.Pipe()
	go func() { w.CloseWithError(set.Write(w, pres)) }()
	return r
}

type counter int64

func (c *counter) Write(b []byte) (int, error) { *c += counter(len(b)); return len(b), nil }

// timed leaves the time out that others need to write.
type timed struct {
	r    io.Reader
	wait time.Duration
}

func (t *timed) Read(b []byte) (int, error) {
	start := time.Now()
	n, err := t.r.Read(b)
	t.wait += time.Since(start)
	return n, err
}

// BenchmarkReadPRes is the whole way from the bytes to a generation in use. The
// text is made while it is read; own-s/op is the time without waiting for it.
func BenchmarkReadPRes(b *testing.B) {
	for _, version := range []string{"2.2.0", "2.3.1"} {
		for _, n := range []int{10_000, 2_000_000} {
			b.Run(fmt.Sprintf("%s/%dranges", version, n), func(b *testing.B) {
				set, pres := rangestest.Set{Ranges: n, Seed: 1}, rangestest.PRes{Version: version, Serial: "1"}
				var size counter
				if err := set.Write(&size, pres); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				schemes := ranges.NewSchemes("visa")
				var own time.Duration
				for b.Loop() {
					r := &timed{r: written(set, pres)}
					start := time.Now()
					resp, problems, err := ranges.ReadPRes(r, ranges.Options{})
					if err != nil || len(problems) > 0 {
						b.Fatal(problems, err)
					}
					g, problems := resp.Next(nil)
					if len(problems) > 0 || g.Len() != n {
						b.Fatal(g.Len(), problems)
					}
					schemes.Swap("visa", g.Table)
					own += time.Since(start) - r.wait
				}
				b.ReportMetric(own.Seconds()/float64(b.N), "own-s/op")
				b.ReportMetric(float64(own.Nanoseconds())/float64(b.N)/float64(n), "own-ns/range")
			})
		}
	}
}

// loaded is a generation of the set.
func loaded(tb testing.TB, set rangestest.Set, pres rangestest.PRes) *ranges.Generation {
	tb.Helper()
	resp, problems, err := ranges.ReadPRes(written(set, pres), ranges.Options{})
	if err != nil || len(problems) > 0 {
		tb.Fatal(problems, err)
	}
	g, problems := resp.Next(nil)
	if len(problems) > 0 {
		tb.Fatal(problems)
	}
	return g
}

// TestGeneratedSetsAreAsDescribed holds the generator to its word.
func TestGeneratedSetsAreAsDescribed(t *testing.T) {
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		set := rangestest.Set{Ranges: 20_000, Seed: 7, Payloads: 300}
		if version < "2.3.1" {
			set.Nested = 0.1
		}
		pres := rangestest.PRes{Version: version, Serial: "s"}
		var one, two bytes.Buffer
		if set.Write(&one, pres); set.Write(&two, pres) != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
			t.Errorf("%s: a set is not the same twice", version)
		}
		g := loaded(t, set, pres)
		n := 0
		for r := range set.All() {
			n++
			if g.Table.Lookup(r.Start) == nil || g.Table.Lookup(r.End) == nil {
				t.Fatalf("%s: %v is not there", version, r)
			}
		}
		if n != set.Ranges || g.Len() != n {
			t.Errorf("%s: %d ranges, %d loaded", version, n, g.Len())
		}
	}
}

// TestPR22PResOfTwoMillionRangesHoldsLittleMemory: a PRes is never held, and the generation is small.
func TestPR22PResOfTwoMillionRangesHoldsLittleMemory(t *testing.T) {
	set, pres := rangestest.Set{Ranges: 200_000, Seed: 1}, rangestest.PRes{Version: "2.2.0"}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	g := loaded(t, set, pres)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := float64(after.HeapAlloc-before.HeapAlloc) / 200_000; each > 40 {
		t.Errorf("%.1f bytes per range, want at most 40", each)
	}
	runtime.KeepAlive(g)
}
