package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/openthreeds/threeds/internal/state/store"
)

// A ResealStore is what Reseal needs of a store.
type ResealStore interface {
	Keys(ctx context.Context) ([]store.Key, error)
	ResealKey(ctx context.Context, hash, was, seal []byte) error
	MerchantStore
}

// maxResealRounds is how often Reseal looks for rows that others have made meanwhile.
const maxResealRounds = 10

// Reseal takes all rows of keys and merchants that are sealed under a previous secret of a ring, and seals them under
// the current one. Nodes may do the same at the same time. It returns how many rows are then sealed under the current
// secret, and how many are refused because no secret opens their seal. Merchants are not counted.
func Reseal(ctx context.Context, keys ResealStore, ring Ring) (sealed, refused int, err error) {
	for range maxResealRounds {
		rows, err := keys.Keys(ctx)
		if err != nil {
			return 0, 0, fmt.Errorf("account: reseal rows: %w", err)
		}
		merchants, err := keys.Merchants(ctx)
		if err != nil {
			return 0, 0, fmt.Errorf("account: reseal merchants: %w", err)
		}
		left, err := resealMerchants(ctx, keys, ring, merchants)
		if err != nil {
			return 0, 0, err
		}
		sealed, refused = 0, 0
		for _, row := range rows {
			plain, _, err := openRow(ring, &row)
			switch {
			case err != nil:
				refused++
				continue
			case !ring.IsSealedByPrevious(row.Seal):
				sealed++
				continue
			}
			left++
			err = keys.ResealKey(ctx, row.Hash, row.Seal, ring.Seal(row.Name(), plain))
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return 0, 0, fmt.Errorf("account: reseal rows: %w", err)
			}
		}
		if left == 0 {
			return sealed, refused, nil
		}
	}
	return 0, 0,
		errors.New("account: rows are sealed under a previous secret again and again: a node has not taken the new one up")
}
