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

// Unprivileged gives a folder, and what is in it, to a user whom PostgreSQL runs for: it refuses root. Commands with
// the attributes that it returns run as this user, in a process group of their own.
func Unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return &syscall.SysProcAttr{Setpgid: true}, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	err = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, uid, gid)
	})
	if err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// Freeze stops all processes of the server where they are. Its connections stay open and silent, like those of a
// machine that hangs.
func (s *Server) Freeze() error {
	s.frozen = true
	return Signal(s.data, syscall.SIGSTOP)
}

// Thaw lets them go on.
func (s *Server) Thaw() error {
	s.frozen = false
	return Signal(s.data, syscall.SIGCONT)
}

// kill ends the processes of a frozen server without waking them.
func (s *Server) kill() error { return Signal(s.data, syscall.SIGKILL) }

// Signal sends a signal to the first process of the server with a data directory, and then to those that it started. A
// process that is stopped starts no others, and one that is killed has none any more. If the server does not run, the
// error is [os.ErrProcessDone].
func Signal(data string, sig syscall.Signal) error {
	file, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return os.ErrProcessDone
	}
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(file), "\n")
	first, err := strconv.Atoi(line)
	if err != nil {
		return err
	}
	if !worksIn(first, data) { // the file stays when a server is killed, and its number may be another process's by now
		return os.ErrProcessDone
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

// worksIn reports whether a process has a folder as its working directory.
func worksIn(process int, dir string) bool {
	its, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", process))
	if err != nil {
		return false
	}
	wanted, err := os.Stat(dir)
	return err == nil && os.SameFile(its, wanted)
}

// lockFile makes a file if there is none, and waits until no other process has it locked. The system unlocks it when
// the process ends.
func lockFile(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}
