//go:build !linux

package socket

import (
	"syscall"
	"time"
)

// GiveUp does nothing here, since it takes another option on each system.
func GiveUp(syscall.RawConn, time.Duration) error { return nil }
