package api

import (
	"testing"
	"time"
)

// TestDateOf: Date changes with the second, also when the clock was set back.
func TestDateOf(t *testing.T) {
	at := time.Date(2026, 2, 28, 23, 59, 59, 999_999_999, time.FixedZone("", 3600))
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{0, "Sat, 28 Feb 2026 22:59:59 GMT"},
		{1, "Sat, 28 Feb 2026 23:00:00 GMT"},
		{time.Second, "Sat, 28 Feb 2026 23:00:00 GMT"},
		{time.Second + 1, "Sat, 28 Feb 2026 23:00:01 GMT"},
		{-time.Hour, "Sat, 28 Feb 2026 21:59:59 GMT"},
	} {
		if got := date(at.Add(c.after)); len(got) != 1 || got[0] != c.want {
			t.Errorf("%v later the Date is %q, want %q", c.after, got, c.want)
		}
	}
}
