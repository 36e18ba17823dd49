package account

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// A MerchantStore is where a KeyCache finds merchants that are not in the configuration.
type MerchantStore interface {
	Merchants(ctx context.Context) ([]store.Merchant, error)
	ChangeMerchant(ctx context.Context, name string, was, data []byte) error
}

// NewMerchantRow returns the row that is stored of a merchant.
func NewMerchantRow(ring Ring, m *Merchant) (store.Merchant, error) {
	row := store.Merchant{Name: m.Name}
	plain, err := json.Marshal(m)
	if err != nil {
		return row, fmt.Errorf("account: merchant %q: %w", m.Name, err)
	}
	row.Data = ring.Seal(row.SealName(), plain)
	return row, nil
}

// OpenMerchant returns the merchant of a row that is as [NewMerchantRow] made it. Any other row does not count: it was
// changed, or the secret that it was sealed under has left the ring.
func OpenMerchant(ring Ring, row *store.Merchant) (*Merchant, error) {
	plain, err := ring.Open(row.SealName(), row.Data)
	if err != nil {
		return nil, fmt.Errorf("account: merchant %q: %w", row.Name, err)
	}
	m := new(Merchant)
	if err := json.Unmarshal(plain, m); err != nil {
		return nil, fmt.Errorf("account: merchant %q: %w", row.Name, err)
	}
	m.Name = row.Name
	return m, nil
}

// A storedMerchant is a row of the store and the merchant in it, which is nil if the row is refused.
type storedMerchant struct {
	row      store.Merchant
	merchant *Merchant
}

// A Disabling says since when and why a merchant is disabled. It is sealed into the object of the merchant. The object
// counts by being there, whether it opens or not: a merchant that was disabled stays so even if the key file has lost
// the secret.
type Disabling struct {
	Since  time.Time `json:"since,omitzero"` // to a second
	Reason string    `json:"reason,omitzero"`
	By     string    `json:"by,omitzero"` // who has disabled it, as the audit trail says
	// Group is that of who has disabled it. People of the group may enable it again, and no others of a group.
	Group string `json:"group,omitzero"`
}

// NewDisabledObject returns the object that is stored of a disabled merchant.
func NewDisabledObject(ring Ring, merchant string, d Disabling) store.Object {
	o := store.Object{Kind: store.DisabledObjects, ID: merchant}
	plain, err := json.Marshal(d)
	if err != nil {
		panic("account: " + err.Error()) // a text and a time of this age can always be written
	}
	o.Data = ring.Seal(o.Name(), plain)
	return o
}

// OpenDisabling returns what NewDisabledObject has sealed into an object.
func OpenDisabling(ring Ring, o *store.Object) (d Disabling, err error) {
	plain, err := ring.Open(o.Name(), o.Data)
	if err == nil {
		err = json.Unmarshal(plain, &d)
	}
	if err != nil {
		return Disabling{}, fmt.Errorf("account: disabled merchant %q: %w", o.ID, err)
	}
	return d, nil
}

// withMerchants returns a snapshot with these merchants of the store, and these that are disabled. Rows that are in s
// are not opened again.
func (s *snapshot) withMerchants(rows []store.Merchant, disabled []store.Object) *snapshot {
	stored := make(map[string]storedMerchant, len(rows))
	for _, row := range rows {
		known, ok := s.stored[row.Name]
		if !ok || !bytes.Equal(known.row.Data, row.Data) {
			known = newStoredMerchant(s.ring, row)
		}
		stored[row.Name] = known
	}
	next := *s
	next.stored = stored
	next.disabled = make(map[string]bool, len(disabled))
	for _, o := range disabled {
		next.disabled[o.ID] = true
	}
	next.good = maps.Clone(s.good)
	for hash, cached := range next.good {
		if cached.account.Merchant != next.merchantOf(cached.row.Merchant) ||
			cached.account.IsDisabled != next.disabled[cached.row.Merchant] {
			cached.account = next.account(&cached.row, cached.account.Terms)
			next.good[hash] = cached
		}
	}
	return &next
}

func newStoredMerchant(ring Ring, row store.Merchant) storedMerchant {
	merchant, err := OpenMerchant(ring, &row)
	if err != nil {
		return storedMerchant{row: row}
	}
	return storedMerchant{row: row, merchant: merchant}
}

// reopenMerchants returns the same rows of merchants, opened with another ring. A row that opened before and does not
// open now is kept as it was: it may have been resealed in the store, and must be read again.
func (s *snapshot) reopenMerchants(ring Ring) map[string]storedMerchant {
	next := make(map[string]storedMerchant, len(s.stored))
	for name, known := range s.stored {
		opened := newStoredMerchant(ring, known.row)
		if opened.merchant == nil && known.merchant != nil {
			opened.merchant, opened.row.Data = known.merchant, nil
		}
		next[name] = opened
	}
	return next
}

// merchantOf returns the settings of the merchant with a name: those of the configuration, or else those of the
// store, or nil.
func (s *snapshot) merchantOf(name string) *Merchant {
	if m := s.merchants[name]; m != nil {
		return m
	}
	return s.stored[name].merchant
}

// logRefusedMerchants logs the rows of merchants that are refused now and were not in former.
func (c *KeyCache) logRefusedMerchants(former, next *snapshot) {
	logged := 0
	for name, known := range next.stored {
		before, ok := former.stored[name]
		isNew := !ok || !bytes.Equal(before.row.Data, known.row.Data)
		if known.merchant == nil && isNew && logged < maxLogged {
			logged++
			c.log.Warn("merchant refused: the seal of its row does not open, its settings are not used", "merchant", name)
		}
	}
}

// resealMerchants reseals the rows of merchants that are sealed under a previous secret, and returns how many there
// were. A row that was changed or removed meanwhile is left as it is.
func resealMerchants(
	ctx context.Context, merchants MerchantStore, ring Ring, rows []store.Merchant,
) (previous int, err error) {
	for _, row := range rows {
		if !ring.IsSealedByPrevious(row.Data) {
			continue
		}
		plain, err := ring.Open(row.SealName(), row.Data)
		if err != nil {
			continue // A row that does not open is refused where merchants are read.
		}
		previous++
		err = merchants.ChangeMerchant(ctx, row.Name, row.Data, ring.Seal(row.SealName(), plain))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return previous, fmt.Errorf("account: reseal merchant %q: %w", row.Name, err)
		}
	}
	return previous, nil
}
