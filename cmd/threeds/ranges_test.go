package main

import (
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/run/config"
)

func TestSpan(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0s"}, {59 * time.Second, "59s"}, {time.Minute, "1m"}, {time.Hour, "1h00m"}, {6 * time.Hour, "6h00m"},
		{23*time.Hour + 59*time.Minute, "23h59m"}, {24 * time.Hour, "1d00h"}, {75 * time.Hour, "3d03h"},
	} {
		if got := formatSpan(tt.d); got != tt.want {
			t.Errorf("span(%v) = %q, want %q", tt.d, got, tt.want)
		}
	}
}

func TestDue(t *testing.T) {
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

func TestReportMarks(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		age  time.Duration
		want string
	}{
		{0, ""}, {6*time.Hour - time.Second, ""}, {6 * time.Hour, "warning"}, {24*time.Hour - time.Second, "warning"}, {24 * time.Hour, "error"},
	} {
		if got := reportOf(config.Directory{}, directory.RefreshStatus{Loaded: now.Add(-tt.age)}, directory.RefreshRequest{},
			now); got.Mark != tt.want || got.Age != int64(tt.age.Seconds()) {
			t.Errorf("at %v: %q, %d s, want %q", tt.age, got.Mark, got.Age, tt.want)
		}
	}
	if got := reportOf(config.Directory{}, directory.RefreshStatus{}, directory.RefreshRequest{}, now); got.Mark != "error" || got.Age != 0 {
		t.Errorf("without ranges: %+v", got)
	}
}

// TestReportWishes: only the generation that is held back now was accepted.
func TestReportWishes(t *testing.T) {
	for _, tt := range []struct {
		held, accepted int64
		want           bool
	}{{0, 0, false}, {3, 0, false}, {3, 2, false}, {3, 3, true}} {
		got := reportOf(config.Directory{}, directory.RefreshStatus{Held: tt.held}, directory.RefreshRequest{Accept: tt.accepted}, time.Now())
		if got.Accepted != tt.want || got.Refreshing {
			t.Errorf("%d held, %d accepted: %t", tt.held, tt.accepted, got.Accepted)
		}
	}
}
