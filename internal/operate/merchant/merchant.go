// Package merchant shows and changes the merchants of a server. Use a [Registry]: [Registry.List] and [Registry.Get]
// show merchants, [Registry.Put] adds or changes one, [Registry.Remove] removes one. [Registry.Disable] and
// [Registry.Enable] say whether the server serves a merchant, wherever its settings are.
//
// Merchants come from the configuration file or from the store. A merchant of the file wins over one of the store with
// the same name, and cannot be changed here. Nodes use a change within a second. A caller changes the version of an
// [Entry] that it has read. If the entry has changed since, the caller gets [ErrChanged], so no change is lost.
package merchant

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// These are in the errors of a Registry, for use with errors.Is.
var (
	ErrNotFound = errors.New("there is no such merchant")
	ErrExists   = errors.New("there is such a merchant already")
	ErrInFile   = errors.New("the merchant is in the configuration file, which wins: change it there")
	ErrChanged  = errors.New("the merchant was changed meanwhile: read it again")
	ErrNoRow    = errors.New("the merchant has only API keys, and no settings to remove: revoke the keys")
	ErrRefused  = errors.New("the seal of the merchant's row does not open: remove it, and add it again")
	ErrDisabled = errors.New("the merchant is disabled already")
	ErrEnabled  = errors.New("the merchant is not disabled")
)

// A Source says where a merchant comes from.
type Source string

// The sources.
const (
	File    Source = "file"
	Store   Source = "store"
	Keys    Source = "keys"    // it has API keys, and no settings
	Removed Source = "removed" // it has neither, and is disabled still
)

// An Entry is a merchant as a Registry shows it.
type Entry struct {
	account.Merchant
	Source Source `json:"source"`

	// Version is another one after each change. Put and Remove take it back. It is empty for a merchant of the file.
	Version string `json:"version,omitzero"`

	// IsRefused says that the seal of the merchant's row does not open: only the name is there, and it is not used.
	IsRefused bool `json:"refused,omitzero"`

	// IsHidden says that the store has a merchant with the same name, too, which is not used.
	IsHidden bool `json:"hidden,omitzero"`

	// Disabled says that the merchant's requests are refused, and why. It is nil for a merchant that is served. It is
	// empty if its row in the store is not as it was sealed: the merchant is disabled all the same.
	Disabled *account.Disabling `json:"disabled,omitzero"`

	row store.Merchant
}

// Rows are what a Registry needs of a store: merchants, which of them are disabled, and API keys, which name their
// merchants.
type Rows interface {
	store.Merchants
	AddObject(ctx context.Context, o store.Object) error
	ChangeObject(ctx context.Context, o store.Object, was []byte) error
	Objects(ctx context.Context, kind string) ([]store.Object, error)
	RemoveObject(ctx context.Context, kind, id string) error
	Keys(ctx context.Context) ([]store.Key, error)
}

// A Registry has the merchants of a configuration and of a store. Many goroutines may use it.
type Registry struct {
	Store Rows
	Ring  account.Ring // has the secrets that rows are sealed under

	// InFile are the merchants of the configuration.
	InFile []account.Merchant

	// Schemes are the words of the directories. per_directory may have them in addition to the well-known words.
	Schemes []string

	// CheckProfile returns a merchant as it is stored, with values in their usual form, or an error with all that is wrong
	// with it. The media type of the logo is found, not taken. schemes are those of the registry.
	CheckProfile func(m account.Merchant, schemes []string) (account.Merchant, error)
}

