//go:build unix

package main

import (
	"os"
	"syscall"
)

// suspend stops a process where it is.
func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// resume lets it go on.
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// block has whoever reads or accepts wait in the system.
func block(f *os.File) error { return syscall.SetNonblock(int(f.Fd()), false) }
