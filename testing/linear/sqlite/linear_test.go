// Package sqlite_test checks whether the embedded store is linearizable, see package linear.
package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/leaktest"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
	"github.com/openthreeds/threeds/testing/linear"
)

// linearDir names the directory of the store to the process that is to be killed,
// linearHasty has that process acknowledge too early.
const (
	linearDir   = "THREEDS_LINEAR_DIR"
	linearHasty = "THREEDS_LINEAR_HASTY"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(linearDir); dir != "" {
		if err := serveLinear(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaktest.Main(m)
}

// linearCalls is how many calls a test of linearizability makes: go -C testing run ./long linear asks
// for more than make test.
func linearCalls(t *testing.T) int {
	text := os.Getenv("LINEAR_CALLS")
	if text == "" {
		return 5000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("LINEAR_CALLS: %v", err)
	}
	return n / 2 // there are two tests
}

// start is what the clock of a store shows at first, in milliseconds since 1970.
var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixMilli()

// linearNodes is how often the directory is open.
const linearNodes = 2

// TestLinearReopened closes and opens the store in the middle of calls, as often as
// it is open.
func TestLinearReopened(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	var clock atomic.Int64
	clock.Store(start)
	open := func() (*sqlite.DB, error) {
		return sqlite.Open(dir, sqlite.Options{Now: func() time.Time { return time.UnixMilli(clock.Load()) }})
	}
	var mu sync.RWMutex
	var nodes [linearNodes]*sqlite.DB
	for i := range nodes {
		var err error
		if nodes[i], err = open(); err != nil {
			t.Fatal(err)
		}
	}
	reopen := func() error {
		i := rand.IntN(len(nodes))
		err := nodes[i].Close()
		db, failed := open()
		if failed != nil {
			return errors.Join(err, failed)
		}
		mu.Lock()
		defer mu.Unlock()
		nodes[i] = db
		return err
	}
	var known [linearNodes]linear.Known
	report := linear.Run(t, linear.Bed{
		Do: func(ctx context.Context, node int, c linear.Call) linear.Answer {
			mu.RLock()
			db := nodes[node]
			mu.RUnlock()
			return c.On(ctx, known[node].Of(db))
		},
		Nodes: len(nodes), Lazy: true, Now: clock.Load(),
		Pass:   func(to int64) error { clock.Store(to); return nil },
		Faults: []linear.Fault{{Name: "close", Every: 1, Do: reopen}},
	}, linearCalls(t), linear.Artifacts())
	report.Expect(t)
	for _, db := range nodes {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLinearKilled kills the process that has the store open, in the middle of
// calls, and starts another one.
func TestLinearKilled(t *testing.T) {
	runKilled(t, linearCalls(t), linear.Artifacts()).Expect(t)
}

// TestLinearHasty is the control: acknowledged before it is committed, and killed.
func TestLinearHasty(t *testing.T) {
	if report := runKilled(t, 20_000, t.TempDir(), linearHasty+"=1"); len(report.Violations) == 0 {
		t.Error("writes that were lost after they had been acknowledged are not noticed")
	}
}

// serveLinear is the process that is killed.
func serveLinear(dir string) error {
	var clock atomic.Int64
	var nodes []store.Store
	for range linearNodes {
		db, err := sqlite.Open(dir, sqlite.Options{Now: func() time.Time { return time.UnixMilli(clock.Load()) }})
		if err != nil {
			return err
		}
		defer db.Close()
		nodes = append(nodes, db)
		if os.Getenv(linearHasty) != "" {
			nodes[len(nodes)-1] = hasty{db}
		}
	}
	return linear.Serve(os.Stdin, os.Stdout, nodes, clock.Store)
}

// A hasty store acknowledges a transaction before it is there.
type hasty struct{ store.Store }

func (s hasty) Create(ctx context.Context, t store.Txn) error {
	if _, err := s.Get(ctx, t.ID); !errors.Is(err, store.ErrNotFound) {
		return s.Store.Create(ctx, t)
	}
	go func() { _ = s.Store.Create(context.WithoutCancel(ctx), t) }()
	return nil
}

// runKilled makes calls on a store whose process is killed now and then.
func runKilled(t *testing.T, calls int, pages string, env ...string) linear.Report {
	dir := filepath.Join(t.TempDir(), "data")
	now := start
	var child *exec.Cmd
	var input io.Closer
	var remote atomic.Pointer[linear.Remote]
	startChild := func() error {
		child = exec.Command(os.Args[0])
		child.Env = append(append(os.Environ(), linearDir+"="+dir), env...)
		child.Stderr = os.Stderr
		in, err := child.StdinPipe()
		if err != nil {
			return err
		}
		out, err := child.StdoutPipe()
		if err != nil {
			return err
		}
		if err := child.Start(); err != nil {
			return err
		}
		input = in
		fresh := linear.Connect(in, out)
		if err := fresh.Pass(now); err != nil {
			return err
		}
		remote.Store(fresh)
		return nil
	}
	if err := startChild(); err != nil {
		t.Fatal(err)
	}
	kill := func() error {
		if err := child.Process.Kill(); err != nil {
			return err
		}
		remote.Load().Wait()
		_ = child.Wait() // it was killed
		return startChild()
	}
	report := linear.Run(t, linear.Bed{
		Do: func(ctx context.Context, node int, c linear.Call) linear.Answer {
			return remote.Load().Do(ctx, node, c)
		},
		Nodes: linearNodes, Lazy: true, Now: now,
		Pass: func(to int64) error {
			now = to
			return remote.Load().Pass(to)
		},
		Faults: []linear.Fault{{Name: "kill -9", Every: 1, Do: kill}},
	}, calls, pages)
	if err := input.Close(); err != nil {
		t.Error(err)
	}
	remote.Load().Wait()
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
	return report
}
