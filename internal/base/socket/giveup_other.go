//go:build !linux

package socket

import (
	"syscall"
	"time"
)

// GiveUp does nothing here: only Linux lets a program say how long sent bytes may stay unconfirmed. Elsewhere a dead
// connection ends when the system gives up by itself.
func GiveUp(syscall.RawConn, time.Duration) error { return nil }
