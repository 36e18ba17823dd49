package lifecycle

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// findNextRelease returns a directory with a threeds whose schema has one step more than this one's.
var findNextRelease = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(rig.TempDir(), "next")
	return dir, rig.Build(filepath.Join(dir, "threeds"), "-tags", "threeds_next_schema")
})

// buildNextRelease builds a threeds whose schema has one step more than this one's, and returns
// the environment in which it is the one in the path.
func buildNextRelease(t *testing.T) string {
	t.Helper()
	dir, err := findNextRelease()
	rig.Must(t, err)
	return "PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH")
}

// TestD103ForwardAndBackUnderLoad goes forward to a build whose schema has one more step and back
// again, side by side and one after the other, under load: no request fails, and the older build
// leaves the newer schema as it is.
func TestD103ForwardAndBackUnderLoad(t *testing.T) {
	t.Parallel()
	next := buildNextRelease(t)
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		rollForwardAndBack(t, next, "", func(s *rig.Site) (version int) {
			db, err := sql.Open("sqlite", "file:"+filepath.Join(filepath.Dir(s.ConfigFile), "data", "threeds.db")+"?_pragma=busy_timeout(5000)")
			rig.Must(t, err)
			defer db.Close()
			rig.Must(t, db.QueryRow("SELECT version FROM schema_version").Scan(&version))
			return version
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		database := pgtest.Get(t).Schema(t)
		rollForwardAndBack(t, next, fmt.Sprintf("store: {url: %q}\nkeys: keys.json", database), func(*rig.Site) (version int) {
			conn, err := pgx.Connect(t.Context(), database)
			rig.Must(t, err)
			defer conn.Close(t.Context())
			rig.Must(t, conn.QueryRow(t.Context(), "SELECT version FROM schema_version").Scan(&version))
			return version
		})
	})
}

// rollForwardAndBack is the test with one kind of store; place is its lines of the configuration,
// or "" for a directory.
func rollForwardAndBack(t *testing.T, next, place string, schemaVersion func(*rig.Site) int) {
	t.Helper()
	ca := rig.NewAuthority(t)
	ds := rig.NewWire(t, ca)
	ds.Client.Transport.(*http.Transport).MaxIdleConnsPerHost = 1000
	ds.Play(func(w http.ResponseWriter, areq rig.Object) { _, _ = w.Write(rig.Marshal(rig.ARes(areq, "C"))) })
	s, v := supervised(t, ca, ds, "limits: {per_key: 10000/s, wait: 1m}\ntimeouts: {lame_duck: 200ms, shutdown: 10m, result: 2h}")
	if place != "" {
		moveStore(s, place)
	}
	proc := v.ready(s.ConfigFile)
	waittest.Until(t, "the card ranges", func() bool { return s.Readiness() == `{"status":"ready"}` })
	own := schemaVersion(s)
	l, stop := startTraffic(t, s, 20)
	defer stop()
	kept := l.keepResults(rig.ReadCount(t, "UPGRADE_RECORDS", 50))
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
		l.progress(8)
		was := proc
		if !step.sideBySide {
			was.End(syscall.SIGTERM)
		}
		proc = v.ready(s.ConfigFile, step.env...)
		if step.sideBySide {
			l.progress(8) // both builds work on the newer schema
			was.End(syscall.SIGTERM)
		}
		if got := schemaVersion(s); got != own+1 {
			t.Fatalf("step %d, %s: schema version is %d, want %d", i+1, step.name, got, own+1)
		}
	}
	l.progress(8)
	stop()
	for _, want := range kept {
		got, ok := l.post("/postauth", rig.Object{"threeDSServerTransID": want["threeDSServerTransID"]})
		if ok && string(rig.Marshal(got)) != string(rig.Marshal(want)) {
			t.Errorf("a result of before is %v, want %v", got, want)
		}
	}
	t.Logf("%d results of before", len(kept))
	l.none(t)
	proc.End(syscall.SIGTERM)
}

// keepResults runs n challenges, sixteen at a time, and returns their results.
func (l *traffic) keepResults(n int) []rig.Object {
	results := make([]rig.Object, n)
	var group errgroup.Group
	group.SetLimit(crowd)
	for i := range n {
		group.Go(func() error {
			results[i] = l.flow()
			return nil
		})
	}
	_ = group.Wait()
	return slices.DeleteFunc(results, func(o rig.Object) bool { return o == nil }) // a failure is counted already
}

// moveStore has the site keep its transactions where those lines of a configuration say.
func moveStore(s *rig.Site, place string) {
	s.T.Helper()
	text, err := os.ReadFile(s.ConfigFile)
	rig.Must(s.T, err)
	rig.WriteFile(s.T, s.ConfigFile, []byte(strings.Replace(string(text), `store: {url: "file:data"}`, place, 1)))
	s.CreateFirstKeys()
}

// TestClusterRolls replaces three nodes on one database, one after the other, by the next build
// and back again, under load: no request fails. CLUSTER=long has 20 rolls.
func TestClusterRolls(t *testing.T) {
	t.Parallel()
	next := buildNextRelease(t)
	rolls, flows := 2, 4
	if rig.IsLongForm() {
		rolls, flows = 20, 17
	}
	ca := rig.NewAuthority(t)
	ds := rig.NewWire(t, ca)
	ds.Client.Transport.(*http.Transport).MaxIdleConnsPerHost = 1000
	ds.Play(func(w http.ResponseWriter, areq rig.Object) { _, _ = w.Write(rig.Marshal(rig.ARes(areq, "C"))) })
	place := rig.OnPostgres(t, pgtest.Get(t).Schema(t))
	type node struct {
		supervisor *supervisor
		site       *rig.Site
		process    *rig.Process
		traffic    *traffic
		stop       func()
	}
	var nodes []*node
	for range 3 {
		n := new(node)
		n.site, n.supervisor = supervised(t, ca, ds,
			"limits: {per_key: 10000/s, wait: 1m}\ntimeouts: {lame_duck: 200ms, shutdown: 10m}")
		moveStore(n.site, place)
		n.process = n.supervisor.ready(n.site.ConfigFile)
		waittest.Until(t, "the card ranges", func() bool { return n.site.Readiness() == `{"status":"ready"}` })
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		n.traffic, n.stop = startTraffic(t, n.site, flows)
		defer n.stop()
	}
	for i := range rolls {
		var env []string
		if i%2 == 0 {
			env = []string{next}
		}
		for _, n := range nodes {
			was := n.process
			n.process = n.supervisor.ready(n.site.ConfigFile, env...)
			was.End(syscall.SIGTERM)
		}
	}
	for _, n := range nodes {
		n.traffic.progress(2)
		n.stop()
		n.traffic.none(t)
		n.process.End(syscall.SIGTERM)
	}
}
