//go:build unix

package lifecycle

import (
	"os"
	"syscall"
)

// block has whoever reads or accepts wait in the system.
func block(f *os.File) error { return syscall.SetNonblock(int(f.Fd()), false) }
