//go:build unix

package coredump

import (
	"fmt"
	"syscall"
)

// setLimit sets the size limit of core dumps to 0, and nothing can raise it again.
func setLimit() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("coredump: setrlimit RLIMIT_CORE: %w", err)
	}
	return nil
}
