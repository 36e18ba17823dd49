package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// migrations lead from an empty database to the present schema. The version of a database is how many of them it has
// seen. Never change one that was released. Add one that earlier releases can work with, or raise compatibleFrom.
var migrations = []string{baseline}

// baseline is the schema of release 0.1.0. Times are milliseconds since 1970.
const baseline = `
	-- ver changes with every update, so that none is lost. A transaction is found by id; those that are expired by
	-- expires.
	CREATE TABLE txns (
		id      TEXT NOT NULL UNIQUE,
		owner   TEXT NOT NULL,
		scheme  TEXT NOT NULL,
		state   TEXT NOT NULL,
		data    BLOB NOT NULL,
		expires INTEGER NOT NULL,
		ver     INTEGER NOT NULL
	) STRICT;
	CREATE INDEX txns_expires ON txns (expires);

	CREATE TABLE api_keys (
		hash     BLOB NOT NULL PRIMARY KEY,
		merchant TEXT NOT NULL,
		strict   INTEGER NOT NULL,
		created  INTEGER NOT NULL,
		seal     BLOB NOT NULL
	) STRICT, WITHOUT ROWID;
	-- An API key that was revoked is listed, and no backup brings it back.
	CREATE TABLE revoked_keys (
		hash     BLOB NOT NULL PRIMARY KEY,
		merchant TEXT NOT NULL,
		revoked  INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;
	-- Merchants that operators put into the store.
	CREATE TABLE merchants (
		name TEXT NOT NULL PRIMARY KEY,
		data BLOB NOT NULL
	) STRICT, WITHOUT ROWID;

	-- The row of a lease stays for ever: no token comes twice.
	CREATE TABLE leases (
		name    TEXT NOT NULL PRIMARY KEY,
		token   INTEGER NOT NULL,
		holder  TEXT, -- NULL: released
		expires INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;
	-- A server tells the commands that it serves.
	CREATE TABLE nodes (
		id   TEXT NOT NULL PRIMARY KEY,
		name TEXT NOT NULL,
		note BLOB NOT NULL,
		seen INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;
	CREATE TABLE small_states (
		key   TEXT NOT NULL PRIMARY KEY,
		value BLOB NOT NULL
	) STRICT;

	-- A snapshot is an upload first, then under the same id a snapshot; no id comes twice. Chunks whose id is neither are
	-- leftovers.
	CREATE TABLE uploads (
		id     INTEGER PRIMARY KEY AUTOINCREMENT,
		scheme TEXT NOT NULL UNIQUE,
		lease  TEXT NOT NULL,
		token  INTEGER NOT NULL,
		begun  INTEGER NOT NULL
	) STRICT;
	CREATE TABLE snapshots (
		id         INTEGER PRIMARY KEY,
		scheme     TEXT NOT NULL,
		generation INTEGER NOT NULL,
		created    INTEGER NOT NULL,
		size       INTEGER NOT NULL,
		note       BLOB NOT NULL,
		UNIQUE (scheme, generation)
	) STRICT;
	CREATE TABLE chunks (
		snapshot INTEGER NOT NULL,
		n        INTEGER NOT NULL, -- from 0
		data     BLOB NOT NULL,
		UNIQUE (snapshot, n)
	) STRICT;

	-- What merchants are told. An event that lies ahead is removed when another about the same transaction comes. A
	-- delivery is found by when it is due; NULL: no more attempt is made.
	CREATE TABLE endpoints (
		id       TEXT NOT NULL PRIMARY KEY,
		merchant TEXT NOT NULL,
		created  INTEGER NOT NULL,
		data     BLOB NOT NULL
	) STRICT, WITHOUT ROWID;
	CREATE INDEX endpoints_merchant ON endpoints (merchant, created, id);
	CREATE TABLE events (
		about    TEXT NOT NULL, -- the key in the id
		id       TEXT NOT NULL,
		merchant TEXT NOT NULL,
		type     TEXT NOT NULL,
		created  INTEGER NOT NULL,
		data     BLOB NOT NULL,
		PRIMARY KEY (about, id)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX events_created ON events (created);
	CREATE INDEX events_merchant ON events (merchant, created, id);
	CREATE TABLE deliveries (
		about    TEXT NOT NULL, -- of the event
		event    TEXT NOT NULL,
		endpoint TEXT NOT NULL,
		attempt  INTEGER NOT NULL,
		due      INTEGER,
		last     INTEGER,
		status   INTEGER NOT NULL,
		error    TEXT NOT NULL,
		PRIMARY KEY (about, event, endpoint)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX deliveries_due ON deliveries (due) WHERE due IS NOT NULL;
	CREATE INDEX deliveries_endpoint ON deliveries (endpoint);

	-- Who may use the console, and what they did. Entries of the audit trail are numbered without a gap.
	CREATE TABLE objects (
		kind    TEXT NOT NULL,
		id      TEXT NOT NULL,
		expires INTEGER, -- NULL: it stays
		data    BLOB NOT NULL,
		PRIMARY KEY (kind, id)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX objects_expires ON objects (expires) WHERE expires IS NOT NULL;
	CREATE TABLE audit (
		seq  INTEGER PRIMARY KEY,
		at   INTEGER NOT NULL,
		link BLOB NOT NULL,
		data BLOB NOT NULL
	) STRICT;
	CREATE INDEX audit_at ON audit (at);
	` + sqlKeepAudit + `;

	-- Servers look twice a second whether API keys or merchants have changed, or which merchants are disabled. Triggers
	-- change the mark, for another process as well as for a person. The mark becomes what it never was.
	INSERT INTO small_states VALUES ('api keys', randomblob(16));
	CREATE TRIGGER api_keys_made AFTER INSERT ON api_keys BEGIN
		UPDATE small_states SET value = randomblob(16) WHERE key = 'api keys';
	END;
	CREATE TRIGGER api_keys_changed AFTER UPDATE ON api_keys BEGIN
		UPDATE small_states SET value = randomblob(16) WHERE key = 'api keys';
	END;
	CREATE TRIGGER api_keys_removed AFTER DELETE ON api_keys BEGIN
		UPDATE small_states SET value = randomblob(16) WHERE key = 'api keys';
	END;
	CREATE TRIGGER merchants_made AFTER INSERT ON merchants BEGIN
		UPDATE small_states SET value = randomblob(16) WHERE key = 'api keys';
	END;
	CREATE TRIGGER merchants_changed AFTER UPDATE ON merchants BEGIN
		UPDATE small_states SET value = randomblob(16) WHERE key = 'api keys';
	END;
	CREATE TRIGGER merchants_removed AFTER DELETE ON merchants BEGIN
		UPDATE small_states SET value = randomblob(16) WHERE key = 'api keys';
	END;
	CREATE TRIGGER disabled_made AFTER INSERT ON objects WHEN NEW.kind = 'disabled' BEGIN
		UPDATE small_states SET value = randomblob(16) WHERE key = 'api keys';
	END;
	CREATE TRIGGER disabled_changed AFTER UPDATE ON objects WHEN 'disabled' IN (OLD.kind, NEW.kind) BEGIN
		UPDATE small_states SET value = randomblob(16) WHERE key = 'api keys';
	END;
	CREATE TRIGGER disabled_removed AFTER DELETE ON objects WHEN OLD.kind = 'disabled' BEGIN
		UPDATE small_states SET value = randomblob(16) WHERE key = 'api keys';
	END;

	-- The same with webhook endpoints: they have a mark for all, and one for each merchant.
	INSERT INTO small_states VALUES ('webhook endpoints', randomblob(16));
	CREATE TRIGGER endpoints_made AFTER INSERT ON endpoints BEGIN
		UPDATE small_states SET value = randomblob(16) WHERE key = 'webhook endpoints';
		INSERT INTO small_states VALUES ('endpoints/' || NEW.merchant, randomblob(16)) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
	END;
	CREATE TRIGGER endpoints_changed AFTER UPDATE ON endpoints BEGIN
		UPDATE small_states SET value = randomblob(16) WHERE key = 'webhook endpoints';
		INSERT INTO small_states VALUES ('endpoints/' || OLD.merchant, randomblob(16)) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
		INSERT INTO small_states VALUES ('endpoints/' || NEW.merchant, randomblob(16)) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
	END;
	CREATE TRIGGER endpoints_removed AFTER DELETE ON endpoints BEGIN
		UPDATE small_states SET value = randomblob(16) WHERE key = 'webhook endpoints';
		INSERT INTO small_states VALUES ('endpoints/' || OLD.merchant, randomblob(16)) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
	END;`

