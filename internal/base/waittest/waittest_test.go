package waittest

import (
	"testing"
	"testing/synctest"
	"time"
)

// endless is a test whose binary has to end at a given time.
type endless struct {
	testing.TB
	deadline time.Time
	failed   string
}

func (e *endless) Deadline() (time.Time, bool) { return e.deadline, true }
func (e *endless) Helper()                     {}
func (e *endless) Fatalf(_ string, args ...any) {
	e.failed = args[0].(string)
	panic(e)
}

// TestUntilSaysWhatDidNotHappen: Until waits as long as the test binary may run, and then says for what.
func TestUntilSaysWhatDidNotHappen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		e := &endless{deadline: start.Add(time.Hour)}
		func() {
			defer func() { _ = recover() }()
			Until(e, "rain", func() bool { return false })
		}()
		if took := time.Since(start); e.failed != "rain" || took < 59*time.Minute || took > time.Hour {
			t.Errorf("failed with %q after %v, want rain shortly before an hour is over", e.failed, took)
		}
	})
}

// TestUntilInABubble: a test may be in a bubble of testing/synctest, where it may not ask for its deadline.
func TestUntilInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		Until(t, "a minute to pass", func() bool { return time.Since(start) > time.Minute })
	})
}

// TestUntilAsksAgain: Until returns when the condition holds.
func TestUntilAsksAgain(t *testing.T) {
	n := 0
	Until(t, "the third call", func() bool { n++; return n == 3 })
	if n != 3 {
		t.Errorf("asked %d times, want 3", n)
	}
}

// TestUntilAsksSeldomWhileItWaitsLong: who waits for a minute asks some thousand times, and notices soon what has
// happened.
func TestUntilAsksSeldomWhileItWaitsLong(t *testing.T) {
	for _, wait := range []time.Duration{0, 20 * time.Millisecond, time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			start, asked := time.Now(), 0
			Until(&endless{deadline: start.Add(time.Hour)}, "a while to pass", func() bool { asked++; return time.Since(start) >= wait })
			late, most := time.Since(start)-wait, 1+int(wait/(20*time.Millisecond))+60
			if late > max(pollInterval, wait/pollsOfAWait) || late > longestPollInterval || asked > most {
				t.Errorf("a wait of %v is over %v late and asks %d times, want at most %d", wait, late, asked, most)
			}
		})
	}
}
