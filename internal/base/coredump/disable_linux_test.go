package coredump_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	"github.com/openthreeds/threeds/internal/base/coredump"
)

// TestMain runs this program as a process that waits for its input to end, after a call of Disable if it is asked to.
func TestMain(m *testing.M) {
	switch os.Getenv("COREDUMP_TEST") {
	case "":
		os.Exit(m.Run())
	case "disabled":
		if err := coredump.Disable(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// startProcess starts this program and returns its id once it waits.
func startProcess(t *testing.T, mode string) int {
	t.Helper()
	program, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	cmd := exec.Command("/proc/self/fd/3") // another user cannot enter the directory of the program
	cmd.ExtraFiles = []*os.File{program}
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "COREDUMP_TEST="+mode)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	line := make([]byte, 200)
	if n, err := out.Read(line); string(line[:n]) != "ready\n" {
		t.Fatalf("the process says %q, %v", line[:n], err)
	}
	return cmd.Process.Pid
}

// coreLimit is the row of /proc/PID/limits, with the soft and the hard limit.
var coreLimit = regexp.MustCompile(`(?m)^Max core file size +(\S+) +(\S+)`)

// TestD114CoreDumpsAreOff: the limit is 0, soft and hard, and what /proc shows of memory belongs to root.
func TestD114CoreDumpsAreOff(t *testing.T) {
	pid := startProcess(t, "disabled")
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		t.Fatal(err)
	}
	if found := coreLimit.FindStringSubmatch(string(limits)); found == nil || found[1] != "0" || found[2] != "0" {
		t.Errorf("core limit %q, want 0 and 0", found)
	}
	if os.Getuid() != 0 {
		t.Skip("whether a process can be dumped shows only in one of another user")
	}
	if uid := ownerOfMemory(t, pid); uid != 0 {
		t.Errorf("the memory belongs to user %d, want 0: it can be dumped", uid)
	}
	if uid := ownerOfMemory(t, startProcess(t, "usual")); uid != 65534 {
		t.Errorf("the memory of a usual process belongs to user %d: the test shows nothing", uid)
	}
}

// ownerOfMemory returns whose /proc/PID/mem is. The kernel gives it to root if a process is not dumpable.
func ownerOfMemory(t *testing.T, pid int) uint32 {
	t.Helper()
	info, err := os.Stat(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}
