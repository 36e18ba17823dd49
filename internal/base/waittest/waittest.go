// Package waittest lets tests wait for an effect of another process, a server, or a goroutine that reports nothing. Use
// [Until] where there is no channel to receive from and no bubble of testing/synctest to be in.
package waittest

import (
	"testing"
	"time"
)

const (
	pollInterval = 3 * time.Millisecond
	// reportTime is what is kept of the time limit of the test binary for the message that says what did not happen, and
	// for cleaning up.
	reportTime = 30 * time.Second
)

// endOf returns when Until gives up. It is zero if that is never, such as in a bubble of testing/synctest, where a test
// may not ask for its deadline.
func endOf(t testing.TB) (end time.Time) {
	defer func() { _ = recover() }()
	if limited, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := limited.Deadline(); ok {
			return deadline.Add(-reportTime)
		}
	}
	return end
}

// Until returns when done returns true, which it calls again and again from the test's own goroutine. It has no time
// limit of its own, since a machine may be slow: it fails the test with what, shortly before the time limit of the
// whole test binary (go test -timeout) is over.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	end := endOf(t)
	for !done() {
		if !end.IsZero() && time.Now().After(end) {
			t.Fatalf("still waiting for %s", what)
		}
		time.Sleep(pollInterval)
	}
}
