package idempotency_test

import (
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/idempotency"
)

// TestO21KeyOfAnotherSecretIsUnreadable: once the secret that sealed a row has left the key file, until its time is
// over, the key gives no answer and may not be used, whether its request was answered or is in work.
func TestO21KeyOfAnotherSecretIsUnreadable(t *testing.T) {
	w := newWorld(t)
	w.finish(w.claimKey(order(), 0, nil), 201)
	other := order()
	other.Key = "order-18"
	w.claimKey(other, 0, nil)
	w.Sealer = newRing(t)
	for range 2 {
		w.claimKey(order(), 0, idempotency.ErrUnreadable)
		w.claimKey(other, 0, idempotency.ErrUnreadable)
	}
	w.now = w.now.Add(26 * time.Hour)
	if _, err := w.db.Sweep(t.Context(), w.now); err != nil {
		t.Fatal(err)
	}
	w.claimKey(order(), 0, nil)
}
