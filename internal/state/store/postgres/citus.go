package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// An Engine says what a database is. It decides where tables lie and which servers are asked; statements are the same.
type Engine string

const (
	Plain Engine = "postgres" // PostgreSQL, or what behaves like it: all tables lie on the server that is asked
	Citus Engine = "citus"    // PostgreSQL with the extension Citus, which spreads authentications over its workers
)

// distribution spreads the tables of authentications over the workers, right after they were made. All of one
// authentication lies in one shard: the three tables have its id as their key. All others stay on the coordinator.
const distribution = `
	SELECT create_distributed_table('txns', 'id', colocate_with => 'none');
	SELECT create_distributed_table('events', 'about', colocate_with => 'txns');
	SELECT create_distributed_table('deliveries', 'about', colocate_with => 'txns');`

// migrationsOf returns the steps that make the schema of a database.
func migrationsOf(engine Engine) []string {
	if engine != Citus {
		return migrations
	}
	steps := append([]string{}, migrations...)
	steps[0] += distribution
	return steps
}

// nodeTimeout is how many milliseconds the coordinator tries to connect to a worker, unless the URL says otherwise. It
// is less than a call may take: a worker that does not answer is then reported as such.
const nodeTimeout = "2000"

// forCitus makes connections fit for a coordinator.
func forCitus(c *pgx.ConnConfig) {
	if session := c.RuntimeParams; session["citus.node_connection_timeout"] == "" {
		session["citus.node_connection_timeout"] = nodeTimeout
	}
	c.ValidateConnect = coordinatorOnly(c.ValidateConnect)
}

// coordinatorOnly adds to a check of new connections that the server is no worker. A worker knows the distributed
// tables, and none of those that lie on the coordinator.
func coordinatorOnly(check pgconn.ValidateConnectFunc) pgconn.ValidateConnectFunc {
	return func(ctx context.Context, conn *pgconn.PgConn) error {
		if check != nil {
			if err := check(ctx, conn); err != nil {
				return err
			}
		}
		got := conn.ExecParams(ctx, `SELECT groupid <> 0 FROM pg_dist_local_group`, nil, nil, nil, nil).Read()
		if got.Err != nil {
			if refused, ok := errors.AsType[*pgconn.PgError](got.Err); ok && refused.Code == undefinedTable {
				return nil // there is no Citus, which checkEngine reports
			}
			return got.Err
		}
		if len(got.Rows) == 1 && string(got.Rows[0][0]) == "t" {
			return errors.New("the server is a worker of Citus (the URL names the coordinator and its standbys alone)")
		}
		return nil
	}
}

// What the server says, by SQLSTATE.
const (
	undefinedTable        = "42P01"
	insufficientPrivilege = "42501"
)

// isRefusal reports whether an error says that a statement cannot be done, whenever it is tried. The coordinator of
// Citus sends a write to a worker, which commits it. After other errors, such as that the statement was cancelled or
// took too long, the worker may have done it all the same.
func isRefusal(code string) bool {
	switch code[:min(2, len(code))] {
	case "0A", "22", "23", "25", "42": // not supported, values, constraints, state of the transaction, syntax and rights
		return true
	}
	return false
}

const (
	sqlExtension   = `SELECT coalesce((SELECT extversion FROM pg_extension WHERE extname = 'citus'), '')`
	sqlDistributed = `SELECT to_regclass('txns') IS NOT NULL,
		EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass('txns') AND partmethod = 'h')`
	// Sessions of the coordinator on workers have the settings of the worker, not ours.
	sqlWorkerCommits = `SELECT nodename || ':' || nodeport, success, result
		FROM run_command_on_workers('SHOW synchronous_commit')`
)

// checkEngine says what is wrong with a database that is to be of an engine, before its tables are made or changed.
func checkEngine(ctx context.Context, conn *pgx.Conn, engine Engine) error {
	var version string
	if err := conn.QueryRow(ctx, sqlExtension).Scan(&version); err != nil {
		return err
	}
	if version == "" {
		if engine == Citus {
			return errors.New("store.engine is citus, and the database does not have the extension (a superuser runs " +
				"CREATE EXTENSION citus in it, on the coordinator and on each worker; for PostgreSQL alone leave store.engine out)")
		}
		return nil
	}
	var isThere, isDistributed bool
	if err := conn.QueryRow(ctx, sqlDistributed).Scan(&isThere, &isDistributed); err != nil {
		return err
	}
	switch {
	case engine != Citus && isDistributed:
		return errors.New("the tables of the database are distributed by Citus, and store.engine is postgres " +
			"(set store.engine: citus)")
	case engine == Citus && isThere && !isDistributed:
		return errors.New("store.engine is citus, and the tables of the database are not distributed: they were made with " +
			"store.engine: postgres (set that again, or distribute them as docs/design/citus.md says)")
	case engine != Citus:
		return nil
	}
	return checkWorkers(ctx, conn)
}

// checkWorkers says what is wrong with the workers that answer. Some may be away, not all.
func checkWorkers(ctx context.Context, conn *pgx.Conn) error {
	result, err := conn.Query(ctx, sqlWorkerCommits)
	if err != nil {
		return err
	}
	var worker, setting string
	var answers bool
	there, answered := 0, 0
	_, err = pgx.ForEachRow(result, []any{&worker, &answers, &setting}, func() error {
		there++
		switch {
		case !answers:
			return nil
		case setting != "on" && setting != "remote_apply":
			return fmt.Errorf("synchronous_commit of the worker %s is %s: acknowledged results could be lost "+
				"(set it to on or remote_apply there)", worker, setting)
		}
		answered++
		return nil
	})
	if err == nil && there > 0 && answered == 0 {
		err = errors.New("the coordinator reaches no worker as the user of the URL " +
			"(each worker has to run, to know the user and to let the user log in)")
	}
	return err
}

// explainDistribution adds to an error of a migration what it takes to distribute tables.
func explainDistribution(engine Engine, err error) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && engine == Citus && refused.Code == insufficientPrivilege {
		return fmt.Errorf("the user of the URL may not make distributed tables (it needs CREATE on the schema): %w", err)
	}
	return err
}
