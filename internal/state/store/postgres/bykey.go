package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openthreeds/threeds/internal/state/store/rows"
)

// Cleaning up changes many rows. It reads candidates, which locks nothing, and then changes one key after the other.
// Each change commits by itself, so it holds no lock of another key, and goes to one shard if tables are distributed.

// sweepLen is how many candidates are read with one query.
const sweepLen = 500

// A durability says whether changes wait for the disk. Those that are made again when they are lost need not.
type durability bool

const (
	isDurable durability = true
	isLazy    durability = false
)

// sqlBeginLazy begins a transaction whose commit does not wait. This holds only for that transaction.
const sqlBeginLazy = `BEGIN; SET LOCAL synchronous_commit = off`

// A querier runs statements: a connection, or a transaction on one.
type querier interface {
	Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}

// candidates reads the rows of a query, each of so many columns.
func (db *DB) candidates(ctx context.Context, what string, columns int, query string,
	args ...any) (all [][]any, err error) {
	return rows.All(ctx, db.Rows, what, func(row rows.Scanner) ([]any, error) {
		values := make([]any, columns)
		into := make([]any, columns)
		for i := range values {
			into[i] = &values[i]
		}
		return values, row.Scan(into...)
	}, query, args...)
}

// eachKey calls change for each of keys. It ends with the first error, and early when ctx ends.
func (db *DB) eachKey(ctx context.Context, what string, how durability, keys [][]any,
	change func(context.Context, querier, []any) error) error {
	if len(keys) == 0 {
		return nil
	}
	if err := db.beginCall(ctx); err != nil {
		return err
	}
	defer db.endCall()
	outer := ctx
	return db.call(ctx, what, 10*db.timeout, func(ctx context.Context, conn *pgx.Conn) error {
		for len(keys) > 0 && outer.Err() == nil {
			key := keys[0]
			err := error(nil)
			if how == isDurable {
				err = change(ctx, conn, key)
			} else {
				err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{BeginQuery: sqlBeginLazy}, func(tx pgx.Tx) error {
					return change(ctx, tx, key)
				})
			}
			if err != nil {
				return err
			}
			keys = keys[1:] // a call that is repeated goes on here
		}
		return nil
	}, db.didNothing)
}

// removeKeys reads candidates with a query, whose last argument is their number, and removes each with a statement,
// whose arguments are the columns of the candidate. It does so until there are no more, or until other nodes are
// removing them, and returns how many it has removed.
func (db *DB) removeKeys(
	ctx context.Context, what string, how durability, query string, args []any, remove string, columns int,
) (total int, err error) {
	args = append(slices.Clone(args), sweepLen)
	for {
		keys, err := db.candidates(ctx, what, columns, query, args...)
		if err != nil {
			return total, err
		}
		before := total
		err = db.eachKey(ctx, what, how, keys, func(ctx context.Context, conn querier, key []any) error {
			tag, err := conn.Exec(ctx, remove, key...)
			total += int(tag.RowsAffected())
			return err
		})
		if err != nil || len(keys) < sweepLen || total == before {
			return total, err
		}
	}
}
