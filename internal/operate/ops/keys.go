package ops

import (
	"context"
	"encoding/hex"
	"net/netip"
	"slices"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// keyActs are the acts on API keys.
func keyActs() []Act {
	const object = "hash of the key"
	return []Act{
		{Name: "key list", Least: operator.Viewer, IsForOwn: true, IsForGroups: true, Doors: byOperators},
		{Name: "key create", Least: operator.Operator, IsForOwn: true, IsForGroups: true, Action: "key.create",
			Object: object, Doors: byOperators},
		{
			Name: "key revoke", Least: operator.Operator, IsForOwn: true, IsForGroups: true, Action: "key.revoke",
			Object: object, Doors: byOperators, Danger: "keys", Route: "DELETE keys/{hash}", Summary: "Revoke an API key",
			Do: func(a *Acts, ctx context.Context, by operator.Actor, hash string) (any, error) {
				return nil, a.revokeKey(ctx, by, hash)
			},
		},
	}
}

// The states of API keys. Of one that is refused the seal does not fit its row, so the rest of it cannot be trusted.
const (
	KeyGood    = "good"
	KeyExpired = "expired"
	KeyRefused = "refused"
)

// A Key is an API key as actors see it. The key itself is nowhere.
type Key struct {
	Hash     string         `json:"hash"`
	Label    string         `json:"label"`
	Merchant string         `json:"merchant"`
	Created  time.Time      `json:"created"`
	LastUsed *time.Time     `json:"lastUsed"` // to a minute; null: never
	Expires  *time.Time     `json:"expires"`  // null: never
	Allow    []netip.Prefix `json:"allow"`    // none: all networks
	Strict   bool           `json:"strict"`
	State    string         `json:"state"` // good, expired or refused
	SealedBy string         `json:"-"`     // the id of the secret in the key file that the row names
}

// Keys returns the API keys that the actor may see.
func (a *Acts) Keys(ctx context.Context, by operator.Actor) ([]Key, error) {
	if err := Find("key list").Check(&by); err != nil {
		return nil, err
	}
	rows, err := a.Store.Keys(ctx)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(k store.Key) bool { return !by.CanSee(k.Merchant) })
	uses, err := account.LastUses(ctx, a.Store, rows)
	if err != nil {
		return nil, err
	}
	all := []Key{}
	for i := range rows {
		terms, err := account.OpenTerms(a.Ring(), &rows[i])
		k := Key{
			hex.EncodeToString(rows[i].Hash), terms.Label, rows[i].Merchant, rows[i].Created, TimeOrNull(uses[i]),
			TimeOrNull(terms.Expires), append([]netip.Prefix{}, terms.Allow...), rows[i].Strict, KeyGood,
			keyring.IDOfSeal(rows[i].Seal),
		}
		switch {
		case err != nil:
			k.State = KeyRefused
		case terms.IsExpired(a.Now()):
			k.State = KeyExpired
		}
		all = append(all, k)
	}
	return all, nil
}

// MaxEndDays is the greatest number of days until something ends: a hundred years.
const MaxEndDays = 36525

// checkEnd refuses an end that has passed or is too far away. Zero means never.
func (a *Acts) checkEnd(end time.Time) error {
	if !end.IsZero() && (!end.After(a.Now()) || end.After(a.Now().AddDate(0, 0, MaxEndDays))) {
		return refuseMember("expires", "want a moment in the future, at most %d days away.", MaxEndDays)
	}
	return nil
}

// CreateKey makes an API key.
func (a *Acts) CreateKey(ctx context.Context, by operator.Actor, k api.NewKey) (api.MadeKey, error) {
	if err := Find("key create").Check(&by); err != nil {
		return api.MadeKey{}, err
	}
	var err error
	if k.Merchant, err = a.chooseMerchant(ctx, &by, k.Merchant); err != nil {
		return api.MadeKey{}, err
	}
	if k.Merchant == "" {
		return api.MadeKey{}, refuseMember("merchant", "say whose key it is.")
	}
	if err := account.CheckLabel(k.Label); err != nil {
		return api.MadeKey{}, refuseMember("label", "%v.", err)
	}
	if err := a.checkEnd(k.Expires); err != nil {
		return api.MadeKey{}, err
	}
	k.Expires = k.Expires.UTC().Truncate(time.Second)
	made := api.MadeKey{Merchant: k.Merchant}
	put := keyPutter(func(ctx context.Context, row store.Key) error {
		made.Hash = hex.EncodeToString(row.Hash)
		if err := a.Record(ctx, by, "key create", made.Hash, nil, k); err != nil {
			return err
		}
		return a.Store.PutKey(ctx, row)
	})
	terms := account.Terms{Label: k.Label, Expires: k.Expires, Allow: k.Allow}
	made.Key, err = account.Create(ctx, put, a.Ring(), k.Merchant, k.Strict, terms)
	return made, err
}

// A keyPutter stores the row of a new key.
type keyPutter func(ctx context.Context, row store.Key) error

// PutKey stores a row.
func (p keyPutter) PutKey(ctx context.Context, row store.Key) error { return p(ctx, row) }

var errNoKey = &Refusal{Missing, "", "There is no API key with this hash.", store.ErrNotFound}

func (a *Acts) revokeKey(ctx context.Context, by operator.Actor, hash string) error {
	if err := Find("key revoke").Check(&by); err != nil {
		return err
	}
	bits, err := hex.DecodeString(hash)
	if err != nil {
		return errNoKey
	}
	rows, err := a.Store.Keys(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(rows, func(k store.Key) bool { return string(k.Hash) == string(bits) && by.CanSee(k.Merchant) })
	if i < 0 {
		return errNoKey
	}
	hash = hex.EncodeToString(bits)
	// Who confirms or allows the act sees whose key it is.
	if err := a.checkDanger(&by, "key revoke", rows[i].Merchant+": "+hash); err != nil {
		return err
	}
	before := map[string]string{"merchant": rows[i].Merchant}
	if err := a.record(ctx, by, "key revoke", hash, before, nil); err != nil {
		return err
	}
	return translate(a.Store.RevokeKey(ctx, bits), errNoKey)
}
