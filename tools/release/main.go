// Release makes all that a release of threeds consists of, and tries it.
//
//	go -C tools/release run . build          # a release of the commit that is checked out, which has a tag
//	go -C tools/release run . check          # all that can be tried on one machine; make release-check
//
// docs/operating/releases.md says what comes out and how it is published.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

//go:embed toolchain.txt
var toolchainFile string

// toolchain is the Go that releases are made with, whichever Go starts this program. A binary has the standard library
// of that Go, with the vulnerabilities that are known of it, and an archive is as that Go compresses.
var toolchain = strings.TrimSpace(toolchainFile)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	if command == insideCommand { // in the root of a Debian of its own
		return tryInside(ctx)
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	switch {
	case runtime.Version() != toolchain:
		return runWithToolchain(root, args)
	case command == "build" && len(args) == 1:
		tools, err := findTools(ctx, root)
		if err != nil {
			return err
		}
		return build(ctx, &job{root: root, tools: tools})
	case command == "check":
		return check(ctx, root, args[1:])
	}
	return errors.New("want build or check")
}

// runWithToolchain runs this program again, with the Go of releases, which the go command brings. What the program
// starts uses that Go, too.
func runWithToolchain(root string, args []string) error {
	if os.Getenv("GOTOOLCHAIN") == toolchain {
		return fmt.Errorf("this is %s, want %s", runtime.Version(), toolchain)
	}
	cmd := exec.Command("go", append([]string{"-C", filepath.Join(root, "tools/release"), "run", "."}, args...)...)
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN="+toolchain)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("with %s: %w", toolchain, err)
	}
	return nil
}

// findRoot returns the folder of the repository, which is the working directory or above it.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, configFile)); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("call it in the repository of threeds")
		}
		dir = filepath.Dir(dir)
	}
}

// output runs a program in a folder and returns what it prints, without white space at the ends. An error has what the
// program said.
func output(ctx context.Context, dir string, environment []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environment...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, said.String())
	}
	return strings.TrimSpace(string(out)), nil
}
