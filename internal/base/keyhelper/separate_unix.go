//go:build unix

package keyhelper

import (
	"os/exec"
	"syscall"
)

// separate keeps signals of a terminal from a process. It has to serve while this program drains.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killAll kills a process and those that it has started.
func killAll(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // an error means that they have ended
}
