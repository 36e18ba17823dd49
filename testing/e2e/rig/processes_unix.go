//go:build unix

package rig

import (
	"os"
	"syscall"
)

// Suspend stops a process where it is.
func Suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// Resume lets it go on.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
