package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// migrations lead from an empty database to the present schema. The version of a database is how many of them it has
// seen. Never change one that was released. Add one that nodes of the previous release can work with, for they still
// run during an upgrade: new tables, and new columns that may be left out. Otherwise raise compatibleFrom, so that no
// such node starts again.
var migrations = []string{baseline}

// baseline is the schema of release 0.1.0. Times are milliseconds since 1970. Texts are compared byte by byte, for the
// order of a language changes with the machine's libraries and breaks indexes.
const baseline = `
	-- ver changes with every update, so that none is lost. A transaction is found by id; those that are expired by
	-- expires.
	CREATE TABLE txns (
		id      text COLLATE "C" PRIMARY KEY,
		owner   text   NOT NULL,
		scheme  text   NOT NULL,
		state   text   NOT NULL,
		data    bytea  NOT NULL,
		expires bigint NOT NULL,
		ver     bigint NOT NULL
	);
	CREATE INDEX txns_expires ON txns (expires);

	CREATE TABLE api_keys (
		hash     bytea   PRIMARY KEY,
		merchant text    NOT NULL,
		strict   boolean NOT NULL,
		created  bigint  NOT NULL,
		seal     bytea   NOT NULL
	);
	-- An API key that was revoked is listed, and no backup brings it back.
	CREATE TABLE revoked_keys (
		hash     bytea  PRIMARY KEY,
		merchant text   NOT NULL,
		revoked  bigint NOT NULL
	);
	-- Merchants that operators put into the store.
	CREATE TABLE merchants (
		name text COLLATE "C" PRIMARY KEY,
		data bytea NOT NULL
	);

	-- The row of a lease stays for ever: no token comes twice.
	CREATE TABLE leases (
		name    text COLLATE "C" PRIMARY KEY,
		token   bigint NOT NULL,
		holder  text COLLATE "C", -- NULL: released
		expires bigint NOT NULL
	);
	-- A node tells the others that it serves.
	CREATE TABLE nodes (
		id   text COLLATE "C" PRIMARY KEY,
		name text   NOT NULL,
		note bytea  NOT NULL,
		seen bigint NOT NULL
	);
	CREATE TABLE small_states (
		key   text COLLATE "C" PRIMARY KEY,
		value bytea NOT NULL
	);

	-- A snapshot is an upload first, then under the same id a snapshot; no id comes twice.
	CREATE SEQUENCE upload_ids;
	CREATE TABLE uploads (
		scheme text COLLATE "C" PRIMARY KEY,
		id     bigint NOT NULL
	);
	CREATE TABLE snapshots (
		id         bigint PRIMARY KEY,
		scheme     text COLLATE "C" NOT NULL,
		generation bigint NOT NULL,
		created    bigint NOT NULL,
		size       bigint NOT NULL,
		sha256     bytea  NOT NULL, -- of the content
		note       bytea  NOT NULL,
		UNIQUE (scheme, generation)
	);
	CREATE TABLE chunks (
		snapshot bigint NOT NULL,
		n        bigint NOT NULL, -- from 0
		data     bytea  NOT NULL,
		PRIMARY KEY (snapshot, n)
	);

	-- What merchants are told. Rows of events and deliveries lie under the id of their transaction, as the transaction
	-- does: a database that distributes them has all three in one place. An event that lies ahead is removed when another
	-- about the same transaction comes. A delivery is found by when it is due; NULL: no more attempt is made.
	CREATE TABLE endpoints (
		id       text COLLATE "C" PRIMARY KEY,
		merchant text COLLATE "C" NOT NULL,
		created  bigint NOT NULL,
		data     bytea  NOT NULL
	);
	CREATE INDEX endpoints_merchant ON endpoints (merchant, created, id);
	CREATE TABLE events (
		about    text COLLATE "C" NOT NULL, -- the key in the id
		id       text COLLATE "C" NOT NULL,
		merchant text COLLATE "C" NOT NULL,
		type     text COLLATE "C" NOT NULL,
		created  bigint NOT NULL,
		data     bytea  NOT NULL,
		PRIMARY KEY (about, id)
	);
	CREATE INDEX events_created ON events (created);
	CREATE INDEX events_merchant ON events (merchant, created, id);
	CREATE TABLE deliveries (
		about    text COLLATE "C" NOT NULL, -- of the event
		event    text COLLATE "C" NOT NULL,
		endpoint text COLLATE "C" NOT NULL,
		attempt  bigint NOT NULL,
		due      bigint,
		last     bigint,
		status   bigint NOT NULL,
		error    text   NOT NULL,
		PRIMARY KEY (about, event, endpoint)
	);
	CREATE INDEX deliveries_due ON deliveries (due) WHERE due IS NOT NULL;
	CREATE INDEX deliveries_endpoint ON deliveries (endpoint);

	-- Who may use the console, and what they did. Entries of the audit trail are numbered without a gap.
	CREATE TABLE objects (
		kind    text COLLATE "C" NOT NULL,
		id      text COLLATE "C" NOT NULL,
		expires bigint, -- NULL: it stays
		data    bytea NOT NULL,
		PRIMARY KEY (kind, id)
	);
	CREATE INDEX objects_expires ON objects (expires) WHERE expires IS NOT NULL;
	CREATE TABLE audit (
		seq  bigint PRIMARY KEY,
		at   bigint NOT NULL,
		link bytea  NOT NULL,
		data bytea  NOT NULL
	);
	CREATE INDEX audit_at ON audit (at);

	-- The audit trail only grows: see clearAudit for the exception.
	CREATE FUNCTION keep_audit() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF current_setting('threeds.restoring', true) IS DISTINCT FROM 'on' THEN
			RAISE EXCEPTION 'the audit trail is append-only';
		END IF;
		RETURN NULL;
	END $$;
	CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
		FOR EACH STATEMENT EXECUTE FUNCTION keep_audit();
	ALTER TABLE audit ENABLE ALWAYS TRIGGER append_only;

	-- Nodes look twice a second whether API keys or merchants have changed, or which merchants are disabled. The trigger
	-- changes the mark for each way to change them: by a node, by a person, by a restored copy. Each change has the row of the mark
	-- for itself until it is committed, and has it first, so that no two wait for each other; and makes it what it never
	-- was, for a database may go back in time. It is a row that every node's user may write. Of objects only those of
	-- disabled merchants count, so their triggers are for each row.
	INSERT INTO small_states VALUES ('api keys', uuid_send(gen_random_uuid()));
	CREATE FUNCTION mark_api_keys() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		EXECUTE format('UPDATE %I.small_states SET value = uuid_send(gen_random_uuid()) WHERE key = ''api keys''', TG_TABLE_SCHEMA);
		RETURN NULL;
	END $$;
	CREATE TRIGGER mark BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON api_keys
		FOR EACH STATEMENT EXECUTE FUNCTION mark_api_keys();
	ALTER TABLE api_keys ENABLE ALWAYS TRIGGER mark;
	CREATE TRIGGER mark BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON merchants
		FOR EACH STATEMENT EXECUTE FUNCTION mark_api_keys();
	ALTER TABLE merchants ENABLE ALWAYS TRIGGER mark;
	CREATE TRIGGER mark_disabled AFTER INSERT ON objects
		FOR EACH ROW WHEN (NEW.kind = 'disabled') EXECUTE FUNCTION mark_api_keys();
	CREATE TRIGGER mark_changed AFTER UPDATE ON objects
		FOR EACH ROW WHEN ('disabled' IN (OLD.kind, NEW.kind)) EXECUTE FUNCTION mark_api_keys();
	CREATE TRIGGER mark_enabled AFTER DELETE ON objects
		FOR EACH ROW WHEN (OLD.kind = 'disabled') EXECUTE FUNCTION mark_api_keys();
	CREATE TRIGGER mark_emptied BEFORE TRUNCATE ON objects
		FOR EACH STATEMENT EXECUTE FUNCTION mark_api_keys();
	ALTER TABLE objects ENABLE ALWAYS TRIGGER mark_disabled;
	ALTER TABLE objects ENABLE ALWAYS TRIGGER mark_changed;
	ALTER TABLE objects ENABLE ALWAYS TRIGGER mark_enabled;
	ALTER TABLE objects ENABLE ALWAYS TRIGGER mark_emptied;

	-- The same with webhook endpoints: the first trigger marks all of them, before anything is changed, and the second the
	-- merchant of each.
	INSERT INTO small_states VALUES ('webhook endpoints', uuid_send(gen_random_uuid()));
	CREATE FUNCTION mark_endpoints() RETURNS trigger LANGUAGE plpgsql AS $$
	DECLARE
		marks text := format('INSERT INTO %I.small_states VALUES (''endpoints/'' || $1, uuid_send(gen_random_uuid()))
			ON CONFLICT (key) DO UPDATE SET value = excluded.value', TG_TABLE_SCHEMA);
	BEGIN
		IF TG_LEVEL = 'STATEMENT' THEN
			EXECUTE format('UPDATE %I.small_states SET value = uuid_send(gen_random_uuid()) WHERE key = ''webhook endpoints''', TG_TABLE_SCHEMA);
			RETURN NULL;
		END IF;
		IF TG_OP <> 'INSERT' THEN
			EXECUTE marks USING OLD.merchant;
		END IF;
		IF TG_OP <> 'DELETE' THEN
			EXECUTE marks USING NEW.merchant;
		END IF;
		RETURN NULL;
	END $$;
	CREATE TRIGGER mark BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON endpoints
		FOR EACH STATEMENT EXECUTE FUNCTION mark_endpoints();
	CREATE TRIGGER mark_merchant AFTER INSERT OR UPDATE OR DELETE ON endpoints
		FOR EACH ROW EXECUTE FUNCTION mark_endpoints();
	ALTER TABLE endpoints ENABLE ALWAYS TRIGGER mark;
	ALTER TABLE endpoints ENABLE ALWAYS TRIGGER mark_merchant;`

