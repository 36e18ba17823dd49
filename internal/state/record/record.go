// Package record puts what the engines keep about a transaction into its row in the store. Use [Seal] and [Open].
package record

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/openthreeds/threeds/internal/state/store"
)

// A Sealer encrypts what the store keeps, bound to the name of the transaction.
type Sealer = store.Sealer

// Seal puts what, in JSON and encrypted, into the data of t. The other fields of t must be
// final by then: the seal is bound to them, so Open fails if one of them was changed.
func Seal(s Sealer, t *store.Txn, what any) error {
	plain, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("record of %s: %w", t.ID, err)
	}
	t.Data = s.Seal(t.Name(), plain)
	return nil
}

// Open reads into what Seal was given. Its error is [ErrUnreadable].
func Open(s Sealer, t *store.Txn, into any) error {
	plain, err := s.Open(t.Name(), t.Data)
	if err == nil {
		err = json.Unmarshal(plain, into)
	}
	if err != nil {
		return fmt.Errorf("record of %s: %w", t.ID, unreadable{err})
	}
	return nil
}

// Moment returns a time as the store keeps it: UTC, in whole milliseconds.
func Moment(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
