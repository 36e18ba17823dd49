package obs_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/obs"
)

// A tap is a writer that takes nothing while it is shut.
type tap struct {
	shut chan struct{} // nil: it is open
	got  strings.Builder
}

func (g *tap) Write(b []byte) (int, error) {
	if g.shut != nil {
		<-g.shut
	}
	return g.got.Write(b)
}

// TestNonBlockingWaitsASecond: a line waits a second for one who takes none, the next ones do not, and all
// of them come in their order when he goes on.
func TestNonBlockingWaitsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := new(tap)
		out := obs.NonBlocking(to)
		took := func(line string) time.Duration {
			start := time.Now()
			if n, err := io.WriteString(out, line); n != len(line) || err != nil {
				t.Errorf("Write = %d, %v", n, err)
			}
			return time.Since(start)
		}
		if d := took("1"); d != 0 || to.got.String() != "1" {
			t.Errorf("written after %v: %q", d, to.got.String())
		}
		to.shut = make(chan struct{})
		b := []byte("2")
		start := time.Now()
		_, _ = out.Write(b)
		b[0] = 'x' // whose it is again
		if d := time.Since(start); d != time.Second {
			t.Errorf("the first line that is not taken waits %v", d)
		}
		if d := took("3") + took("4"); d != 0 {
			t.Errorf("the next ones wait %v", d)
		}
		close(to.shut)
		synctest.Wait()
		if d := took("5"); d != 0 || to.got.String() != "12345" {
			t.Errorf("then there is, after %v: %q", d, to.got.String())
		}
	})
}

// TestNonBlockingKeepsAMegabyte: what is kept has a limit, and how much is lost is said.
func TestNonBlockingKeepsAMegabyte(t *testing.T) {
	const limit = 1 << 20
	for more, lost := range map[int]int{limit - 1: 0, limit: 0, limit + 1: 2} {
		synctest.Test(t, func(t *testing.T) {
			to := new(tap)
			out := obs.NonBlocking(to)
			to.shut = make(chan struct{})
			_, _ = io.WriteString(out, "first\n")
			_, _ = io.WriteString(out, strings.Repeat("x", more-2))
			_, _ = io.WriteString(out, "y\n")
			if lost > 0 {
				_, _ = io.WriteString(out, "z") // which would have found room, were it not for the one before
			}
			close(to.shut)
			synctest.Wait()
			_, _ = io.WriteString(out, "last\n")
			got, rest := to.got.String(), ""
			got, rest, _ = strings.Cut(strings.TrimPrefix(got, "first\n"), "{")
			want := strings.Repeat("x", more-2) + "y\nlast\n"
			if lost > 0 {
				want = strings.Repeat("x", more-2)
			}
			if got != want {
				t.Errorf("%d bytes meanwhile: %d came", more, len(got))
			}
			if said := strings.Contains(rest, fmt.Sprintf(`"msg":"log lines lost, they were not read in time","lines":%d}`+"\nlast\n", lost)); said != (lost > 0) {
				t.Errorf("%d bytes meanwhile, said of what is lost: %q", more, rest)
			}
		})
	}
}

// TestNonBlockingLeavesFilesAlone: nobody stands still behind a file, so it is written to as it is; behind
// a pipe somebody may.
func TestNonBlockingLeavesFilesAlone(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if obs.NonBlocking(f) != io.Writer(f) {
		t.Error("something is between")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if obs.NonBlocking(w) == io.Writer(w) {
		t.Error("nothing is before a pipe")
	}
	w.Close()
	if _, err := io.WriteString(obs.NonBlocking(w), "x"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("to one that is closed: %v", err)
	}
}

func BenchmarkOutlet(b *testing.B) {
	line := []byte(strings.Repeat("x", 300) + "\n")
	out := obs.NonBlocking(io.Discard)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = out.Write(line)
	}
}
