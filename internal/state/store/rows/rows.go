// Package rows keeps the rows of a [store.Store] that rarely change, in either SQL database: API keys, merchants,
// objects, the audit trail, webhook endpoints, events, leases, small states and nodes. The stores of packages sqlite
// and postgres embed [Rows]. The two packages themselves keep transactions and snapshots, hand out deliveries, and do
// what takes several statements in one of the databases.
//
// The statements are in the SQL that both databases understand. Tables have the same names, and parameters are $1, $2
// and so on. Where the databases differ, a statement has a word in braces, which stands for a text of the [Dialect].
//
// The two do not share a [database/sql.DB], but an [Engine] of two methods. After an error, the store of PostgreSQL has
// to know whether a statement may have been done, and whether the server was a previous primary. Only a connection of
// pgx can say that. And all writes to SQLite go through one goroutine, which commits many of them at once.
package rows

import (
	"context"
	"strings"

	"github.com/openthreeds/threeds/internal/state/store"
)

// An Engine runs statements in a database. What says what is done, for texts of errors.
type Engine interface {
	// Change runs a statement that commits by itself. If no row has changed, its error is none. If there is something
	// to scan into, the statement returns the row that has changed.
	Change(ctx context.Context, what string, none error, statement string, args []any, into ...any) error

	// Query calls read with the rows of a query. It may do so again after a failure. An error of read that is one of
	// the facts of package store is returned as it is.
	Query(ctx context.Context, what, query string, args []any, read func(Result) error) error
}

// A Result has the rows of a query: [database/sql.Rows], or those of pgx.
type Result interface {
	Scanner
	Next() bool
	Err() error
}

// A Dialect says how a database writes what the other writes in another way.
type Dialect struct {
	Now       string // {now}: the present, in milliseconds since 1970
	Texts     string // {texts $1}: a query for the texts of the first argument, which Join has made
	ForUpdate string // {for update}: the end of a query whose row no other transaction may change until the commit

	// The marks of what nodes follow. A mark that is NULL says that nothing tells of changes.
	KeysMark      string // {mark of keys}: an expression, the mark of API keys and merchants
	EndpointsMark string // {mark of endpoints}: an expression, the mark of all endpoints
	MerchantMark  string // {mark of merchant}: an expression of a row of small_states, the mark of a merchant's endpoints

	// Join makes one argument of texts.
	Join func(texts []string) any
}

// Rows are the part of a [store.Store] that both databases keep in the same way.
type Rows struct {
	engine Engine
	words  *strings.Replacer // the words in braces
	join   func(texts []string) any
}

// New returns the rows in a database.
func New(engine Engine, d Dialect) *Rows {
	return &Rows{engine, strings.NewReplacer(
		"{now}", d.Now, "{texts $1}", d.Texts, "{for update}", d.ForUpdate,
		"{mark of keys}", d.KeysMark, "{mark of endpoints}", d.EndpointsMark, "{mark of merchant}", d.MerchantMark,
	), d.Join}
}

// SQL returns a statement in the words of the database.
func (r *Rows) SQL(statement string) string { return r.words.Replace(statement) }

// change runs a statement. Its error is none if no row has changed.
func (r *Rows) change(ctx context.Context, what string, none error, statement string, args ...any) error {
	return r.engine.Change(ctx, what, none, r.SQL(statement), args)
}

// A Scan makes a value of a row.
type Scan[T any] func(Scanner) (T, error)

// One reads the one row of a query. Its error is [store.ErrNotFound] if there is none.
func One[T any](ctx context.Context, r *Rows, what string, scan Scan[T], query string, args ...any) (v T, err error) {
	err = r.engine.Query(ctx, what, r.SQL(query), args, func(result Result) (err error) {
		if !result.Next() {
			if err := result.Err(); err != nil {
				return err
			}
			return store.ErrNotFound
		}
		v, err = scan(result)
		return err
	})
	return v, err
}

// All reads all rows of a query.
func All[T any](ctx context.Context, r *Rows, what string, scan Scan[T], query string,
	args ...any) (all []T, err error) {
	err = r.engine.Query(ctx, what, r.SQL(query), args, func(result Result) (err error) {
		all, err = Collect(result, scan)
		return err
	})
	return all, err
}

// Collect reads all rows that are left.
func Collect[T any](result Result, scan Scan[T]) (all []T, err error) {
	for result.Next() {
		v, err := scan(result)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, result.Err()
}
