package ranges

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/sandbox/internal/peer"
)

// newTestSet returns a set with one documented range.
func newTestSet(log io.Writer, leads ...string) *Set {
	return New(Options{
		Scheme: "visa", Prefixes: []string{"4000"}, Leads: leads, MethodURL: "http://127.0.0.1:1/method", NoteBytes: 100,
		Now: time.Now, Log: slog.New(slog.NewTextHandler(log, nil)), Note: func(string, Note) {},
	})
}

// manyLeads are the first four digits of most cards of Visa.
func manyLeads() []string {
	var all []string
	for n := 4001; n <= 4999; n++ {
		all = append(all, strconv.Itoa(n))
	}
	return all
}

// TestGoneClientIsNoWarning: a server that has gone, as at a quick end, is nothing to
// warn of.
func TestGoneClientIsNoWarning(t *testing.T) {
	var log bytes.Buffer
	set := newTestSet(&log)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	func() {
		defer func() {
			if got := recover(); got != http.ErrAbortHandler {
				t.Errorf("sendBody: %v, want it to abort", got)
			}
		}()
		req := httptest.NewRequestWithContext(gone, http.MethodPost, "/", nil)
		set.sendBody(httptest.NewRecorder(), req, PReq{}, singleChunk([]byte("{}")), Service{})
	}()
	if got := log.String(); strings.Contains(got, "WARN") || !strings.Contains(got, "not waited for") {
		t.Errorf("log: %s", got)
	}
}

// TestFaultsAreInTheText finds each fault in the text.
func TestFaultsAreInTheText(t *testing.T) {
	text, err := os.ReadFile("../scenarios/ranges.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name := range faults {
		if !strings.Contains(string(text), "\n"+name+" ") {
			t.Errorf("scenarios/ranges.txt lacks %s", name)
		}
	}
}

// TestSPCIsToldIn231Alone: an issuer with Secure Payment Confirmation says so in 2.3.1 alone, which
// has a code for it.
func TestSPCIsToldIn231Alone(t *testing.T) {
	c := Range{Versions: []string{peer.V220, peer.V231}, Info: []string{"01"}, Confirms: true}
	for version, want := range map[string]string{
		peer.V220: `"acsInfoInd":["01"]}`,
		peer.V231: `[{"version":"2.3.1","acsInfoInd":["01","07"]},{"version":"2.2.0","acsInfoInd":["01"]}]`,
	} {
		members := c.members(version)
		if got := string(members.Members()) + "}"; !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s in it", version, got, want)
		}
	}
}

// TestSeekerReadsFromAnywhere reads from anywhere.
func TestSeekerReadsFromAnywhere(t *testing.T) {
	text := []byte(strings.Repeat("0123456789abcdef-", 1000))
	parts := func(yield func([]byte) bool) {
		buf := make([]byte, 0, 100)
		for i := 0; i < len(text); i += 100 {
			buf = append(buf[:0], text[i:min(i+100, len(text))]...)
			if !yield(buf) {
				return
			}
		}
	}
	if got := whole(cut(parts, 250)); !bytes.Equal(got, text[:250]) {
		t.Errorf("cut: %q", got)
	}
	s := &seeker{parts: parts, size: size(parts)}
	defer s.Close()
	if err := compare(s, text); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Seek(-1, io.SeekStart); err == nil {
		t.Error("before the beginning")
	}
}

// compare reads a seeker at random and holds it against what it is to be.
func compare(s *seeker, text []byte) error {
	random := rand.New(rand.NewPCG(1, 1))
	want := bytes.NewReader(text)
	for range 2000 {
		offset, whence := int64(random.IntN(len(text))), io.SeekStart
		switch random.IntN(3) {
		case 0:
			offset, whence = int64(random.IntN(10)), io.SeekCurrent
		case 1:
			offset, whence = -offset, io.SeekEnd
		}
		a, _ := s.Seek(offset, whence)
		b, _ := want.Seek(offset, whence)
		n := random.IntN(300)
		got, err := io.ReadAll(io.LimitReader(s, int64(n)))
		if err != nil {
			return err
		}
		if all, _ := io.ReadAll(io.LimitReader(want, int64(n))); a != b || !bytes.Equal(got, all) {
			return io.ErrNoProgress
		}
	}
	return nil
}

// TestGeneratedRangesDoNotOverlap looks at many sets of ranges: as many as were asked for, apart
// from each other, and found again by their bounds.
func TestGeneratedRangesDoNotOverlap(t *testing.T) {
	for _, leads := range [][]string{{"5018"}, {"3528", "3529", "3531"}, {"4001", "4002", "4110", "4112", "4999"}, manyLeads()} {
		name, r := leads[0], newTestSet(io.Discard, leads...)
		for _, n := range []int{0, 1, 7, 1000, 60_000} {
			g, err := newGenerator(r, n, uint64(n))
			if err != nil {
				t.Fatal(err)
			}
			last, lengths, payloads := "", make(map[int]int), make(map[*about]bool)
			for i := range n {
				it := g.at(i)
				start, end := pad(it.start, "0", 19), pad(it.end, "9", 19)
				if start <= last || end < start || len(it.start) != len(it.end) {
					t.Fatalf("%s %d: %s after %s", name, i, it.bounds, last)
				}
				if !slices.Contains(leads, it.start[:4]) || it.start[:4] != it.end[:4] {
					t.Fatalf("%s: %s does not begin with any of %v", name, it.bounds, leads)
				}
				if i%97 == 0 && g.find(it.bounds) != it.about {
					t.Fatalf("%s: %s is not found", name, it.bounds)
				}
				last = end
				lengths[len(it.start)]++
				payloads[it.about] = true
			}
			if n == 60_000 && (len(lengths) != 6 || len(payloads) < 2500) {
				t.Errorf("%s: lengths %v, %d payloads", name, lengths, len(payloads))
			}
			for _, b := range []bounds{{"", ""}, {"x", "y"}, {spareStart, spareEnd}, {"40x0000000000000", "4"}, {"4000000000000000", "4000999999999999"}} {
				if g.find(b) != nil {
					t.Errorf("%s: found %s", name, b)
				}
			}
		}
	}
}

// BenchmarkBody makes the cardRangeData of 100,000 ranges.
func BenchmarkBody(b *testing.B) {
	r := newTestSet(io.Discard, manyLeads()...)
	if err := r.Generate(100_000, 1); err != nil {
		b.Fatal(err)
	}
	r.mu.Lock()
	set := r.snapshot()
	r.mu.Unlock()
	for _, version := range peer.Versions() {
		parts := func(yield func([]byte) bool) {
			w := &writer{version: version, yield: yield}
			w.entries(set.items())
			w.flush(1)
		}
		for name, parts := range map[string]body{"plain": parts, "gzip": zipped(parts)} {
			b.Run(version+"/"+name, func(b *testing.B) {
				b.SetBytes(size(parts))
				b.ReportAllocs()
				for b.Loop() {
					size(parts)
				}
			})
		}
	}
}
