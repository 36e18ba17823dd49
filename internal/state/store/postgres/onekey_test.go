package postgres

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// parts is into how many partitions the tests cut each table: as many as Citus makes shards.
const parts = 32

// sqlPartition cuts a table into parts by the hash of a column.
const sqlPartition = `DO $$ BEGIN
	ALTER TABLE %[1]s RENAME TO %[1]s_whole;
	CREATE TABLE %[1]s (LIKE %[1]s_whole INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES) PARTITION BY HASH (%[2]s);
	FOR n IN 0..31 LOOP
		EXECUTE format('CREATE TABLE %[1]s_part%%s PARTITION OF %[1]s FOR VALUES WITH (MODULUS 32, REMAINDER %%s)', n, n);
	END LOOP;
END $$`

// A recorder notes the statements that a store runs, with their arguments.
type recorder struct {
	mu         sync.Mutex
	statements []recorded
}

type recorded struct {
	statement string
	args      []any
}

func (r *recorder) see(statement string, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements = append(r.statements, recorded{statement, args})
}

// taken returns what was noted since the last time.
func (r *recorder) taken() []recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.statements
	r.statements = nil
	return all
}

var partName = regexp.MustCompile(`\b(?:txns|events|deliveries)_part(\d+)\b`)

// partsOf returns the partitions that a plan touches.
func partsOf(t *testing.T, conn *pgx.Conn, s recorded) (parts []string) {
	t.Helper()
	result, err := conn.Query(t.Context(), "EXPLAIN (COSTS OFF) "+s.statement, s.args...)
	if err != nil {
		t.Fatalf("EXPLAIN %s: %v", s.statement, err)
	}
	plan, err := pgx.CollectRows(result, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("EXPLAIN %s: %v", s.statement, err)
	}
	for _, line := range plan {
		for _, found := range partName.FindAllStringSubmatch(line, -1) {
			parts = append(parts, found[1])
		}
	}
	slices.Sort(parts)
	return slices.Compact(parts)
}

// isCandidates matches what may look at all partitions: queries that lock nothing, for what is
// cleared up or shown in lists.
var isCandidates = regexp.MustCompile(`(?is)^SELECT .* FROM (txns|events|deliveries)\b.*\bLIMIT \$\d$`)

