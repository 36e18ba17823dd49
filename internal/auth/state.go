package auth

import (
	"errors"
	"fmt"
	"slices"

	"github.com/openthreeds/threeds/internal/store"
)

// The states of a transaction as the store keeps them. A claim is written
// before its AReq leaves and is the permission to send it once: "claimed" and
// "sent" are therefore one committed fact, and a crash between the two can
// only lose the AReq, never repeat it (invariant I5).
const (
	Sent      store.State = "sent"      // claimed; its one AReq may have left
	Challenge store.State = "challenge" // ARes C, D or S committed, no RReq yet
	Final     store.State = "final"     // ARes with any other status
	Failed    store.State = "failed"    // no usable ARes, or the DS gave it up with an Erro
	Result    store.State = "result"    // RReq committed
)

// Beside transactions the engine keeps two kinds of rows that have no life of
// their own: Leg and Operations.

// arrows is the whole life of a transaction (invariant I4). What is not in it
// cannot happen; the states without a row never change.
var arrows = map[store.State][]store.State{
	Sent:      {Challenge, Final, Failed},
	Challenge: {Result, Failed},
}

// errArrow is returned when a transaction is not where its next step starts.
var errArrow = errors.New("auth: no such step")

// advance moves t to the state next, or leaves it and says why not.
func advance(t *store.Txn, next store.State) error {
	if !slices.Contains(arrows[t.State], next) {
		return fmt.Errorf("%w: %s to %s", errArrow, t.State, next)
	}
	t.State = next
	return nil
}
