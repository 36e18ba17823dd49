package sqlite

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// nextStep is a step of a next release, with which this release can work.
const nextStep = `ALTER TABLE txns ADD COLUMN more TEXT; CREATE TABLE further (id TEXT) STRICT`

// newStore returns a directory with a store of this release.
func newStore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	db, err := Open(dir, Options{})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// upgrade brings the store in a directory up to date with the steps of this release and further ones.
func upgrade(t *testing.T, dir string, compatibleFrom int, further ...string) error {
	t.Helper()
	pool := openRaw(t, dir)
	defer pool.Close()
	conn, err := pool.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return migrate(conn, append(migrations[:len(migrations):len(migrations)], further...), compatibleFrom)
}

// TestMigrate plays the next release: several of its processes bring the schema up to date at once, while one of this
// release goes on working.
func TestMigrate(t *testing.T) {
	dir := newStore(t)
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	x := store.Txn{ID: "a", Owner: "shop", Data: []byte("data"), Expires: time.Now().Add(time.Hour)}
	if err := db.Create(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := upgrade(t, dir, compatibleFrom, nextStep); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := count(t, dir, "SELECT version FROM schema_version"); n != len(migrations)+1 {
		t.Errorf("schema version is %d, want %d", n, len(migrations)+1)
	}
	if n := count(t, dir, "SELECT count(*) FROM further"); n != 0 {
		t.Errorf("the new table has %d rows", n)
	}
	if err := db.Update(t.Context(), x, func(x *store.Txn) error { x.State = "final"; return nil }); err != nil {
		t.Errorf("Update by the older process: %v", err)
	}
	if got, err := db.Get(t.Context(), "a"); err != nil || got.State != "final" || string(got.Data) != "data" {
		t.Errorf("Get by the older process: %+v, %v", got, err)
	}
}

// TestMigrationFails: a step that fails leaves the store as it is.
func TestMigrationFails(t *testing.T) {
	dir := newStore(t)
	exec(t, dir, "CREATE TABLE last (x)") // in the way of the last statement
	further := nextStep + `; CREATE TABLE last (id TEXT) STRICT`
	if err := upgrade(t, dir, compatibleFrom, further); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("migration %d", len(migrations)+1)) {
		t.Fatalf("a migration that fails: %v", err)
	}
	if n := count(t, dir, "SELECT version FROM schema_version"); n != len(migrations) {
		t.Errorf("schema version is %d, want %d", n, len(migrations))
	}
	if n := count(t, dir, "SELECT count(*) FROM sqlite_schema WHERE name = 'further'"); n != 0 {
		t.Error("the new table is there")
	}
	exec(t, dir, "DROP TABLE last")
	if err := upgrade(t, dir, compatibleFrom, further); err != nil {
		t.Error(err)
	}
}

// TestD103OlderBuildOpens: a build whose schema is older than the store's works with the store if the store allows it,
// and leaves the store's version as it is.
func TestD103OlderBuildOpens(t *testing.T) {
	dir := newStore(t)
	if err := upgrade(t, dir, compatibleFrom, nextStep); err != nil {
		t.Fatal(err)
	}
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Create(t.Context(), store.Txn{ID: "a", Expires: time.Now().Add(time.Hour)}); err != nil {
		t.Error(err)
	}
	if n := count(t, dir, "SELECT version FROM schema_version"); n != len(migrations)+1 {
		t.Errorf("schema version is %d, want %d", n, len(migrations)+1)
	}
}

// TestD103OlderBuildIsRefused: a store that is not for this build is not opened, also after a step that would suit it.
func TestD103OlderBuildIsRefused(t *testing.T) {
	dir := newStore(t)
	for _, further := range [][]string{{nextStep}, {nextStep, `CREATE TABLE last (id TEXT) STRICT`}} {
		from := len(migrations) + 1
		if len(further) > 1 {
			from = 1 // it never falls
		}
		if err := upgrade(t, dir, from, further...); err != nil {
			t.Fatal(err)
		}
		db, err := Open(dir, Options{})
		if err == nil {
			_ = db.Close()
		}
		want := fmt.Sprintf("schema version %d, which builds of version %d and later can use, and this one is of version %d;",
			len(migrations)+len(further), len(migrations)+1, len(migrations))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open: %v, want %q", err, want)
		}
	}
}
