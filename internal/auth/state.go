package auth

import (
	"errors"
	"fmt"
	"slices"

	"github.com/openthreeds/threeds/internal/store"
)

// The states of a transaction as the store keeps them. A claim is written
// before its AReq leaves and is the permission to send it once. "Claimed" and
// "sent" are therefore one state, and a crash between the two can only lose the
// AReq, never repeat it (invariant I5).
const (
	Sent      store.State = "sent"      // claimed; its one AReq may have left
	Challenge store.State = "challenge" // ARes C, D or S committed, no RReq yet
	Final     store.State = "final"     // ARes with any other status
	Failed    store.State = "failed"    // no usable ARes, or the DS gave it up with an Erro
	Result    store.State = "result"    // RReq committed
)

// arrows are all changes of state there are (invariant I4); the states without a row
// never change. Two more states, Leg and Operations, mark rows that are no transactions.
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
