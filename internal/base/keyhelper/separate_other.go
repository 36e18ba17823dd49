//go:build !unix

package keyhelper

import "os/exec"

// separate keeps signals of a terminal from a process, which cannot be done here.
func separate(*exec.Cmd) {}

// killAll kills a process.
func killAll(cmd *exec.Cmd) { _ = cmd.Process.Kill() } // an error means that it has ended
