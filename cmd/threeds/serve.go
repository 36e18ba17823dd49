package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/openthreeds/threeds/internal/base/build"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/run/server"
)

// runServe is the production server: nothing in it is simulated.
func runServe(ctx context.Context, cmd *cmdline.Invocation) error {
	file := cmd.String("config", cmdline.DefaultConfig, "the configuration `FILE`")
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	return serve(ctx, *file, cmd.Stderr, nil)
}

// serve runs the server that a configuration file describes until ctx ends. change may change the values that it is
// built from, for tests. Nil changes nothing.
func serve(ctx context.Context, file string, stderr io.Writer, change func(*server.Config)) error {
	useTwoThreads()
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	defer catchBrokenPipe()()
	return server.Serve(ctx, server.Options{
		File: file, Log: stderr, Build: build.Describe(version), Release: build.Release(version), Reload: reload,
		Change: change,
	})
}

// useTwoThreads lets two threads run Go code at the same time on a machine with one processor, unless GOMAXPROCS says
// otherwise. With one thread all requests would wait while it waits for the disk, and less than half would be served
// (testing/bench/README.md).
func useTwoThreads() {
	if _, isSet := os.LookupEnv("GOMAXPROCS"); !isSet && runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2)
	}
}
