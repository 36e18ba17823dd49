package pgtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5"
)

// CitusVariable names the variable with the URL of a database of Citus, on its coordinator, that tests may use.
const CitusVariable = "CITUS"

// shardCount is how many shards a distributed table of a test has: enough for each worker, and few for a quick start.
const shardCount = 8

// NeedCitus returns the URL that [CitusVariable] has, and skips the test if there is none.
func NeedCitus(t testing.TB) string {
	t.Helper()
	at := os.Getenv(CitusVariable)
	if at == "" {
		t.Skip("NOT TESTED: Citus, for which there is no cluster: go -C testing run ./long citus --url URL")
	}
	return at
}

// Citus makes a place of its own for one test in the cluster that [CitusVariable] names, and returns its URL. The place
// goes with the test.
func Citus(t testing.TB) string {
	t.Helper()
	at := NeedCitus(t)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatalf("%s: no URL", CitusVariable)
	}
	schema := fmt.Sprintf("threeds_test_%x", rand.Uint64())
	execAt(t, at, "CREATE SCHEMA "+schema)
	t.Cleanup(func() {
		if !t.Failed() {
			execAt(t, at, "DROP SCHEMA "+schema+" CASCADE")
		}
	})
	q := u.Query()
	q.Set("search_path", schema+",public")
	q.Set("citus.shard_count", fmt.Sprint(shardCount))
	// A busy machine takes long to begin a session.
	q.Set("connect_timeout", fmt.Sprint(int(patience.Seconds())))
	q.Set("citus.node_connection_timeout", fmt.Sprint(patience.Milliseconds()))
	u.RawQuery = q.Encode()
	return u.String()
}

// execAt runs a statement on a connection of its own.
func execAt(t testing.TB, url, sql string, args ...any) {
	t.Helper()
	ctx := context.Background() // cleanups want it too
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) // the data is no longer needed
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// CitusCommand returns what runs the shell command that a variable has, such as one that kills a worker. The test is
// skipped if there is none.
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
