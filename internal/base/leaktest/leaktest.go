// Package leaktest fails the tests of a package that leave goroutines behind. Call [Main] in TestMain. A test in a
// bubble of testing/synctest needs none of this: the bubble itself fails if a goroutine stays.
package leaktest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

const (
	pollInterval = 10 * time.Millisecond
	// noticeTime is after how long a message says what the tests wait for. It ends nothing.
	noticeTime = 20 * time.Second
	// reportTime is what is kept of the time limit of the test binary to report the goroutines that stay.
	reportTime = 30 * time.Second
)

// Main runs the tests and ends the process. It fails if the tests fail, or if goroutines stay, see [Wait].
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := Wait(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Wait returns nil as soon as no goroutine is left but its own and those of the runtime. It has no time limit of its
// own, since a machine may be slow: it gives up shortly before the time limit of the test binary (go test -timeout),
// counted from the call, is over. Then the error shows the stacks of the goroutines that stay. After some seconds it
// already prints them on stderr.
func Wait() error {
	end := time.Time{}
	if limit, ok := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration); ok && limit > 0 {
		end = time.Now().Add(max(limit-reportTime, noticeTime))
	}
	return wait(end, time.Now().Add(noticeTime))
}

// wait gives up at end, unless that is the zero time, and prints at notice what it waits for.
func wait(end, notice time.Time) error {
	for {
		left := goroutines()
		switch now := time.Now(); {
		case len(left) == 0:
			return nil
		case !end.IsZero() && now.After(end):
			return fmt.Errorf("leaktest: %d goroutines stay after the tests:\n\n%s", len(left), strings.Join(left, "\n\n"))
		case !notice.IsZero() && now.After(notice):
			notice = time.Time{}
			fmt.Fprintf(os.Stderr, "leaktest: waiting for %d goroutines:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
		}
		time.Sleep(pollInterval)
	}
}

// goroutines returns the stacks of all goroutines but the caller's and those that the runtime, package testing and
// os/signal keep.
func goroutines() (stacks []string) {
	text := make([]byte, 64<<10)
	for {
		n := runtime.Stack(text, true)
		if n < len(text) {
			text = text[:n]
			break
		}
		text = make([]byte, 2*len(text))
	}
	for i, stack := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		if i > 0 && !isKept(stack) { // the first one is the caller's
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// isKept reports whether a goroutine is there however well the tests clean up.
func isKept(stack string) bool {
	header, calls, _ := strings.Cut(stack, "\n")
	call, _, _ := strings.Cut(calls, "\n")
	top := call[:max(strings.LastIndex(call, "("), 0)] // without the arguments
	switch top {
	case "runtime.goexit": // of cgo
		return strings.Contains(header, "[syscall")
	case "testing.RunTests", "testing.(*T).Run", "testing.(*T).Parallel", "testing.runTests":
		return strings.Contains(header, "[chan receive")
	case "os/signal.signal_recv", "os/signal.loop", "runtime.ensureSigM", "runtime.ReadTrace":
		return true
	}
	return false
}
