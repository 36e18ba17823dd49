package server

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is the clock that service managers go by, which the standard library
// has and does not show.
func monotonic() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it cannot fail: the clock exists
	return time.Duration(now.Nano())
}