// TestOneKey: each statement about a transaction, its events and their deliveries concerns one key. So it touches the
// same one partition of all three tables, if they are partitioned by the hash of the key. Only candidates are read from
// all partitions.
func TestOneKey(t *testing.T) {
	url := pgtest.Get(t).Schema(t)
	openAt(t, url, Options{})
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for table, column := range map[string]string{"txns": "id", "events": "about", "deliveries": "about"} {
		if _, err := conn.Exec(t.Context(), fmt.Sprintf(sqlPartition, table, column)); err != nil {
			t.Fatal(err)
		}
	}
	recorder := new(recorder)
	db := openAt(t, url, Options{seen: recorder.see})
	recorder.taken()

	const id, other = "8a880dc0-d2d2-4067-bcb1-b08d1690b26e", "0f3c9d52-7a51-4e0c-8f6f-3f6f3a0f8a11"
	now := time.Now().UTC().Truncate(time.Millisecond)
	event := func(name string, at time.Time) store.Event {
		return store.Event{
			ID: store.NewEventID(name, id, "shop"), Merchant: "shop", Type: "authentication.completed", About: id, Created: at,
			Endpoints: []string{"ep_1", "ep_2"},
		}
	}
	completed, own := event("1", now), event("2", now.Add(time.Hour))
	own.ID, own.About = store.NewEventID("3", "", "shop"), ""
	var before store.Txn
	steps := []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"create", func(ctx context.Context) error {
			return db.Create(ctx, store.Txn{ID: id, Owner: "shop", State: "claimed", Expires: now.Add(time.Hour)})
		}},
		{"get", func(ctx context.Context) (err error) { before, err = db.Get(ctx, id); return err }},
		{"update", func(ctx context.Context) error {
			return db.Update(ctx, before, func(t *store.Txn) error { t.State = "sent"; return nil })
		}},
		{"update with an event that lies ahead", func(ctx context.Context) error {
			ahead := event("4", now.Add(time.Hour))
			return db.Update(ctx, store.Txn{ID: id}, func(t *store.Txn) error { t.Event = &ahead; return nil })
		}},
		{"result with event", func(ctx context.Context) error {
			return db.Update(ctx, store.Txn{ID: id}, func(t *store.Txn) error { t.State, t.Event = "final", &completed; return nil })
		}},
		{"second authentication", func(ctx context.Context) error {
			return db.Create(ctx, store.Txn{ID: other, Owner: "shop", State: "second", Expires: now.Add(-time.Minute)})
		}},
		{"key of an idempotent request", func(ctx context.Context) error {
			key := store.Txn{ID: "idempotency-" + strings.Repeat("a", 64), Owner: "shop", Expires: now.Add(time.Hour)}
			if err := db.Create(ctx, key); err != nil {
				return err
			}
			return db.Update(ctx, store.Txn{ID: key.ID}, func(t *store.Txn) error { t.State = "answered"; return nil })
		}},
		{"event of a merchant", func(ctx context.Context) error { return db.PutEvent(ctx, own) }},
		{"event by its id", func(ctx context.Context) error { _, err := db.Event(ctx, completed.ID); return err }},
		{"deliveries of an event", func(ctx context.Context) error { _, err := db.Deliveries(ctx, completed.ID); return err }},
		{"claim of deliveries", func(ctx context.Context) error {
			all, err := db.ClaimDeliveries(ctx, now.Add(time.Second), now.Add(time.Minute), nil, 9)
			if err == nil && len(all) != 2 {
				err = fmt.Errorf("%d deliveries were claimed, want 2", len(all))
			}
			return err
		}},
		{"end of a delivery", func(ctx context.Context) error {
			return db.EndDelivery(ctx, store.Delivery{Event: completed.ID, Endpoint: "ep_1", Attempt: 1, Last: now, Status: 204})
		}},
		{"deliver again", func(ctx context.Context) error {
			return db.Redeliver(ctx, store.Delivery{Event: completed.ID, Endpoint: "ep_1"}, now)
		}},
		{"events in a list", func(ctx context.Context) error {
			_, err := db.FindEvents(ctx, store.EventQuery{Merchant: "shop", Now: now.Add(time.Second), Limit: 9})
			return err
		}},
		{"transactions in a list", func(ctx context.Context) error {
			_, err := db.List(ctx, store.Txn{}, now.Add(time.Hour), 9)
			return err
		}},
		{"removal of an endpoint", func(ctx context.Context) error {
			if err := db.AddEndpoint(ctx, store.Endpoint{ID: "ep_2", Merchant: "shop", Created: now}); err != nil {
				return err
			}
			return db.RemoveEndpoint(ctx, "ep_2")
		}},
		{"sweep", func(ctx context.Context) error { return wantRemoved(1)(db.Sweep(ctx, now)) }},
		{"sweep of events", func(ctx context.Context) error { return wantRemoved(1)(db.SweepEvents(ctx, now.Add(time.Minute))) }},
		{"erasure", func(ctx context.Context) error { return wantRemoved(1)(db.EraseEvents(ctx, "shop", []string{id})) }},
	}
	for _, step := range steps {
		if err := step.do(t.Context()); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		n := 0
		for _, s := range recorder.taken() {
			if !regexp.MustCompile(`\b(txns|events|deliveries)\b`).MatchString(s.statement) {
				continue
			}
			n++
			if touched := partsOf(t, conn, s); len(touched) > 1 && !isCandidates.MatchString(s.statement) {
				t.Errorf("%s touches the partitions %s of %d, want one, the same of all tables:\n%s", step.name, touched, parts, s.statement)
			}
		}
		if n == 0 {
			t.Errorf("%s: no statement was seen", step.name)
		}
	}
}

