package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/store/postgres/pgtest"
)

// buildNextRelease builds a threeds whose schema has one step more than this one's, and returns
// the environment in which it is the one in the path.
func buildNextRelease(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-tags", "threeds_next_schema", "-o", filepath.Join(dir, "threeds"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return "PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH")
}

// TestD103ForwardAndBackUnderLoad goes forward to a build whose schema has one more step and back
// again, side by side and one after the other, under load: no request fails, and the older build
// leaves the newer schema as it is.
func TestD103ForwardAndBackUnderLoad(t *testing.T) {
	next := buildNextRelease(t)
	t.Run("sqlite", func(t *testing.T) {
		rollForwardAndBack(t, next, "", func(s *site) (version int) {
			db, err := sql.Open("sqlite", "file:"+filepath.Join(filepath.Dir(s.config), "data", "threeds.db")+"?_pragma=busy_timeout(5000)")
			must(t, err)
			defer db.Close()
			must(t, db.QueryRow("SELECT version FROM schema_version").Scan(&version))
			return version
		})
	})
	t.Run("postgres", func(t *testing.T) {
		database := pgtest.Get(t).Schema(t)
		rollForwardAndBack(t, next, fmt.Sprintf("store: {url: %q}\nkeys: keys.json", database), func(*site) (version int) {
			conn, err := pgx.Connect(t.Context(), database)
			must(t, err)
			defer conn.Close(t.Context())
			must(t, conn.QueryRow(t.Context(), "SELECT version FROM schema_version").Scan(&version))
			return version
		})
	})
}

// rollForwardAndBack is the test with one kind of store; place is its lines of the configuration,
// or "" for a directory.
func rollForwardAndBack(t *testing.T, next, place string, schemaVersion func(*site) int) {
	t.Helper()
	ca := newAuthority(t)
	ds := newWire(t, ca)
	ds.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 1000
	ds.client.Timeout = time.Minute
	ds.play(func(w http.ResponseWriter, areq object) { _, _ = w.Write(marshal(ares(areq, "C"))) })
	s, v := supervised(t, ca, ds, "limits: {per_key: 10000/s, wait: 1m}\ntimeouts: {lame_duck: 500ms, shutdown: 30s}")
	if place != "" {
		text, err := os.ReadFile(s.config)
		must(t, err)
		write(t, s.config, []byte(strings.Replace(string(text), `store: {url: "file:data"}`, place, 1)))
		s.APIKey, s.OtherAPIKey = s.key("Shop"), s.key("Other")
	}
	proc := v.ready(s.config)
	waitFor(t, "the card ranges", func() bool { return s.readiness() == `{"status":"ready"}` })
	own := schemaVersion(s)
	l, stop := startTraffic(t, s, 20)
	defer stop()
	for i, step := range []struct {
		name       string
		env        []string
		sideBySide bool
	}{
		{"forward, side by side", []string{next}, true},
		{"back, side by side", nil, true},
		{"forward", []string{next}, false},
		{"back", nil, false},
	} {
		time.Sleep(500 * time.Millisecond)
		was := proc
		if !step.sideBySide {
			was.end(syscall.SIGTERM)
		}
		proc = v.ready(s.config, step.env...)
		if step.sideBySide {
			time.Sleep(500 * time.Millisecond) // both builds work on the newer schema
			was.end(syscall.SIGTERM)
		}
		if got := schemaVersion(s); got != own+1 {
			t.Fatalf("step %d, %s: schema version is %d, want %d", i+1, step.name, got, own+1)
		}
	}
	time.Sleep(500 * time.Millisecond)
	stop()
	l.none(t)
	proc.end(syscall.SIGTERM)
}
