package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// A Scope says whose records somebody may read. The zero value is nobody's. Make one with [All] or [Only].
type Scope struct {
	isAll     bool
	merchants []string // in order, each once
}

// All returns the scope of all merchants.
func All() Scope { return Scope{isAll: true} }

// Only returns the scope of these merchants, which may be none. The name "" is none of a merchant.
func Only(merchants ...string) Scope {
	all := slices.DeleteFunc(slices.Clone(merchants), func(name string) bool { return name == "" })
	slices.Sort(all)
	return Scope{merchants: slices.Compact(all)}
}

// Has reports whether the records of a merchant are in the scope.
func (s Scope) Has(merchant string) bool {
	_, isThere := slices.BinarySearch(s.merchants, merchant)
	return s.isAll || isThere
}

// Key returns a text that is the same for the same scope, and another one for any other.
func (s Scope) Key() string {
	if s.isAll {
		return "all"
	}
	sum := sha256.Sum256([]byte(strings.Join(s.merchants, "\x00")))
	return hex.EncodeToString(sum[:])
}

// narrow puts the scope into a query whose merchant and list of merchants it gets. It reports false if nothing of what
// the query asks for is in the scope.
func (s Scope) narrow(merchant *string, within *[]string) bool {
	switch {
	case s.isAll:
		return true
	case *merchant != "":
		return s.Has(*merchant)
	case len(s.merchants) == 1:
		*merchant = s.merchants[0]
	default:
		*within = s.merchants
	}
	return len(s.merchants) > 0
}

// A Reader reads a journal within a scope. It is how everything reads that answers a person or a token: what is outside
// the scope is not there for a Reader. A query of a Store has no scope, so that it cannot be forgotten in one.
type Reader struct {
	store Store
	scope Scope
}

// Within returns the reader of a store within a scope.
func Within(st Store, s Scope) *Reader { return &Reader{st, s} }

// Search is that of [Store].
func (r *Reader) Search(ctx context.Context, q Query) (Page, error) {
	if !r.scope.narrow(&q.Merchant, &q.within) {
		return Page{}, nil
	}
	return r.store.Search(ctx, q)
}

// Show is that of [Store]. A record outside the scope is as none: the newest refused request of the scope that named
// the id is returned, or ErrNotFound.
func (r *Reader) Show(ctx context.Context, id string) (Detail, error) {
	d, err := r.store.Show(ctx, id)
	if err != nil || r.scope.Has(d.Merchant) {
		return d, err
	}
	page, err := r.Search(ctx, Query{ID: id})
	if err != nil {
		return Detail{}, err
	}
	for i := range page.Records {
		named := &page.Records[i]
		if !named.IsBegun() && strings.EqualFold(named.NamedID, id) {
			if d, err = r.store.Show(ctx, named.ID); err == nil && r.scope.Has(d.Merchant) {
				return d, nil
			}
		}
	}
	return Detail{}, cmp.Or(err, ErrNotFound)
}

// Count is that of [Store].
func (r *Reader) Count(ctx context.Context, q CountQuery) ([]Rollup, error) {
	if !r.scope.narrow(&q.Merchant, &q.within) {
		return nil, nil
	}
	if q.By != "merchant" || len(q.within) == 0 {
		return r.store.Count(ctx, q)
	}
	q.within = nil // only the rollups of all merchants together have counts by merchant
	all, err := r.store.Count(ctx, q)
	return slices.DeleteFunc(all, func(c Rollup) bool { return !r.scope.Has(c.Value) }), err
}

// Flow is that of [Store].
func (r *Reader) Flow(ctx context.Context, q FlowQuery) ([]FlowCount, error) {
	if !r.scope.narrow(&q.Merchant, &q.within) {
		return nil, nil
	}
	return r.store.Flow(ctx, q)
}

// CountUnkept is that of [Store].
func (r *Reader) CountUnkept(ctx context.Context, q CountQuery) ([]UnkeptRule, error) {
	if !r.scope.narrow(&q.Merchant, &q.within) {
		return nil, nil
	}
	return r.store.CountUnkept(ctx, q)
}

// Billing is that of [Store].
func (r *Reader) Billing(ctx context.Context, q BillingQuery) ([]BillingCount, error) {
	if !r.scope.narrow(&q.Merchant, &q.within) {
		return []BillingCount{}, nil
	}
	return r.store.Billing(ctx, q)
}

// isNarrowed reports whether a query is of one merchant, or of those of a scope.
func isNarrowed(merchant string, within []string) bool { return merchant != "" || len(within) > 0 }

// ofMerchants returns the condition of rows of one merchant, or of those of a scope. The merchant "" is that of rows
// which count all of them.
func ofMerchants(merchant string, within []string) (condition string, args []any) {
	if len(within) == 0 {
		return "merchant = ?", []any{merchant}
	}
	for _, name := range within {
		args = append(args, name)
	}
	return "merchant IN (" + marks(len(within)) + ")", args
}
