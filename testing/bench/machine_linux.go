package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// processorTime is the processor time that this process has used, user and system together.
func processorTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// processorTimeOf is the processor time that another process has used, in steps of 10 ms.
func processorTimeOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	user, err := strconv.Atoi(string(fields[11]))
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(string(fields[12]))
	return time.Duration(user+system) * (time.Second / 100), err
}

// memory is the resident memory of a process, now and at its highest, in bytes.
func memory(pid int) (now, highest int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		kib, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(value), []byte("kB")))), 10, 64)
		switch string(name) {
		case "VmRSS":
			now = kib << 10
		case "VmHWM":
			highest = kib << 10
		default:
			continue
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return now, highest, nil
}

// forgetHighest resets the highest memory of a process to what it has now.
func forgetHighest(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// rank sets the priority of a process, from -20, the highest, to 19. Priorities belong to
// threads, and new threads inherit them. To raise one takes root.
func rank(pid, nice int) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		id, bad := strconv.Atoi(thread.Name())
		err = errors.Join(err, bad, syscall.Setpriority(syscall.PRIO_PROCESS, id, nice))
	}
	return err
}

// pin keeps a process on one processor: its threads, and those that they start.
func pin(pid, processor int) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	var mask [128]byte
	mask[processor/8] = 1 << (processor % 8)
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		_, _, failed := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(id), unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
		if failed != 0 && failed != syscall.ESRCH { // the thread has gone
			return failed
		}
	}
	return nil
}

// raiseFiles lets this process and its children have at least n files open.
func raiseFiles(n uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Max < n {
		return fmt.Errorf("%d open files are allowed (ulimit -Hn), %d are needed", limit.Max, n)
	}
	limit.Cur = limit.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// endWithParent ends the process of cmd when this one ends, however it does.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
