package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/store"
)

// maxGenerations is how many generations of a scheme the store keeps.
const maxGenerations = 3

// OpenGeneration reads a stored generation of a scheme. It returns an error if it is corrupt.
func OpenGeneration(ctx context.Context, k Keeper, scheme string, number int64) (*ranges.Generation, error) {
	r, err := k.OpenSnapshot(ctx, scheme, number)
	if err != nil {
		return nil, fmt.Errorf("directory: generation %d of %s: %w", number, scheme, err)
	}
	defer r.Close()
	g, err := ranges.ReadGeneration(r)
	if err != nil {
		return nil, fmt.Errorf("directory: generation %d of %s: %w", number, scheme, err)
	}
	return g, nil
}

// HeldName stands for the generation that is held back, where a number of one is expected.
const HeldName = "held"

// IsGenerationName reports whether a text names a generation: it is a number of one, 0 for none, or [HeldName].
func IsGenerationName(text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return text == HeldName || err == nil && n >= 0
}

// OpenNamed reads the generation of a scheme with a name, see [IsGenerationName]. The one that is held back has the
// number held. The error is [store.ErrNotFound] if there is no such generation.
func OpenNamed(ctx context.Context, k Keeper, scheme, name string, held int64) (*ranges.Generation, error) {
	number, err := strconv.ParseInt(name, 10, 64)
	switch {
	case name == HeldName && held != 0:
		return OpenGeneration(ctx, k, heldScheme(scheme), held)
	case err != nil || number < 0:
		return nil, store.ErrNotFound
	case number == 0:
		return &ranges.Generation{}, nil
	}
	return OpenGeneration(ctx, k, scheme, number)
}

// sourceAddress returns the address that a stored generation came from. Ok is false if its note does not say.
func sourceAddress(s store.Snapshot) (from string, ok bool) {
	var note struct{ From *string }
	if json.Unmarshal(s.Note, &note) != nil || note.From == nil {
		return "", false
	}
	return *note.From, true
}

// storeGeneration stores a generation under the next number and returns it.
func storeGeneration(ctx context.Context, k Keeper, scheme string, g *ranges.Generation, lease store.Lease,
	keep int) (int64, error) {
	all, err := k.Snapshots(ctx, scheme)
	if err != nil {
		return 0, fmt.Errorf("directory: generations of %s: %w", scheme, err)
	}
	number := int64(1)
	if len(all) > 0 {
		number = all[0].Generation + 1
	}
	note, err := json.Marshal(map[string]any{
		"serial": g.Serial, "ranges": g.Len(), "version": g.Version.String(), "loaded": g.Loaded, "from": g.From,
	})
	if err != nil {
		return 0, err
	}
	r, w := io.Pipe()
	go func() {
		_, err := g.WriteTo(w)
		w.CloseWithError(err)
	}()
	defer r.Close()
	s := store.Snapshot{Scheme: scheme, Generation: number, Created: g.Loaded, Note: note}
	if err := k.PutSnapshot(ctx, s, lease, r, keep); err != nil {
		return 0, fmt.Errorf("directory: generation %d of %s: %w", number, scheme, err)
	}
	return number, nil
}

// Import stores a generation that does not come from a PRes to this system, and returns its number. The nodes that
// serve load it. It returns [store.ErrHeld] while one of them sends a PReq.
func Import(ctx context.Context, k Keeper, scheme, holder string, g *ranges.Generation) (int64, error) {
	lease, err := k.Acquire(ctx, statusKey(scheme), holder, defaultLeaseTime)
	if err != nil {
		return 0, fmt.Errorf("directory: import: %w", err)
	}
	stop := renewLease(ctx, k, lease, defaultLeaseTime, func(error) {}) // if the lease is lost, the writes below fail
	number, err := importWithLease(ctx, k, lease, scheme, g)
	stop()
	return number, errors.Join(err, k.Release(context.WithoutCancel(ctx), lease))
}

func importWithLease(ctx context.Context, k Keeper, lease store.Lease, scheme string,
	g *ranges.Generation) (int64, error) {
	status, err := ReadRefreshStatus(ctx, k, scheme)
	if err != nil {
		return 0, err
	}
	g.Scheme, g.Loaded = scheme, time.Now().UTC()
	number, err := storeGeneration(ctx, k, scheme, g, lease, maxGenerations)
	if err != nil {
		return 0, err
	}
	status.Generation = number
	status.markCurrent(g)
	value, err := json.Marshal(status)
	if err != nil {
		return 0, err
	}
	return number, k.PutState(ctx, statusKey(scheme), value, lease)
}
