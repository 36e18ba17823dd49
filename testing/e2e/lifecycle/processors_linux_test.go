package lifecycle

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestOneProcessor starts servers that may use one processor alone.
func TestOneProcessor(t *testing.T) {
	runtime.LockOSThread() // for good: what this thread starts has its processor
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for i := 0; one.Count() == 0; i++ {
		if all.IsSet(i) {
			one.Set(i)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	for said, want := range map[string]float64{"": 2, "1": 1, "3": 3} {
		t.Setenv("GOMAXPROCS", said)
		if said == "" {
			if err := os.Unsetenv("GOMAXPROCS"); err != nil {
				t.Fatal(err)
			}
		}
		ca := rig.NewAuthority(t)
		s, _ := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{})
		if got := s.Metric("go_sched_gomaxprocs_threads"); got != want {
			t.Errorf("GOMAXPROCS=%q: %v threads at once, want %v", said, got, want)
		}
	}
}
