package directory

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestMC24ClockSkewIsLogged: a clock that is more than a minute off is worth a warning an hour.
func TestMC24ClockSkewIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		c := &clockCheck{log: slog.New(slog.NewTextHandler(&log, nil))}
		say := func(ahead time.Duration) int {
			c.compare(time.Now().Add(-ahead).UTC().Format(http.TimeFormat))
			return strings.Count(log.String(), "clock")
		}
		time.Sleep(time.Hour)
		for _, step := range []struct {
			ahead, wait time.Duration
			said        int
		}{
			{0, 0, 0},
			{60 * time.Second, 0, 0},
			{-60 * time.Second, 0, 0},
			{61 * time.Second, 0, 1},
			{-10 * time.Minute, 0, 1},
			{-10 * time.Minute, time.Hour, 2},
		} {
			time.Sleep(step.wait)
			if said := say(step.ahead); said != step.said {
				t.Errorf("%v ahead after %v: %d warnings, want %d", step.ahead, step.wait, said, step.said)
			}
		}
		c.compare("")
		c.compare("yesterday")
		if n := strings.Count(log.String(), "clock"); n != 2 {
			t.Errorf("%d warnings of dates that are none", n)
		}
	})
}

// TestClockSetBackIsTold: a clock that complained while it was years ahead complains again
// when it is wrong another time.
func TestClockSetBackIsTold(t *testing.T) {
	var log strings.Builder
	c := &clockCheck{log: slog.New(slog.NewTextHandler(&log, nil))}
	c.lastWarning.Store(time.Now().Add(365 * 24 * time.Hour).Unix())
	c.compare(time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
	if n := strings.Count(log.String(), "clock"); n != 1 {
		t.Errorf("%d warnings, want one", n)
	}
}

// TestClockOfAnswers: every answer is looked at.
func TestClockOfAnswers(t *testing.T) {
	var log strings.Builder
	ca := newAuthority(t)
	server := serve(t, ca.server(), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		_, _ = w.Write([]byte("{}"))
	})
	c, _ := newClient(t, Hooks{}, peerAt("visa", server, ca.client()))
	c.peers["visa"].clock.log = slog.New(slog.NewTextHandler(&log, nil))
	send(t, c, "visa")
	if !strings.Contains(log.String(), "ahead=-") {
		t.Errorf("log: %s", log.String())
	}
}