// List returns all merchants in the order of their names, those too that have API keys alone or are only disabled.
func (r *Registry) List(ctx context.Context) ([]Entry, error) {
	rows, err := r.Store.Merchants(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Entry, 0, len(r.InFile)+len(rows))
	for _, m := range r.InFile {
		isHiding := slices.ContainsFunc(rows, func(row store.Merchant) bool { return row.Name == m.Name })
		all = append(all, Entry{Merchant: m, Source: File, IsHidden: isHiding})
	}
	for _, row := range rows {
		if !r.isInFile(row.Name) {
			all = append(all, r.open(row))
		}
	}
	keys, err := r.Store.Keys(ctx)
	if err != nil {
		return nil, err
	}
	disabled, err := r.Store.Objects(ctx, store.DisabledObjects)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for i := range all {
		known[all[i].Name] = true
	}
	addUnknown := func(name string, from Source) {
		if !known[name] {
			known[name] = true
			all = append(all, Entry{Merchant: account.Merchant{Name: name}, Source: from})
		}
	}
	for _, k := range keys {
		addUnknown(k.Merchant, Keys)
	}
	reasons := map[string]*account.Disabling{}
	for i := range disabled {
		addUnknown(disabled[i].ID, Removed)
		why, _ := account.OpenDisabling(r.Ring, &disabled[i]) // one that does not open counts, without its reason
		reasons[disabled[i].ID] = &why
	}
	for i := range all {
		all[i].Disabled = reasons[all[i].Name]
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// CheckKnown returns an error with ErrNotFound in it, and with the name that was perhaps meant, if no merchant of a
// scope has the name. Nothing outside the scope makes a difference.
func (r *Registry) CheckKnown(ctx context.Context, scope journal.Scope, name string) error {
	all, err := r.List(ctx)
	if err != nil {
		return err
	}
	var names []string
	for i := range all {
		switch {
		case !scope.Has(all[i].Name):
		case all[i].Name == name:
			return nil
		default:
			names = append(names, all[i].Name)
		}
	}
	return fmt.Errorf("%w%s", ErrNotFound, hint.For(name, names...))
}

// Members returns the merchants of a group. A merchant is of the group that its settings in use say: those of the file
// win. One whose row in the store is not as it was sealed is of none.
func (r *Registry) Members(ctx context.Context, group string) (names []string, err error) {
	if group == "" {
		return nil, nil
	}
	rows, err := r.Store.Merchants(ctx)
	if err != nil {
		return nil, err
	}
	for i := range r.InFile {
		if r.InFile[i].Group == group {
			names = append(names, r.InFile[i].Name)
		}
	}
	for i := range rows {
		if r.isInFile(rows[i].Name) {
			continue
		}
		if m, err := account.OpenMerchant(r.Ring, &rows[i]); err == nil && m.Group == group {
			names = append(names, m.Name)
		}
	}
	return names, nil
}

func (r *Registry) isInFile(name string) bool {
	return slices.ContainsFunc(r.InFile, func(m account.Merchant) bool { return m.Name == name })
}

// open returns what is in a row.
func (r *Registry) open(row store.Merchant) Entry {
	e := Entry{Source: Store, row: row, Merchant: account.Merchant{Name: row.Name}}
	m, err := account.OpenMerchant(r.Ring, &row)
	if err != nil {
		e.IsRefused, e.Version = true, versionOf(row.Data)
		return e
	}
	e.Merchant = *m
	plain, err := json.Marshal(m)
	if err != nil {
		panic("merchant: " + err.Error()) // texts and bytes can always be written
	}
	e.Version = versionOf(plain) // a row that is sealed again has the same version
	return e
}

// versionOf returns a short digest.
func versionOf(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:8])
}

// Get returns one merchant, or an error with ErrNotFound in it.
func (r *Registry) Get(ctx context.Context, name string) (Entry, error) {
	all, err := r.List(ctx)
	if err != nil {
		return Entry{}, err
	}
	i := slices.IndexFunc(all, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return Entry{}, ErrNotFound
	}
	return all[i], nil
}

// Check returns the merchant as it is stored, with values in their usual form, or an error with all
// that is wrong with it.
func (r *Registry) Check(m account.Merchant) (account.Merchant, error) {
	return r.CheckProfile(m, r.Schemes)
}

// Put stores a merchant. version is that of the Entry that was changed, or empty to add one that is not there. The
// error is that of Check if values are wrong, or has ErrInFile, ErrExists, ErrNotFound, ErrRefused or ErrChanged in it.
func (r *Registry) Put(ctx context.Context, m account.Merchant, version string) (Entry, error) {
	m, err := r.Check(m)
	if err != nil {
		return Entry{}, err
	}
	row, err := account.NewMerchantRow(r.Ring, &m)
	if err != nil {
		return Entry{}, err
	}
	if version == "" {
		err = r.add(ctx, row)
	} else {
		err = r.change(ctx, m.Name, version, func(was Entry) error {
			if was.IsRefused {
				return ErrRefused
			}
			return r.Store.ChangeMerchant(ctx, m.Name, was.row.Data, row.Data)
		})
	}
	if err != nil {
		return Entry{}, err
	}
	return r.open(row), nil
}

