//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// unprivileged gives a folder to a user as whom PostgreSQL can run: it refuses root.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return &syscall.SysProcAttr{Setpgid: true}, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// Freeze stops all processes of the server where they are. Its connections stay open and silent, like those of a
// machine that hangs.
func (s *Server) Freeze() error {
	s.frozen = true
	return s.signal(syscall.SIGSTOP)
}

// Thaw lets them go on.
func (s *Server) Thaw() error {
	s.frozen = false
	return s.signal(syscall.SIGCONT)
}

// kill ends the processes of a frozen server without waking them.
func (s *Server) kill() error { return s.signal(syscall.SIGKILL) }

// signal sends a signal to the first process of the server, and then to those that it started. A process that is
// stopped starts no others, and one that is killed has no others left.
func (s *Server) signal(sig syscall.Signal) error {
	file, err := os.ReadFile(filepath.Join(s.data, "postmaster.pid"))
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(file), "\n")
	first, err := strconv.Atoi(line)
	if err != nil {
		return err
	}
	all := []int{first}
	if sig == syscall.SIGSTOP {
		if err := syscall.Kill(first, sig); err != nil {
			return err
		}
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", first))
	if err != nil {
		return err
	}
	for _, child := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(child)
		if err != nil {
			return err
		}
		all = append(all, pid)
	}
	for _, pid := range all {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}
