package store

import "context"

// A Merchant is the profile of a merchant that operators have put into a store.
type Merchant struct {
	Name string // unique
	Data []byte // opaque, sealed by the caller under SealName
}

// SealName is what Data is sealed under. It is the name of no key and of no transaction.
func (m *Merchant) SealName() string { return string(appendParts([]byte("merchant "), m.Name)) }

// Merchants keep the profiles of merchants. Any change of a merchant also changes the mark of KeysUnless, so nodes that
// follow the keys read the merchants again.
type Merchants interface {
	// AddMerchant adds a merchant. It returns ErrExists, and changes nothing, if the name is taken.
	AddMerchant(ctx context.Context, m Merchant) error

	// ChangeMerchant replaces the Data of the merchant that has this name, if the Data is still was. It returns
	// ErrNotFound, and changes nothing, if there is no such merchant, or if its Data is not was.
	ChangeMerchant(ctx context.Context, name string, was, data []byte) error

	// Merchants returns all merchants in the order of their names, byte by byte.
	Merchants(ctx context.Context) ([]Merchant, error)

	// RemoveMerchant removes the merchant that has this name, if its Data is still was. It returns ErrNotFound, and
	// changes nothing, if there is no such merchant, or if its Data is not was.
	RemoveMerchant(ctx context.Context, name string, was []byte) error
}
