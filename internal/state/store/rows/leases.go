package rows

import (
	"context"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	// The clock may be read more than once, and might step back in between: another holder gets another token in any
	// case.
	sqlAcquire = `INSERT INTO leases AS l (name, token, holder, expires) VALUES ($1, 1, $2, {now} + $3)
		ON CONFLICT (name) DO UPDATE SET
			token = l.token + CASE WHEN l.holder = $2 AND l.expires > {now} THEN 0 ELSE 1 END,
			holder = $2, expires = {now} + $3
			WHERE l.holder IS NULL OR l.expires <= {now} OR l.holder = $2
		RETURNING token, expires`
	sqlRelease = `UPDATE leases SET holder = NULL WHERE name = $1 AND token = $2 AND holder = $3`

	// No holder acquires the lease until the value is committed.
	sqlPutState = `INSERT INTO small_states (key, value)
		SELECT $4, $5 FROM leases WHERE name = $1 AND token = $2 AND holder = $3 {for update}
		ON CONFLICT (key) DO UPDATE SET value = excluded.value`
	sqlState = `SELECT value FROM small_states WHERE key = $1`

	sqlPutNode = `INSERT INTO nodes (id, name, note, seen) VALUES ($1, $2, $3, {now})
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, note = excluded.note, seen = excluded.seen`
	sqlNodes      = `SELECT id, name, note, {now} - seen FROM nodes ORDER BY id`
	sqlRemoveNode = `DELETE FROM nodes WHERE id = $1`
)

// Acquire implements [store.Leases].
func (r *Rows) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	l := store.Lease{Name: name, Holder: holder}
	var expires int64
	err := r.engine.Change(ctx, "acquire", store.ErrHeld, r.SQL(sqlAcquire), []any{name, holder, ttl.Milliseconds()},
		&l.Token, &expires)
	if err != nil {
		return store.Lease{}, err
	}
	l.Expires = moment(expires)
	return l, nil
}

// Release implements [store.Leases].
func (r *Rows) Release(ctx context.Context, l store.Lease) error {
	return r.change(ctx, "release", nil, sqlRelease, l.Name, l.Token, l.Holder)
}

// PutState implements [store.States].
func (r *Rows) PutState(ctx context.Context, key string, value []byte, lease store.Lease) error {
	if len(value) > store.MaxValue {
		return store.ErrTooLarge
	}
	return r.change(ctx, "put state", store.ErrFenced, sqlPutState, lease.Name, lease.Token, lease.Holder,
		key, Blob(value))
}

// State implements [store.States].
func (r *Rows) State(ctx context.Context, key string) ([]byte, error) {
	return One(ctx, r, "state", ScanValue[[]byte], sqlState, key)
}

// PutNode implements [store.Nodes].
func (r *Rows) PutNode(ctx context.Context, n store.Node) error {
	return r.change(ctx, "put node", nil, sqlPutNode, n.ID, n.Name, Blob(n.Note))
}

// Nodes implements [store.Nodes].
func (r *Rows) Nodes(ctx context.Context) ([]store.Node, error) {
	return All(ctx, r, "nodes", scanNode, sqlNodes)
}

// RemoveNode implements [store.Nodes].
func (r *Rows) RemoveNode(ctx context.Context, id string) error {
	return r.change(ctx, "remove node", nil, sqlRemoveNode, id)
}
