// Package waittest waits in tests for what something else brings about: another process, a server, a goroutine that
// tells nobody. Use [Until] where there is no channel to receive from and no bubble of testing/synctest to be in.
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

// Until returns when done returns true, which it calls again and again from the test's own goroutine. It has no time limit
// of its own, since a machine may be slow: it fails the test with what, shortly before the time limit of the whole test
// binary (go test -timeout) is over.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	var end time.Time
	if limited, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := limited.Deadline(); ok {
			end = deadline.Add(-reportTime)
		}
	}
	for !done() {
		if !end.IsZero() && time.Now().After(end) {
			t.Fatalf("still waiting for %s", what)
		}
		time.Sleep(pollInterval)
	}
}
