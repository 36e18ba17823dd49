package leaktest

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

// stay closes running, and waits until release is closed.
func stay(running, release chan struct{}) {
	close(running)
	<-release
}

// TestWaitShowsGoroutinesThatStay: a goroutine that is left is shown by its function, and none is
// as soon as it has ended.
func TestWaitShowsGoroutinesThatStay(t *testing.T) {
	running, release := make(chan struct{}), make(chan struct{})
	go stay(running, release)
	<-running
	if err := wait(time.Now(), time.Time{}); err == nil || !strings.Contains(err.Error(), "leaktest.stay(") {
		t.Errorf("%v, want the stack of stay", err)
	}
	time.AfterFunc(3*pollInterval, func() { close(release) })
	if err := Wait(); err != nil {
		t.Error(err)
	}
}

// TestWaitSeesOtherPackages: goroutines that a library keeps count as well, such as those of a connection
// that was never closed.
func TestWaitSeesOtherPackages(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = server.Serve(listener) }()
	client := &http.Client{Transport: new(http.Transport)}
	resp, err := client.Get("http://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is kept
	_ = resp.Body.Close()
	if left := goroutines(); !slices.ContainsFunc(left, func(stack string) bool { return strings.Contains(stack, "net/http.(*persistConn).readLoop") }) {
		t.Errorf("%q, want the connection of the client", left)
	}
	client.CloseIdleConnections()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := Wait(); err != nil {
		t.Error(err)
	}
}

// TestWaitLeavesRuntimeAlone: what the runtime and package testing keep is no leak.
func TestWaitLeavesRuntimeAlone(t *testing.T) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	defer signal.Stop(c)
	t.Run("below a test that waits", func(t *testing.T) {
		if err := Wait(); err != nil {
			t.Error(err)
		}
	})
}
