package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
)

// slowed is set in the environment of a run whose processor time is already held back.
const slowed = "TESTRUN_SLOWED"

// quotaPeriod is the period of a cgroup's quota, in microseconds. A tenth of a second is what containers use.
const quotaPeriod = 100_000

// runSlowly runs this program again, with all of its processes held to a part of the processor time: in a cgroup where
// this process may make one, next to busy loops elsewhere.
func runSlowly(ctx context.Context, slow int, out, errs io.Writer) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(errs, "testrun:", err)
		return 2
	}
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), slowed+"=1")
	cmd.Stdout, cmd.Stderr = out, errs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	quota := runtime.NumCPU() * quotaPeriod / slow
	group, remove, err := makeGroup(quota)
	if err == nil {
		defer remove()
		fmt.Fprintf(out, "all processes together get 1/%d of %d processors, by the cgroup %s\n", slow, runtime.NumCPU(), group)
		if err := enter(group); err != nil { // what this process starts from now on is in the group
			fmt.Fprintln(errs, "testrun:", err)
			return 2
		}
	} else {
		n := runtime.NumCPU() * (slow - 1)
		fmt.Fprintf(out, "no cgroup (%v), so %d busy loops run next to the tests\n", err, n)
		stop := burn(n)
		defer stop()
	}
	if err := cmd.Run(); err != nil {
		return max(1, cmd.ProcessState.ExitCode())
	}
	return 0
}

// makeGroup makes a cgroup whose processes get quota microseconds of processors in each period. It knows
// both versions of cgroups.
func makeGroup(quota int) (dir string, remove func(), err error) {
	name := "testrun-" + strconv.Itoa(os.Getpid())
	for _, kind := range []struct{ parent, file, text, shareFile, share string }{
		{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", strconv.Itoa(quota), "cpu.shares", "262144"},
		{"/sys/fs/cgroup", "cpu.max", fmt.Sprintf("%d %d", quota, quotaPeriod), "cpu.weight", "10000"},
	} {
		if _, statErr := os.Stat(filepath.Join(kind.parent, "cgroup.procs")); statErr != nil {
			err = statErr
			continue
		}
		dir = filepath.Join(kind.parent, name)
		if err = os.Mkdir(dir, 0o755); err != nil {
			continue
		}
		if err = os.WriteFile(filepath.Join(dir, kind.file), []byte(kind.text), 0o644); err == nil {
			// The greatest share: the quota alone holds the run back, not what else the machine does. Without it, the run is
			// only slower.
			_ = os.WriteFile(filepath.Join(dir, kind.shareFile), []byte(kind.share), 0o644)
			parent := kind.parent
			return dir, func() { _ = enter(parent); _ = os.Remove(dir) }, nil
		}
		_ = os.Remove(dir)
	}
	return "", nil, err
}

// enter moves this process into a cgroup.
func enter(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644)
}

// burn has n goroutines of this process use a processor each until stop.
func burn(n int) (stop func()) {
	runtime.GOMAXPROCS(max(n, 1))
	var isOver atomic.Bool
	for range n {
		go func() {
			runtime.LockOSThread()
			for !isOver.Load() {
			}
		}()
	}
	return func() { isOver.Store(true) }
}
