package ranges

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/iotest"
	"time"

	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/internal/base/randtest"
	"github.com/openthreeds/threeds/message"
)

// small is a generation with all that there is.
func small(t testing.TB) *Generation {
	t.Helper()
	resp, problems, err := ReadPRes(bytes.NewReader([]byte(full(message.V231))), Options{})
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	g, problems := resp.Next(nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	g.Scheme, g.Loaded = "visa", time.Date(2026, 11, 20, 12, 0, 0, 5, time.UTC)
	return g
}

func snapshot(t testing.TB, g *Generation) []byte {
	t.Helper()
	var b bytes.Buffer
	if n, err := g.WriteTo(&b); err != nil || n != int64(b.Len()) {
		t.Fatalf("WriteTo = %d, %v, wrote %d", n, err, b.Len())
	}
	return b.Bytes()
}

// sameGeneration compares all of two generations.
func sameGeneration(x, y *Generation) string {
	return difftest.Diff(withoutTable(x), withoutTable(y)) + tableDiff(x.Table, y.Table)
}

// withoutTable returns a generation without its card ranges, in a form that can be compared: the time has no place, and
// an empty list is nil.
func withoutTable(g *Generation) Generation {
	shown := *g
	shown.Table = nil
	shown.Loaded = shown.Loaded.Round(0).UTC()
	if len(shown.DSURLs) == 0 {
		shown.DSURLs = nil
	}
	if len(shown.DS.Versions) == 0 {
		shown.DS.Versions = nil
	}
	return shown
}

func tableDiff(x, y *Table) (text string) {
	for c := range Diff(x, y) {
		text += fmt.Sprintf("%v: %v, %v\n", c.Range, c.Old, c.New)
	}
	return text
}

func TestSnapshotRoundTrip(t *testing.T) {
	for _, g := range []*Generation{small(t), {}, {Scheme: "mastercard", Table: clustered(30_000)}, {Table: generate(10)}} {
		back, err := ReadGeneration(iotest.HalfReader(bytes.NewReader(snapshot(t, g))))
		if err != nil {
			t.Fatal(err)
		}
		if diff := sameGeneration(g, back); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if !bytes.Equal(snapshot(t, g), snapshot(t, back)) {
			t.Error("the snapshot of what a snapshot gave is another")
		}
	}
	randtest.Check(t, func(rt *randtest.T) {
		var b Builder
		for _, r := range drawNested(rt) {
			if err := b.Add(r.start, r.end, r.info); err != nil {
				rt.Fatal(err)
			}
		}
		table, err := b.Build()
		if err != nil {
			rt.Fatal(err)
		}
		g := &Generation{Table: table}
		back, err := ReadGeneration(bytes.NewReader(snapshot(t, g)))
		if err != nil {
			rt.Fatal(err)
		}
		if diff := sameGeneration(g, back); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// TestSnapshotDamageIsFound: no byte can change, go missing or be added.
func TestSnapshotDamageIsFound(t *testing.T) {
	good := snapshot(t, small(t))
	bad := func(name string, data []byte) {
		t.Helper()
		if g, err := ReadGeneration(bytes.NewReader(data)); g != nil || !errors.Is(err, ErrSnapshot) && !errors.Is(err, ErrSnapshotFormat) {
			t.Fatalf("%s: %v, %v", name, g, err)
		}
	}
	for i := range good {
		for _, flip := range []byte{1, 0x80, 0xff, byte(i)%255 + 1} {
			data := bytes.Clone(good)
			data[i] ^= flip
			bad(fmt.Sprintf("byte %d changed", i), data)
		}
		bad(fmt.Sprintf("cut at %d", i), good[:i])
		bad(fmt.Sprintf("byte %d gone", i), append(bytes.Clone(good[:i]), good[i+1:]...))
	}
	bad("one byte more", append(bytes.Clone(good), 0))
	bad("twice", append(bytes.Clone(good), good...))
	if _, err := ReadGeneration(io.MultiReader(bytes.NewReader(good[:50]), iotest.ErrReader(io.ErrClosedPipe))); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("an error of the reader became %v", err)
	}
}

// TestSnapshotWithFalseClaimsIsRefused: a snapshot with good checksums may still claim anything.
func TestSnapshotWithFalseClaimsIsRefused(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	good := snapshot(t, small(t))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20_000 {
		data := bytes.Clone(good)
		for range 1 + random.IntN(3) {
			data[len(magic)+1+random.IntN(len(data)-len(magic)-1)] = byte(random.UintN(256))
		}
		if g, err := ReadGeneration(bytes.NewReader(resealed(data))); err == nil {
			for r := range g.Table.All() { // what is taken is a table
				if g.Table.Lookup(fmt.Sprintf("%0*d", r.Digits, r.Start)) == nil {
					t.Fatalf("%v is not there", r)
				}
			}
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 20_000; each > 400<<10 {
		t.Errorf("%d bytes for each", each)
	}
}

// resealed makes the checksums right, as far as there are blocks.
func resealed(data []byte) []byte {
	s := snapshotWriter{w: io.Discard, sum: sha256.New()}
	var out bytes.Buffer
	s.w = &out
	s.write(data[:len(magic)+1])
	for b := data[len(magic)+1:]; len(b) >= 9; {
		size := int(uint32(b[1]) | uint32(b[2])<<8 | uint32(b[3])<<16 | uint32(b[4])<<24)
		if size > len(b)-9 {
			out.Write(b)
			break
		}
		content := b[5 : 5+size]
		if b[0] == 'E' {
			content = s.sum.Sum(nil)
		}
		s.block(b[0], content)
		b = b[9+size:]
	}
	return out.Bytes()
}

func FuzzReadGeneration(f *testing.F) {
	f.Add(snapshot(f, small(f)))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := ReadGeneration(bytes.NewReader(data))
		if len(data) > len(magic) {
			g, err = ReadGeneration(bytes.NewReader(resealed(data)))
		}
		if err != nil {
			return
		}
		back, err := ReadGeneration(bytes.NewReader(snapshot(t, g)))
		if err != nil || sameGeneration(g, back) != "" {
			t.Fatal(err)
		}
	})
}

func BenchmarkSnapshot(b *testing.B) {
	g := &Generation{Table: clustered(2_000_000)}
	data := snapshot(b, g)
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			g.WriteTo(io.Discard)
		}
		b.ReportMetric(float64(len(data))/2_000_000, "B/range")
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ReadGeneration(bytes.NewReader(data)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
