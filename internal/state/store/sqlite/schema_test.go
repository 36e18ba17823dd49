package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// schema1 is what a release of schema version 1 made, word for word, and some of
// what it wrote.
var schema1 = []string{
	`PRAGMA journal_mode = WAL`,
	`CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL) STRICT`,
	`INSERT INTO schema_version VALUES (0)`,
	`CREATE TABLE txn (
		id      TEXT NOT NULL UNIQUE,
		owner   TEXT NOT NULL,
		scheme  TEXT NOT NULL,
		state   TEXT NOT NULL,
		data    BLOB NOT NULL,
		expires INTEGER NOT NULL, -- milliseconds since 1970
		ver     INTEGER NOT NULL
	) STRICT;
	CREATE INDEX txn_expires ON txn (expires);
	CREATE TABLE api_key (
		hash     BLOB NOT NULL PRIMARY KEY,
		merchant TEXT NOT NULL,
		strict   INTEGER NOT NULL,
		created  INTEGER NOT NULL, -- milliseconds since 1970
		seal     BLOB NOT NULL
	) STRICT, WITHOUT ROWID;`,
	`UPDATE schema_version SET version = 1`,
	`INSERT INTO txn VALUES ('a', 'shop', 'visa', 'sent', x'64617461', 32503680000000, 7)`,
	`INSERT INTO api_key VALUES (x'0102', 'shop', 1, 1700000000123, x'7365616c')`,
}

// oldStore returns a directory with a store of schema version 1.
func oldStore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, statement := range schema1 {
		exec(t, dir, statement)
	}
	return dir
}

// TestMigrateFrom1 opens an old store, several times at once: all that was there
// is there, and what is new works.
func TestMigrateFrom1(t *testing.T) {
	dir := oldStore(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			db, err := Open(dir, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			want := store.Txn{ID: "a", Owner: "shop", Scheme: "visa", State: "sent", Expires: time.UnixMilli(32503680000000).UTC()}
			x, err := db.Get(t.Context(), "a")
			if data := string(x.Data); err != nil || data != "data" {
				t.Errorf("Get = %q, %v", data, err)
			}
			x.Data, want.Data = nil, nil
			if x.ID != want.ID || x.Owner != want.Owner || x.Scheme != want.Scheme || x.State != want.State || x.Expires != want.Expires {
				t.Errorf("Get = %+v, want %+v", x, want)
			}
			keys, err := db.Keys(t.Context())
			if err != nil || len(keys) != 1 || keys[0].Merchant != "shop" || !keys[0].Strict ||
				keys[0].Created != time.UnixMilli(1700000000123).UTC() || string(keys[0].Hash) != "\x01\x02" || string(keys[0].Seal) != "seal" {
				t.Errorf("Keys = %+v, %v", keys, err)
			}
			if err := db.Update(t.Context(), store.Txn{ID: "a"}, func(x *store.Txn) error { return nil }); err != nil {
				t.Error(err)
			}
			if _, err := db.Acquire(t.Context(), "visa", "me", time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := put(t, db, 1, chunkLen+1, 1); err != nil {
		t.Error(err)
	}
	if newest := whole(t, db, chunkLen+1, 1); newest != 1 {
		t.Errorf("the newest is %d, want 1", newest)
	}
	if n := count(t, dir, "SELECT version FROM schema_version"); n != len(migrations) {
		t.Errorf("schema version is %d, want %d", n, len(migrations))
	}
}

// TestMigrationsStay: an old step is as it was released.
func TestMigrationsStay(t *testing.T) {
	if migrations[0] != schema1[3] {
		t.Error("migration 1 has changed since it was released")
	}
}

// TestMigrationFails: a step that fails leaves the old store as it is.
func TestMigrationFails(t *testing.T) {
	dir := oldStore(t)
	exec(t, dir, "CREATE TABLE small_state (x)") // in the way of the last statement
	if db, err := Open(dir, Options{}); err == nil {
		_ = db.Close()
		t.Fatal("Open is fine")
	}
	if n := count(t, dir, "SELECT version FROM schema_version"); n != 1 {
		t.Errorf("schema version is %d, want 1", n)
	}
	if n := count(t, dir, "SELECT count(*) FROM sqlite_schema WHERE name IN ('lease', 'upload', 'snapshot', 'chunk')"); n != 0 {
		t.Errorf("%d new tables are there, want 0", n)
	}
	exec(t, dir, "DROP TABLE small_state")
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// storeOf returns a directory with a store that has seen one step more than this release has,
// and says which builds can use it.
func storeOf(t *testing.T, compatibleFrom int) string {
	t.Helper()
	dir := t.TempDir()
	db, err := Open(dir, Options{})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	exec(t, dir, "CREATE TABLE further (id TEXT)")
	exec(t, dir, fmt.Sprintf("UPDATE schema_version SET version = %d, compatible_from = %d", len(migrations)+1, compatibleFrom))
	return dir
}

// TestD103OlderBuildOpens: a build whose schema is older than the store's works with the store
// if that says so, and leaves its version as it is.
func TestD103OlderBuildOpens(t *testing.T) {
	dir := storeOf(t, len(migrations))
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

// TestD103OlderBuildIsRefused: a store that is not for this build is not opened.
func TestD103OlderBuildIsRefused(t *testing.T) {
	db, err := Open(storeOf(t, len(migrations)+1), Options{})
	if err == nil {
		_ = db.Close()
	}
	want := fmt.Sprintf("schema version %d, which builds of version %[1]d and later can use, and this one is of version %d;",
		len(migrations)+1, len(migrations))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open: %v, want %q", err, want)
	}
}

// TestD103SilentStoreIsRefused: a newer store of an early build, which has no compatible_from,
// is for builds of its version alone.
func TestD103SilentStoreIsRefused(t *testing.T) {
	dir := storeOf(t, 1)
	exec(t, dir, "ALTER TABLE schema_version DROP COLUMN compatible_from")
	db, err := Open(dir, Options{})
	if err == nil {
		_ = db.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "made by a newer release") {
		t.Errorf("Open: %v, want that it was made by a newer release", err)
	}
}

// TestD103CompatibleFromNeverFalls: a step that older builds can live with leaves refused those
// that an earlier step has shut out.
func TestD103CompatibleFromNeverFalls(t *testing.T) {
	dir := oldStore(t)
	exec(t, dir, "ALTER TABLE schema_version ADD COLUMN compatible_from INTEGER NOT NULL DEFAULT 99")
	db, err := Open(dir, Options{})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, dir, "SELECT compatible_from FROM schema_version"); n != 99 {
		t.Errorf("compatible_from is %d, want 99", n)
	}
}
