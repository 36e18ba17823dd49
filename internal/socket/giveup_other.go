//go:build !linux

package socket

import (
	"syscall"
	"time"
)

// GiveUp is not implemented on this system.
func GiveUp(syscall.RawConn, time.Duration) error { return nil }
