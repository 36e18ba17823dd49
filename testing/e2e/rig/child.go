package rig

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"modernc.org/sqlite"

	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A child is a server in a process of its own with what no build of the program has: another clock, say. It is the test
// binary again, and its environment says what is changed.
const (
	childConfig = "THREEDS_TEST_SERVE"  // the configuration file; it makes a process a child
	ChildEarly  = "THREEDS_TEST_EARLY"  // if it is set, results are acknowledged before they are committed
	ChildSync   = "THREEDS_TEST_SYNC"   // how SQLite syncs, in the place of FULL
	ChildClock  = "THREEDS_TEST_CLOCK"  // how far the clock is ahead, a duration
	ChildResult = "THREEDS_TEST_RESULT" // how long a result may be fetched, a duration
	ChildLease  = "THREEDS_TEST_LEASE"  // how long leases and claims of a node last that has died, a duration
)

// ShortLeases has nodes wait little for one that has died: half a second for its lease of card ranges, and 5 s for what
// it had begun with an Idempotency-Key. With less, a node that lives may lose its own on a busy machine.
const ShortLeases = ChildLease + "=500ms"

// isChild says whether an environment asks for a child.
func isChild(env []string) bool {
	for _, variable := range env {
		if strings.HasPrefix(variable, "THREEDS_TEST_") {
			return true
		}
	}
	return false
}

// runChild serves, and returns the exit status. The end of standard input, which comes with the end of the
// test, ends the process.
func runChild() int {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	if mode := os.Getenv(ChildSync); mode != "" {
		sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, _ string) error {
			_, err := conn.ExecContext(context.Background(), "PRAGMA synchronous = "+mode, nil)
			return err
		})
	}
	err := server.Serve(context.Background(), server.Options{
		File: os.Getenv(childConfig), Log: os.Stderr, Build: "a child of a test", Release: "test", Change: changeChild,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// changeChild changes a server as the environment says.
func changeChild(cfg *server.Config) {
	if lasts, err := time.ParseDuration(os.Getenv(ChildLease)); err == nil {
		cfg.LeaseTime, cfg.ClaimTime = lasts, 10*lasts
	}
	if ahead, err := time.ParseDuration(os.Getenv(ChildClock)); err == nil {
		cfg.Now = func() time.Time { return time.Now().Add(ahead) }
	}
	if lasts, err := time.ParseDuration(os.Getenv(ChildResult)); err == nil {
		cfg.Timeouts.Result = lasts
	}
	if os.Getenv(ChildEarly) != "" {
		cfg.Store = func(s store.Store) store.Store { return earlyStore{s} }
	}
}

// earlyStore is a control of the crash tests: a store that says yes to a result before it is committed.
type earlyStore struct{ store.Store }

func (e earlyStore) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	t, err := e.Get(ctx, was.ID)
	if err != nil {
		return err
	}
	if err := change(&t); err != nil {
		return err
	}
	if t.State != txn.Result {
		return e.Store.Update(ctx, was, change)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = e.Store.Update(context.WithoutCancel(ctx), was, change) })
	return nil
}
