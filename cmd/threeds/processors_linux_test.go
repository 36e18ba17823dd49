package main

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
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
		ca := newAuthority(t)
		s, _ := spawnSite(t, ca, newWire(t, ca), plan{})
		if got := s.metric("go_sched_gomaxprocs_threads"); got != want {
			t.Errorf("GOMAXPROCS=%q: %v threads at once, want %v", said, got, want)
		}
	}
}
