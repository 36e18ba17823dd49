// Package rig runs the program for the end-to-end tests of the directories beside it, and plays those who talk to it:
// merchants, directory servers, issuers and forward proxies.
//
// Use [StartSite] for a server whose directory servers the test holds in its hands, [StartSandbox] for a sandbox, and
// [Run] for any command. [Victim] is a server that a test kills. TestMain of a package calls [Main].
package rig

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// binaryVariable names the program that the tests run. Without it they build one.
const binaryVariable = "THREEDS_BINARY"

// buildDir is where the program is that this process has built or linked; empty if there is none yet.
var buildDir string

// findBinary returns the path of a program called threeds, in a directory of its own, which it makes once.
var findBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "threeds-binary-")
	if err != nil {
		return "", err
	}
	buildDir = dir
	path := filepath.Join(dir, "threeds")
	if given := os.Getenv(binaryVariable); given != "" {
		given, err := filepath.Abs(given)
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(given); err != nil {
			return "", fmt.Errorf("%s: %w", binaryVariable, err)
		}
		return path, os.Symlink(given, path)
	}
	return path, Build(path)
})

// Build builds the program, as a release does without cgo, to a path. Flags are further ones of go build.
func Build(path string, flags ...string) error {
	build := exec.Command("go", slices.Concat([]string{"build", "-ldflags=-s -w"}, flags, []string{"-o", path, "./cmd/threeds"})...)
	build.Dir, build.Env = Root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// TempDir is a directory for what all tests of this process share.
func TempDir() string { return buildDir }

// Root is the directory of the main module, as the packages of tests see it.
const Root = "../../.."

// Main runs the tests of a package, with the program in the path as threeds, and ends the process. It stops what the
// tests have started for all of them.
func Main(m *testing.M) {
	if os.Getenv(childConfig) != "" {
		os.Exit(runChild())
	}
	os.Exit(runTests(m))
}

// testsPerProcessor is how many tests run at once for each processor.
const testsPerProcessor = 4

func runTests(m *testing.M) int {
	defer func() { _ = os.RemoveAll(buildDir) }() // If it stays, it is in the directory of temporary files.
	binary, err := findBinary()
	if err == nil {
		err = os.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Most tests wait most of the time: for other processes, for time limits, for the disk.
	flag.Parse()
	isGiven := false
	flag.Visit(func(f *flag.Flag) { isGiven = isGiven || f.Name == "test.parallel" })
	if !isGiven {
		if err := flag.Set("test.parallel", strconv.Itoa(testsPerProcessor*runtime.GOMAXPROCS(0))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	defer pgtest.Stop()
	defer func() {
		for _, end := range slices.Backward(atExit) {
			end()
		}
	}()
	return m.Run()
}

// atExit are the functions of AtExit.
var atExit []func()

// AtExit calls end when all tests of the package have ended. What tests share is ended by it.
func AtExit(end func()) { atExit = append(atExit, end) }

// ShortLived is the environment of commands that end soon. Their collection of garbage, and threads for it, would take
// as much of a processor again: 70 ms of key list were 40 ms with it.
var ShortLived = []string{"GOGC=400", "GOMAXPROCS=1"}

// Run runs threeds with arguments and returns its exit status. The end of ctx sends it SIGTERM; Run still waits until
// it has ended. A stdin of nil is empty.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cmd := exec.CommandContext(ctx, "threeds", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	if len(args) > 0 && args[0] != "serve" && args[0] != "sandbox" {
		cmd.Env = append(os.Environ(), ShortLived...)
	}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		fmt.Fprintf(stderr, "threeds did not run: %v\n", err)
		return -1
	}
	if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit && ctx.Err() == nil {
		fmt.Fprintf(stderr, "threeds: %v\n", err)
	}
	return cmd.ProcessState.ExitCode()
}

// ReleaseVersion returns the version of the program that the tests run, as its metrics have it.
func ReleaseVersion(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("threeds", "version").Output()
	Must(t, err)
	version, _, _ := strings.Cut(strings.TrimPrefix(string(out), "threeds "), ",")
	return version
}
