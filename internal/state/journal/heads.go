package journal

import (
	"context"
	"encoding/hex"
	"slices"
	"time"
)

// Head returns the newest seal that this process has seen. It is not ok before the process has looked.
func (j *Journal) Head() (Head, bool) {
	if h := j.newestHead.Load(); h != nil {
		return *h, true
	}
	return Head{}, false
}

// makeHead signs how far the journal has come, writes the newest seal to the log, and says what was changed in the
// store.
func (j *Journal) makeHead(ctx context.Context, now time.Time) error {
	var trail *ChainEnd
	if j.Trail != nil {
		trail = j.Trail(ctx)
	}
	h, err := j.Store.Head(ctx, now, trail)
	if err != nil {
		return err
	}
	was, _ := j.Head()
	j.newestHead.Store(&h)
	if h.N > 0 && was.N != h.N {
		j.Log.InfoContext(ctx, "journal head", "number", h.N, "hash", hex.EncodeToString(h.Hash),
			"at", h.At.UTC().Format(time.RFC3339))
	}
	for _, fault := range j.Store.Faults() {
		if !slices.Contains(j.toldFaults, fault) {
			j.toldFaults = append(j.toldFaults, fault)
			j.Log.ErrorContext(ctx, "journal changed in the store", "what", fault)
		}
	}
	return nil
}
