//go:build unix

package server

import (
	"math"
	"syscall"
)

// openFiles is how many files this process may have open. Go has raised the soft
// limit to the hard one at start.
func openFiles() (int, bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > math.MaxInt32 {
		return 0, false
	}
	return int(limit.Cur), true
}