func (r *Registry) add(ctx context.Context, row store.Merchant) error {
	if r.isInFile(row.Name) {
		return ErrInFile
	}
	err := r.Store.AddMerchant(ctx, row)
	if errors.Is(err, store.ErrExists) {
		return ErrExists
	}
	return err
}

// A Change is one of several changes: the merchant as it is to be, and the entry that it takes the place of. Was is the
// zero Entry for a new merchant.
type Change struct {
	Merchant account.Merchant
	Was      Entry
}

// PutAll makes all changes, or none of them. Every merchant has been through Check. The error has ErrChanged in it if a
// merchant is not as it was.
func (r *Registry) PutAll(ctx context.Context, changes []Change) error {
	archive, ok := r.Store.(store.Archive)
	if !ok {
		return errors.New("merchant: the store changes no merchants together")
	}
	return archive.ChangeRows(ctx, func(tx store.RowTx) error {
		rows := map[string][]byte{}
		err := tx.Each(ctx, store.MerchantRows, func(row store.Row) error {
			rows[row.Text["name"]] = row.Bytes["data"]
			return nil
		})
		if err != nil {
			return err
		}
		for i := range changes {
			c := &changes[i]
			data, isThere := rows[c.Merchant.Name]
			if isThere && r.open(store.Merchant{Name: c.Merchant.Name, Data: data}).Version != c.Was.Version ||
				!isThere && c.Was.Version != "" {
				return fmt.Errorf("merchant %q: %w", c.Merchant.Name, ErrChanged)
			}
			row, err := account.NewMerchantRow(r.Ring, &c.Merchant)
			if err != nil {
				return err
			}
			rows[row.Name] = row.Data
		}
		if err := tx.Clear(ctx, store.MerchantRows); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			row := store.NewRow(store.MerchantRows)
			row.Text["name"], row.Bytes["data"] = name, rows[name]
			if err := tx.Add(ctx, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// IsChange reports whether a merchant, which has been through Check, differs from an entry.
func (e *Entry) IsChange(m *account.Merchant) bool {
	plain, err := json.Marshal(m)
	return err != nil || versionOf(plain) != e.Version
}

// Remove removes a merchant of the store. version is that of the Entry that was shown. The API keys of the merchant
// stay good.
func (r *Registry) Remove(ctx context.Context, name, version string) error {
	return r.change(ctx, name, version, func(was Entry) error {
		return r.Store.RemoveMerchant(ctx, name, was.row.Data)
	})
}

// Disable disables a merchant: its requests are refused on all nodes within a second. The error has ErrDisabled in it
// if it is disabled already. What is of no group takes the place of what a group has begun. The caller checks that
// there is such a merchant.
func (r *Registry) Disable(ctx context.Context, name string, why account.Disabling) error {
	row := account.NewDisabledObject(r.Ring, name, why)
	err := r.Store.AddObject(ctx, row)
	if !errors.Is(err, store.ErrExists) {
		return err
	}
	rows, err := r.Store.Objects(ctx, store.DisabledObjects)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(rows, func(o store.Object) bool { return o.ID == name })
	if i < 0 || why.Group != "" {
		return ErrDisabled
	}
	if was, err := account.OpenDisabling(r.Ring, &rows[i]); err != nil || was.Group == "" {
		return ErrDisabled
	}
	err = r.Store.ChangeObject(ctx, row, rows[i].Data)
	if errors.Is(err, store.ErrNotFound) {
		return ErrDisabled
	}
	return err
}

// Enable ends what Disable has begun. The error has ErrEnabled in it if the merchant is not disabled.
func (r *Registry) Enable(ctx context.Context, name string) error {
	err := r.Store.RemoveObject(ctx, store.DisabledObjects, name)
	if errors.Is(err, store.ErrNotFound) {
		return ErrEnabled
	}
	return err
}

// maxTries is how often a change is tried while others reseal the row.
const maxTries = 5

// change calls do with the merchant as it is, if it has this version.
func (r *Registry) change(ctx context.Context, name, version string, do func(Entry) error) error {
	for range maxTries {
		was, err := r.Get(ctx, name)
		switch {
		case err != nil:
			return err
		case was.Source == File:
			return ErrInFile
		case was.Source == Keys, was.Source == Removed:
			return ErrNoRow
		case was.Version != version:
			return ErrChanged
		}
		if err := do(was); !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return ErrChanged
}
