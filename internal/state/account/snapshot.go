package account

import (
	"bytes"
	"maps"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// A snapshot is what a KeyCache knows at one moment. It is never changed, but for its reseals.
type snapshot struct {
	ring      Ring
	merchants map[string]*Merchant // those of the configuration, by name

	stored   map[string]storedMerchant // those of the store, by name
	disabled map[string]bool           // those that are disabled, by name

	good    map[string]cachedKey // by the hash of the key
	refused map[string]store.Key // rows with a seal that ring does not open, by the hash of the key
	reseals *resealQueue         // the good rows that are sealed under the previous secret

	hasRead bool      // all rows were read since ring was set
	mark    string    // the store's mark of the rows; empty if they have to be read again
	readAt  time.Time // when the last reading of all rows began
}

// A cachedKey is a row whose seal opens, and the account that it stands for.
type cachedKey struct {
	row     store.Key
	plain   []byte // what is sealed into the row: its terms
	account *Account
}

// canJudge reports whether anything can be said of keys: no row is refused, or some row is good.
func (s *snapshot) canJudge() bool { return len(s.good) > 0 || len(s.refused) == 0 }

// isRefused reports whether this very row is known to be refused.
func (s *snapshot) isRefused(row *store.Key) bool {
	refused, ok := s.refused[string(row.Hash)]
	return ok && isSameRow(&refused, row)
}

// account returns the account that a row with some terms stands for.
func (s *snapshot) account(row *store.Key, terms Terms) *Account {
	merchant := s.merchantOf(row.Merchant)
	if merchant == nil {
		merchant = &Merchant{Name: row.Merchant}
	}
	return &Account{
		Merchant: merchant, KeyID: KeyID(row.Hash)[:6], Strict: row.Strict, Terms: terms,
		IsDisabled: s.disabled[row.Merchant],
	}
}

// judgedBy returns a snapshot with other merchants, and the same rows judged by another ring.
// A good row whose seal no longer opens is left out and not refused: it may have been resealed in the store, and must
// be read again.
func (s *snapshot) judgedBy(ring Ring, merchants map[string]*Merchant) *snapshot {
	next := newSnapshot(ring, merchants, s.reopenMerchants(ring), s.disabled, len(s.good))
	next.readAt = s.readAt
	for hash, cached := range s.good {
		next.addRow(&cached.row)
		delete(next.refused, hash)
	}
	for _, row := range s.refused {
		next.addRow(&row)
	}
	next.finish()
	return next
}

// withRows returns a snapshot of the rows of the store. Rows that are in s are not judged again.
func (s *snapshot) withRows(rows []store.Key) *snapshot {
	next := newSnapshot(s.ring, s.merchants, s.stored, s.disabled, len(rows))
	for i := range rows {
		row := &rows[i]
		cached, isGood := s.good[string(row.Hash)]
		switch {
		case isGood && isSameRow(&cached.row, row):
			next.good[string(row.Hash)] = cached
		case s.isRefused(row):
			next.refused[string(row.Hash)] = *row
		default:
			next.addRow(row)
		}
	}
	next.finish()
	next.hasRead = true
	return next
}

// withRefused returns a snapshot that refuses one more row. The rows are to be read again.
func (s *snapshot) withRefused(row store.Key) *snapshot {
	next := *s
	next.refused = maps.Clone(s.refused)
	next.refused[string(row.Hash)] = row
	next.mark = ""
	return &next
}

func newSnapshot(
	ring Ring, merchants map[string]*Merchant, stored map[string]storedMerchant, disabled map[string]bool, rows int,
) *snapshot {
	return &snapshot{
		ring: ring, merchants: merchants, stored: stored, disabled: disabled,
		good: make(map[string]cachedKey, rows), refused: make(map[string]store.Key),
	}
}

// addRow adds a row to a snapshot that is being made, as good or as refused.
func (s *snapshot) addRow(row *store.Key) {
	if plain, terms, err := openRow(s.ring, row); err == nil {
		s.good[string(row.Hash)] = cachedKey{*row, plain, s.account(row, terms)}
	} else {
		s.refused[string(row.Hash)] = *row
	}
}

// finish completes a snapshot that has all its rows.
func (s *snapshot) finish() {
	s.reseals = new(resealQueue)
	for _, cached := range s.good {
		if s.ring.IsSealedByPrevious(cached.row.Seal) {
			s.reseals.rows = append(s.reseals.rows, cached)
		}
	}
}

// isSameRow reports whether nothing of a row has changed.
func isSameRow(a, b *store.Key) bool {
	return a.Merchant == b.Merchant && a.Strict == b.Strict && a.Created.Equal(b.Created) &&
		bytes.Equal(a.Hash, b.Hash) && bytes.Equal(a.Seal, b.Seal)
}
