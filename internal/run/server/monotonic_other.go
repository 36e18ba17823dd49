//go:build !linux

package server

import "time"

// monotonic is the clock that service managers go by; where there is none, any
// time will do.
func monotonic() time.Duration { return 0 }
