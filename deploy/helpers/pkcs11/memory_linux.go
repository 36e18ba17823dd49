package main

import (
	"fmt"
	"syscall"
)

// keepMemoryOutOfFiles turns core dumps off, and keeps other processes of the same user from reading the memory.
func keepMemoryOutOfFiles() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("setrlimit: %w", err)
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0); errno != 0 {
		return fmt.Errorf("prctl: %w", errno)
	}
	return nil
}
