// Package waittest lets tests wait for an effect of another process, a server, or a goroutine that reports nothing. Use
// [Until] where there is no channel to receive from and no bubble of testing/synctest to be in.
package waittest

import (
	"testing"
	"time"
)

const (
	// The pause before Until asks again: a part of the time that it has waited, within these limits. Asking is often a
	// request to another process or a look at a page, and tests that wait next to each other must not keep the processors
	// busy with it.
	pollInterval        = 3 * time.Millisecond
	longestPollInterval = 50 * time.Millisecond
	pollsOfAWait        = 10

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
	start, end := time.Now(), endOf(t)
	for !done() {
		if !end.IsZero() && time.Now().After(end) {
			t.Fatalf("still waiting for %s", what)
		}
		pause := pollInterval
		if !end.IsZero() { // the time is not that of a bubble, where asking costs nothing
			pause = min(max(pause, time.Since(start)/pollsOfAWait), longestPollInterval)
		}
		time.Sleep(pause)
	}
}
