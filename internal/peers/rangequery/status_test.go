package rangequery

import (
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/peers/directory"
)

// TestStatusSaysWhenTheDirectoryServerIsAsked: in the words of the column NEXT.
func TestStatusSaysWhenTheDirectoryServerIsAsked(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		next time.Time
		want string
	}{
		{time.Time{}, "-"}, {now.Add(time.Minute), "in 1m"}, {now, "now"}, {now.Add(time.Second - 5*time.Minute), "now"}, {now.Add(-5 * time.Minute), "overdue 5m"},
	} {
		if got := describeDue(tt.next, now); got != tt.want {
			t.Errorf("due(%v) = %q, want %q", tt.next, got, tt.want)
		}
	}
}

// TestStatusMarksOldRanges: ranges of six hours are marked as a warning, those of a day as an error.
func TestStatusMarksOldRanges(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		age  time.Duration
		want string
	}{
		{0, ""}, {6*time.Hour - time.Second, ""}, {6 * time.Hour, "warning"}, {24*time.Hour - time.Second, "warning"}, {24 * time.Hour, "error"},
	} {
		if got := NewStatus("visa", nil, directory.RefreshStatus{Loaded: now.Add(-tt.age)}, directory.RefreshRequest{},
			now); got.Mark != tt.want || got.Age != int64(tt.age.Seconds()) {
			t.Errorf("at %v: %q, %d s, want %q", tt.age, got.Mark, got.Age, tt.want)
		}
	}
	if got := NewStatus("visa", nil, directory.RefreshStatus{}, directory.RefreshRequest{}, now); got.Mark != "error" || got.Age != 0 {
		t.Errorf("without ranges: %+v", got)
	}
}

// TestStatusAcceptsWhatIsHeldNow: only the generation that is held back now was accepted.
func TestStatusAcceptsWhatIsHeldNow(t *testing.T) {
	for _, tt := range []struct {
		held, accepted int64
		want           bool
	}{{0, 0, false}, {3, 0, false}, {3, 2, false}, {3, 3, true}} {
		got := NewStatus("visa", nil, directory.RefreshStatus{Held: tt.held}, directory.RefreshRequest{Accept: tt.accepted}, time.Now())
		if got.Accepted != tt.want || got.Refreshing {
			t.Errorf("%d held, %d accepted: %t", tt.held, tt.accepted, got.Accepted)
		}
	}
}