// clearAudit are the statements that change the audit trail: that of a backup takes the place of all.
var clearAudit = []string{`SET LOCAL threeds.restoring = 'on'`, `DELETE FROM audit`,
	`SET LOCAL threeds.restoring = 'off'`}

// compatibleFrom is the oldest schema version whose builds work with the tables that migrations make. Raise it with a
// step that those builds cannot work with.
const compatibleFrom = 1

const (
	sqlVersion      = `SELECT version, compatible_from FROM schema_version`
	sqlVersionTable = `CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL, compatible_from bigint NOT NULL)`
)

// sqlBeginMigration gives the statements of a migration the time that a large table takes.
const sqlBeginMigration = `BEGIN; SET LOCAL statement_timeout = '50s'`

// migrating is the advisory lock under which one process at a time migrates.
const migrating = 0x3d5ec04e

// migrate brings the schema up to date with steps. A schema that is up to date is only read. So is one that has seen
// more steps, if it says that it may be used.
func migrate(ctx context.Context, conn *pgx.Conn, steps []string, compatibleFrom int) error {
	var there bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass('schema_version') IS NOT NULL`).Scan(&there); err != nil {
		return err
	}
	if there {
		switch version, _, err := versionOf(ctx, conn, steps); {
		case err != nil:
			return err
		case version >= len(steps):
			return nil
		}
	}
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{BeginQuery: sqlBeginMigration}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrating)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlVersionTable); err != nil {
			return err
		}
		version, from, err := versionOf(ctx, tx, steps)
		if err != nil {
			return err
		}
		for i := version; i < len(steps); i++ {
			if _, err := tx.Exec(ctx, steps[i]); err != nil {
				return fmt.Errorf("migration %d: %w", i+1, err)
			}
		}
		if _, err := tx.Exec(ctx, `DELETE FROM schema_version`); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO schema_version (version, compatible_from) VALUES ($1, $2)`, len(steps),
			max(from, compatibleFrom))
		return err
	})
}

// versionOf reads the version of the schema, and the oldest version whose builds can use it; 0 if there is no schema.
// If builds with these steps cannot use the schema, that is an error.
func versionOf(ctx context.Context, conn interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, steps []string) (version, from int, err error) {
	err = conn.QueryRow(ctx, sqlVersion).Scan(&version, &from)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, 0, nil
	}
	if err == nil && len(steps) < version && len(steps) < from {
		err = fmt.Errorf(
			"the database was made by a newer release: schema version %d, which builds of version %d and later can use, "+
				"and this one is of version %d; start the newer release, or go back to a backup", version, from, len(steps))
	}
	return version, from, err
}
