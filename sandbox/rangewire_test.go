package sandbox

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestNotWaitedFor: a server that has gone, as at a quick end, is nothing to
// warn of.
func TestNotWaitedFor(t *testing.T) {
	var log bytes.Buffer
	s := &Sandbox{Log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	func() {
		defer func() {
			if got := recover(); got != http.ErrAbortHandler {
				t.Errorf("sendBody: %v, want it to abort", got)
			}
		}()
		req := httptest.NewRequestWithContext(gone, http.MethodPost, "/", nil)
		s.directories[0].sendBody(httptest.NewRecorder(), req, received{}, "PRes", one([]byte("{}")), RangeService{})
	}()
	if got := log.String(); strings.Contains(got, "WARN") || !strings.Contains(got, "not waited for") {
		t.Errorf("log: %s", got)
	}
}

// TestFaultsAreTold finds each fault in the text.
func TestFaultsAreTold(t *testing.T) {
	for name := range rangeFaults {
		if !strings.Contains(rangesText, "\n"+name+" ") {
			t.Errorf("scenarios/ranges.txt lacks %s", name)
		}
	}
}

// TestConfirms: an issuer with Secure Payment Confirmation says so in 2.3.1 alone, which
// has a code for it.
func TestConfirms(t *testing.T) {
	c := CardRange{Versions: []string{v220, v231}, Info: []string{"01"}, Confirms: true}
	for version, want := range map[string]string{
		v220: `"acsInfoInd":["01"]}`,
		v231: `[{"version":"2.3.1","acsInfoInd":["01","07"]},{"version":"2.2.0","acsInfoInd":["01"]}]`,
	} {
		o := new(object)
		if version == v231 {
			tail231(o, c)
		} else {
			tail(o, c, version)
		}
		if got := string(o.bytes()); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s in it", version, got, want)
		}
	}
}

// TestSeeker reads from anywhere.
func TestSeeker(t *testing.T) {
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

// TestGenerator looks at many sets of ranges: as many as were asked for, apart
// from each other, and found again by their bounds.
func TestGenerator(t *testing.T) {
	box := &Sandbox{}
	if err := box.Start(); err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	for _, d := range box.directories {
		for _, n := range []int{0, 1, 7, 1000, 60_000} {
			g, err := newGenerator(d.ranges, n, uint64(n))
			if err != nil {
				t.Fatal(err)
			}
			last, lengths, told := "", make(map[int]int), make(map[*about]bool)
			for i := range n {
				it := g.at(i)
				start, end := pad(it.start, '0', 19), pad(it.end, '9', 19)
				if start <= last || end < start || len(it.start) != len(it.end) {
					t.Fatalf("%s %d: %s after %s", d.scheme.word, i, it.bounds, last)
				}
				for _, prefix := range d.scheme.prefixes {
					if strings.HasPrefix(it.start, prefix) {
						t.Fatalf("%s: %s is within the documented %s", d.scheme.word, it.bounds, prefix)
					}
				}
				if i%97 == 0 && g.find(it.bounds) != it.about {
					t.Fatalf("%s: %s is not found", d.scheme.word, it.bounds)
				}
				last = end
				lengths[len(it.start)]++
				told[it.about] = true
			}
			if n == 60_000 && (len(lengths) != 6 || len(told) < 2500) {
				t.Errorf("%s: lengths %v, %d payloads", d.scheme.word, lengths, len(told))
			}
			for _, b := range []bounds{{"", ""}, {"x", "y"}, {spareStart, spareEnd}, {"40x0000000000000", "4"}, {"4000000000000000", "4000999999999999"}} {
				if g.find(b) != nil {
					t.Errorf("%s: found %s", d.scheme.word, b)
				}
			}
		}
	}
}

// BenchmarkBody makes the cardRangeData of 100,000 ranges.
func BenchmarkBody(b *testing.B) {
	box := &Sandbox{}
	if err := box.Start(); err != nil {
		b.Fatal(err)
	}
	defer box.Close()
	r := box.Ranges("visa")
	if err := r.Generate(100_000, 1); err != nil {
		b.Fatal(err)
	}
	r.mu.Lock()
	set := r.snapshot()
	r.mu.Unlock()
	for _, version := range versions() {
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