// sqlKeepAudit has the database refuse what would change or remove entries of the audit trail.
const sqlKeepAudit = `CREATE TRIGGER audit_unchanged BEFORE UPDATE ON audit BEGIN
		SELECT RAISE(ABORT, 'the audit trail is append-only');
	END;
	CREATE TRIGGER audit_kept BEFORE DELETE ON audit BEGIN
		SELECT RAISE(ABORT, 'the audit trail is append-only');
	END;`

// clearAudit are the statements that change the audit trail: that of a backup takes the place of all.
var clearAudit = []string{`DROP TRIGGER audit_kept; DROP TRIGGER audit_unchanged`, `DELETE FROM audit`, sqlKeepAudit}

// compatibleFrom is the oldest schema version whose builds work with the tables that
// migrations make. Raise it with a step that those builds cannot work with.
const compatibleFrom = 1

// migrate brings the schema up to date with steps. If several processes call it, one does the work. A schema that has
// seen more steps is left as it is, if it says that it may be used.
func migrate(conn *sql.Conn, steps []string, compatibleFrom int) (err error) {
	ctx := context.Background()
	err = patiently(func() error {
		_, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE")
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		end := "COMMIT"
		if err != nil {
			end = "ROLLBACK"
		}
		_, failed := conn.ExecContext(ctx, end)
		err = errors.Join(err, failed)
	}()
	_, err = conn.ExecContext(ctx,
		"CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL, compatible_from INTEGER NOT NULL) STRICT")
	if err != nil {
		return err
	}
	var version, from int
	err = conn.QueryRowContext(ctx, "SELECT version, compatible_from FROM schema_version").Scan(&version, &from)
	if errors.Is(err, sql.ErrNoRows) {
		_, err = conn.ExecContext(ctx, "INSERT INTO schema_version VALUES (0, 0)")
	}
	if err != nil {
		return err
	}
	if len(steps) < from && len(steps) < version {
		return fmt.Errorf("made by a newer release: schema version %d, which builds of version %d and later can use, "+
			"and this one is of version %d; start the newer release, or go back to a backup", version, from, len(steps))
	}
	if version >= len(steps) {
		return writable(conn)
	}
	for i, step := range steps[version:] {
		if _, err := conn.ExecContext(ctx, step); err != nil {
			return fmt.Errorf("migration %d: %w", version+i+1, err)
		}
	}
	_, err = conn.ExecContext(ctx, "UPDATE schema_version SET version = ?, compatible_from = max(compatible_from, ?)",
		len(steps), compatibleFrom)
	return err
}

// writable tries to change something and undoes it. SQLite opens a file that this process may only read, and begins
// transactions on it, without an error.
func writable(conn *sql.Conn) error {
	_, err := conn.ExecContext(context.Background(),
		"SAVEPOINT trial; UPDATE schema_version SET version = version; ROLLBACK TO trial; RELEASE trial")
	if err != nil {
		return fmt.Errorf("%s cannot be written to (it has to belong to the user of this process): %w", fileName, err)
	}
	return nil
}

// isBusy reports whether another connection has the lock that is needed.
func isBusy(err error) bool {
	failed, ok := errors.AsType[*driver.Error](err)
	return ok && failed.Code()&0xff == lib.SQLITE_BUSY
}

// isFull reports whether the disk had no room for all of the log.
func isFull(err error) bool {
	failed, ok := errors.AsType[*driver.Error](err)
	return ok && failed.Code()&0xff == lib.SQLITE_FULL
}
