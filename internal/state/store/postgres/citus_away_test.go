package postgres

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/base/uuid"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// newTxn returns a transaction with an id of its own, drawn until one of them suits.
func newTxn(suits func(id string) bool) store.Txn {
	for {
		t := store.Txn{ID: uuid.New(), State: "sent", Data: []byte("data"), Expires: time.Now().Add(time.Hour)}
		if suits(t.ID) {
			return t
		}
	}
}

// create makes so many transactions that suit, and returns how many could be stored.
func create(t *testing.T, db *DB, n int, suits func(id string) bool) (stored int) {
	t.Helper()
	for range n {
		if err := db.Create(t.Context(), newTxn(suits)); err == nil {
			stored++
		}
	}
	return stored
}

func anyID(string) bool { return true }

// TestCitusWorkerAway: while a worker is away, ids that are drawn until one can be written are all stored, and those of
// the worker are not. When it is back, all are.
func TestCitusWorkerAway(t *testing.T) {
	db := openAt(t, pgtest.Citus(t), Options{Engine: Citus})
	kill, start := pgtest.CitusCommand(t, "CITUS_KILL_WORKER"), pgtest.CitusCommand(t, "CITUS_START_WORKER")
	const n = 50
	if stored := create(t, db, n, anyID); stored != n {
		t.Fatalf("%d of %d are stored before", stored, n)
	}
	kill()
	killed := time.Now()
	isAway := func(id string) bool { return !db.CanWrite(id) }
	refused := 0
	waittest.Until(t, "a write to notice", func() bool {
		if err := db.Create(t.Context(), newTxn(db.CanWrite)); err != nil {
			refused++
		}
		for range 100 {
			if isAway(uuid.New()) {
				return true
			}
		}
		return false
	})
	noticed := time.Since(killed)
	drawn, dead := create(t, db, n, db.CanWrite), create(t, db, 5, isAway)
	t.Logf("worker killed: noticed after %v, %d writes refused until then; of ids drawn again %d of %d stored, of ids of the worker %d of 5",
		noticed.Round(time.Millisecond), refused, drawn, n, dead)
	if drawn != n || dead != 0 {
		t.Error("want all that were drawn again, and none of the worker")
	}
	_, err := db.Sweep(t.Context(), time.Now().Add(-time.Hour))
	t.Logf("sweep meanwhile: %v", err)
	start()
	started := time.Now()
	waittest.Until(t, "the worker", func() bool {
		for range 200 {
			if isAway(uuid.New()) {
				return false
			}
		}
		return true
	})
	t.Logf("worker back: noticed after %v; %d of %d stored", time.Since(started).Round(time.Millisecond), create(t, db, n, anyID), n)
}

// TestCitusCoordinatorAway: while the coordinator is away nothing is stored, and when it is back all
// is, without a restart.
func TestCitusCoordinatorAway(t *testing.T) {
	db := openAt(t, pgtest.Citus(t), Options{Engine: Citus, Timeout: time.Second})
	kill, start := pgtest.CitusCommand(t, "CITUS_KILL_COORDINATOR"), pgtest.CitusCommand(t, "CITUS_START_COORDINATOR")
	before := newTxn(anyID)
	if err := db.Create(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	kill()
	waittest.Until(t, "the end of its sessions", func() bool { return db.Create(t.Context(), newTxn(anyID)) != nil })
	away := create(t, db, 3, anyID)
	start()
	waittest.Until(t, "the coordinator", func() bool { return db.Create(t.Context(), newTxn(anyID)) == nil })
	_, err := db.Get(t.Context(), before.ID)
	t.Logf("coordinator killed: %d of 3 stored; back: writes succeed, what was stored before: %v", away, err)
	if away != 0 || err != nil {
		t.Error("want none while it is away, and what was stored before")
	}
}

// What TestCitusThroughput slows and how: each worker has so many clients, and a sync of its log takes so much longer.
const (
	clientsOfWorker  = 4
	slowerSync       = 50 * time.Millisecond
	throughputRounds = 40 // writes of each client
)

// TestCitusThroughput prints how many writes one, two and more workers take in a second. All run on one machine, so
// syncs are made so slow that they are what the writes wait for.
func TestCitusThroughput(t *testing.T) {
	conn := connect(t, pgtest.NeedCitus(t))
	result, err := conn.Query(t.Context(), `SELECT nodename || ':' || nodeport FROM pg_dist_node WHERE groupid <> 0 ORDER BY groupid`)
	if err != nil {
		t.Fatal(err)
	}
	workers, err := pgx.CollectRows(result, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	onWorkers := func(statements ...string) {
		for _, worker := range workers {
			for _, statement := range statements {
				execOnce(t, replaceHost(t, pgtest.NeedCitus(t), worker), statement)
			}
		}
	}
	use := func(n int) {
		execOnce(t, pgtest.NeedCitus(t), fmt.Sprintf(`SELECT citus_set_node_property(nodename, nodeport, 'shouldhaveshards',
			row_number <= %d) FROM (SELECT *, row_number() OVER (ORDER BY groupid) FROM pg_dist_node WHERE groupid <> 0) n`, n))
	}
	onWorkers(fmt.Sprintf(`ALTER SYSTEM SET commit_delay = %d`, slowerSync.Microseconds()), `ALTER SYSTEM SET commit_siblings = 0`, `SELECT pg_reload_conf()`)
	defer onWorkers(`ALTER SYSTEM RESET commit_delay`, `ALTER SYSTEM RESET commit_siblings`, `SELECT pg_reload_conf()`)
	defer use(len(workers))
	t.Logf("%d clients for each worker; commit_delay = %v and commit_siblings = 0 on the workers", clientsOfWorker, slowerSync)
	first := 0.0
	for n := 1; n <= len(workers); n++ {
		use(n)
		rate := measureWrites(t, n)
		if n == 1 {
			first = rate
		}
		t.Logf("%d workers: %.0f writes/s, %.2f times one", n, rate, rate/first)
	}
}

// measureWrites returns how many writes a second are made on tables that lie on so many workers.
func measureWrites(t *testing.T, workers int) float64 {
	t.Helper()
	db := openAt(t, pgtest.Citus(t)+"&pool_max_conns=64", Options{Engine: Citus, Timeout: time.Minute})
	groups := map[int32]bool{}
	for _, s := range *db.placement.shards.Load() {
		groups[s.groups[0]] = true
	}
	if len(groups) != workers {
		t.Fatalf("tables lie on %d workers, want %d", len(groups), workers)
	}
	var done atomic.Int64
	var clients sync.WaitGroup
	began := time.Now()
	for group := range groups {
		isHere := func(id string) bool { return db.placement.find(id).groups[0] == group }
		for range clientsOfWorker {
			clients.Go(func() { done.Add(int64(create(t, db, throughputRounds, isHere))) })
		}
	}
	clients.Wait()
	if want := int64(workers * clientsOfWorker * throughputRounds); done.Load() != want {
		t.Errorf("%d of %d writes were made", done.Load(), want)
	}
	return float64(done.Load()) / time.Since(began).Seconds()
}
