package coredump

import (
	"fmt"
	"syscall"
)

// Disable sets the size limit of core dumps to 0 and makes the process not dumpable. Other processes of the same user
// can then neither read its memory nor attach to it. Only the first is done on systems other than Linux.
func Disable() error {
	if err := setLimit(); err != nil {
		return err
	}
	// The limit alone has no effect where dumps go to a program, as with systemd-coredump.
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0); errno != 0 {
		return fmt.Errorf("coredump: prctl PR_SET_DUMPABLE: %w", errno)
	}
	return nil
}
