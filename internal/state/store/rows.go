package store

import (
	"context"
	"errors"
)

// The kinds of rows that a backup holds. Transactions and leases are none of them.
const (
	KeyRows      = "key"        // API keys
	RevokedRows  = "revokedKey" // API keys that were revoked
	EndpointRows = "endpoint"   // webhook endpoints
	MerchantRows = "merchant"   // merchants that operators have put into the store
	ObjectRows   = "object"     // operators, tokens, client certificates, and which merchants are disabled
	AuditRows    = "audit"      // the audit trail
	StateRows    = "state"      // small values: RotationState, and those whose key begins with RangeStates or UseStates
	RangeRows    = "ranges"     // snapshots, each followed by its ChunkRows
	ChunkRows    = "chunk"      // content of the snapshot that came before it
)

// The keys of the small values that a backup holds begin with these. All other small values are about what is going on
// at the moment.
const (
	RangeStates = "ranges/"    // about card ranges
	UseStates   = "keys/uses/" // when API keys were last used
)

// RotationState is the key of the small value that has the rotations of the key file. A backup holds it too. The
// secrets in it are sealed, each under the one before.
const RotationState = "key rotation"

// ErrUnknownRow is in the error of Add of a [RowTx] for a row that this release cannot keep.
var ErrUnknownRow = errors.New("this release does not know it")

// A Row is one row of a backup, in a form that all stores share. Its values are named like the columns of the tables,
// which have the same names in both stores. A column without a value is in none of the maps, and a boolean is the
// number 0 or 1.
type Row struct {
	Kind   string            `json:"type"`
	Text   map[string]string `json:"text,omitempty"`
	Number map[string]int64  `json:"number,omitempty"`
	Bytes  map[string][]byte `json:"bytes,omitempty"`
}

// NewRow returns a row without values.
func NewRow(kind string) Row {
	return Row{Kind: kind, Text: map[string]string{}, Number: map[string]int64{}, Bytes: map[string][]byte{}}
}

// Set sets the value of a column. It reports whether a backup can hold a value of its type.
func (r *Row) Set(column string, value any) bool {
	switch v := value.(type) {
	case nil:
	case string:
		r.Text[column] = v
	case int64:
		r.Number[column] = v
	case bool:
		r.Number[column] = 0
		if v {
			r.Number[column] = 1
		}
	case []byte:
		r.Bytes[column] = v
	default:
		return false
	}
	return true
}

// A RowTx reads and changes rows in one transaction. One goroutine uses it at a time.
type RowTx interface {
	// Each calls do with every row of a kind, as Add accepts them. It returns an error
	// of do as it is. ChunkRows come with their RangeRows, not by themselves.
	Each(ctx context.Context, kind string, do func(Row) error) error

	// Clear removes all rows of a kind. Those of RangeRows take their ChunkRows along.
	Clear(ctx context.Context, kind string) error

	// Add adds a row. A ChunkRows row belongs to the RangeRows row that was added last.
	// The error has ErrUnknownRow in it if the kind or a column is unknown.
	Add(ctx context.Context, row Row) error
}

// An Archive gives access to whole rows, for backups. Both stores on disk are one.
type Archive interface {
	// ViewRows calls do with a transaction that sees the store as it is at one moment, and cannot change anything.
	ViewRows(ctx context.Context, do func(RowTx) error) error

	// ChangeRows calls do with a transaction, and commits it if do returns nil. If do returns an error, nothing is
	// changed. Other writes wait meanwhile, or fail.
	ChangeRows(ctx context.Context, do func(RowTx) error) error
}