// TestOneKeyOfAnEventAndItsTransaction: rows about one transaction are in the partition of the transaction.
func TestOneKeyOfAnEventAndItsTransaction(t *testing.T) {
	for _, id := range []string{store.NewEventID("1", "a-b", "shop"), store.NewEventID("1", "", "shop"), store.NewEventID("1", "", "")} {
		key := store.EventKey(id)
		if about := store.AboutOf(key); key == "" || about != "" && about != "a-b" {
			t.Errorf("%s has the key %q, about %q", id, key, about)
		}
	}
}

func wantRemoved(want int) func(n int, err error) error {
	return func(n int, err error) error {
		if err == nil && n != want {
			err = fmt.Errorf("%d were removed, want %d", n, want)
		}
		return err
	}
}

// statementsOf returns the texts in the source of a package that are SQL, by the place where they stand.
func statementsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v", dir, err)
	}
	isSQL := regexp.MustCompile(`(?is)\b(SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM|LOCK TABLE|SET LOCAL)\b`)
	all := make(map[string]string)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err == nil && isSQL.MatchString(text) {
				all[set.Position(literal.Pos()).String()] = text
			}
			return true
		})
	}
	return all
}

var (
	called  = regexp.MustCompile(`\b([a-z_]+)\(`)
	isWrite = regexp.MustCompile(`(?is)\b(INSERT INTO|UPDATE \w+ (AS \w+ )?SET|DELETE FROM)\b`)
	locks   = regexp.MustCompile(`(?is)\bFOR (NO KEY )?(UPDATE|SHARE|KEY SHARE)\b|\{for update\}`)
	byKey   = regexp.MustCompile(`(?is)\bWHERE (\w+ = \$\d+)( AND \w+ = \$\d+)*\s*$`)

	// volatileControl are the functions that a write may call although they are volatile: the write is to a control
	// table, which no database distributes.
	volatileControl = map[string]string{
		"nextval":         "numbers of uploads",
		"uuid_send":       "", // is immutable; its argument is what follows
		"gen_random_uuid": "marks, which triggers of control tables write",
	}
)

// TestNothingVolatileAndNoLockWithoutAKey: no write of the package reads the clock or anything else that changes within
// the statement, and every statement that locks rows names them by their key.
func TestNothingVolatileAndNoLockWithoutAKey(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), pgtest.Get(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	isVolatile := func(function string) (is bool) {
		err := conn.QueryRow(t.Context(), `SELECT coalesce(bool_or(provolatile = 'v'), false) FROM pg_proc
			WHERE proname = $1 AND pronamespace = 'pg_catalog'::regnamespace`, function).Scan(&is)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	for _, function := range []string{"clock_timestamp", "nextval", "random"} {
		if !isVolatile(function) {
			t.Fatalf("%s is not volatile: the check is worth nothing", function)
		}
	}
	statements := statementsOf(t, ".")
	for at, statement := range statementsOf(t, "../rows") {
		statements[at] = statement
	}
	if len(statements) < 60 {
		t.Fatalf("%d statements were found", len(statements))
	}
	words := dialectOf(serverClock)
	for at, statement := range statements {
		text := strings.ReplaceAll(statement, "{now}", words.Now)
		if isWrite.MatchString(text) {
			for _, function := range called.FindAllStringSubmatch(text, -1) {
				if _, is := volatileControl[function[1]]; !is && isVolatile(function[1]) {
					t.Errorf("%s: a write calls %s, which is volatile:\n%s", at, function[1], statement)
				}
			}
		}
		for _, lock := range locks.FindAllStringIndex(text, -1) {
			if !byKey.MatchString(text[:lock[0]]) {
				t.Errorf("%s: locks rows that it does not name by their key:\n%s", at, statement)
			}
		}
		if strings.Contains(text, "SKIP LOCKED") {
			t.Errorf("%s: rows that others have locked are passed over:\n%s", at, statement)
		}
	}
}
