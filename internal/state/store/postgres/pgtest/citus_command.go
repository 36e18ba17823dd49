package pgtest

import (
	"os"
	"os/exec"
	"testing"
)

// CitusCommand returns what runs the shell command that a variable has, such as one that kills a worker. The test is skipped
// if there is none.
func CitusCommand(t testing.TB, variable string) (run func()) {
	t.Helper()
	line := os.Getenv(variable)
	if line == "" {
		t.Skipf("NOT TESTED: %s names no command", variable)
	}
	return func() {
		t.Helper()
		if out, err := exec.Command("/bin/sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", variable, err, out)
		}
	}
}
