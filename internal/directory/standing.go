package directory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/internal/store"
)

// A Keeper keeps what must outlive a process and what nodes share: generations
// of card ranges, and how things stand with each directory server.
type Keeper interface {
	store.Leases
	store.Snapshots
	store.States
}

// RefreshStatus is the state of the card ranges of one scheme, which all nodes share through
// the store. Times are UTC.
type RefreshStatus struct {
	Asked time.Time `json:"asked,omitzero"` // when the latest PReq left
	To    string    `json:"to,omitempty"`   // its address
	Next  time.Time `json:"next,omitzero"`  // when the next one leaves
	// Earliest is when the protocol lets the next one leave, should an operator
	// wish it.
	Earliest time.Time `json:"earliest,omitzero"`
	Full     bool      `json:"full,omitempty"` // the next one asks for all ranges, whatever is in use

	Generation int64     `json:"generation,omitempty"` // number of the one in use; 0: none
	Serial     string    `json:"serial,omitempty"`     // of it
	Ranges     int       `json:"ranges,omitempty"`     // in it
	Version    string    `json:"version,omitempty"`    // of the PRes that it came of
	Loaded     time.Time `json:"loaded,omitzero"`      // when it, or the news that it still holds, came
	From       string    `json:"from,omitempty"`       // the address that it came from; "": not known

	Fault   string    `json:"fault,omitempty"` // of the latest exchange, in words; "": none
	FaultAt time.Time `json:"faultAt,omitzero"`

	Held       int64 `json:"held,omitempty"`   // number of a generation that waits for Accept; 0: none
	HeldRanges int   `json:"heldOf,omitempty"` // ranges in it
	// HeldFrom is the address that it came from.
	HeldFrom string `json:"heldFrom,omitempty"`

	Seen time.Time `json:"seen,omitzero"` // the newest Wish that was looked at
}

// A RefreshRequest is what an operator wants done. The node that looks first does it.
type RefreshRequest struct {
	At      time.Time `json:"at"`
	Refresh bool      `json:"refresh,omitempty"` // ask now, or as soon as the protocol lets us
	Accept  int64     `json:"accept,omitempty"`  // use the held generation of this number
}

// Names under which a scheme's things are kept.
func statusKey(scheme string) string  { return "ranges/" + scheme }
func requestKey(scheme string) string { return "ranges/" + scheme + "/wish" }
func heldScheme(scheme string) string { return scheme + "/held" }

// ReadRefreshStatus returns how things stand with a scheme; zero when nothing is
// known yet.
func ReadRefreshStatus(ctx context.Context, k Keeper, scheme string) (RefreshStatus, error) {
	var s RefreshStatus
	err := readState(ctx, k, statusKey(scheme), &s)
	return s, err
}

// AdaptTo adapts Next and Earliest to a configuration in which a PReq leaves every
// refresh, and not sooner than least if that is set. They may have been written under
// another one, with longer intervals: a shorter one holds at once. After a fault Next
// does not depend on refresh and stays.
func (s RefreshStatus) AdaptTo(refresh, least time.Duration) RefreshStatus {
	if s.Asked.IsZero() {
		return s
	}
	if at := s.Asked.Add(least); least > 0 && at.Before(s.Earliest) {
		s.Earliest = at
	}
	if at := laterOf(s.Earliest, s.Asked.Add(refresh+refresh/10)); s.Fault == "" && at.Before(s.Next) {
		s.Next = at
	}
	return s
}

// markCurrent notes that g is in use and all is well. A generation that was held back is
// older than g, and dropped.
func (s *RefreshStatus) markCurrent(g *ranges.Generation) {
	s.Held, s.HeldRanges, s.HeldFrom = 0, 0, ""
	s.Fault, s.FaultAt, s.Full = "", time.Time{}, false
	s.setGeneration(g)
}

// setGeneration describes the generation that the store has.
func (s *RefreshStatus) setGeneration(g *ranges.Generation) {
	s.Serial, s.Ranges, s.Version, s.Loaded, s.From = g.Serial, g.Len(), g.Version.String(), g.Loaded, g.From
}

// ReadRefreshRequest returns the wish for a scheme that no node has seen yet, as s has it; zero
// when there is none.
func ReadRefreshRequest(ctx context.Context, k Keeper, scheme string, s RefreshStatus) (RefreshRequest, error) {
	var w RefreshRequest
	if err := readState(ctx, k, requestKey(scheme), &w); err != nil || !w.At.After(s.Seen) {
		return RefreshRequest{}, err
	}
	return w, nil
}

// PutRefreshRequest leaves a wish for the nodes that serve, together with those that none has
// seen yet. Nodes ignore a wish whose At is not later than that of the last one they saw;
// MakeWish moves it forward if the clocks of two machines would have it so.
func PutRefreshRequest(ctx context.Context, k Keeper, scheme, holder string, w RefreshRequest) error {
	lease, err := k.Acquire(ctx, requestKey(scheme), holder, defaultLeaseTime)
	if err != nil {
		return fmt.Errorf("directory: wish: %w", err)
	}
	var former RefreshRequest
	standing, err := ReadRefreshStatus(ctx, k, scheme)
	if err == nil {
		former, err = ReadRefreshRequest(ctx, k, scheme, standing)
	}
	if err != nil {
		return errors.Join(err, k.Release(ctx, lease))
	}
	w.Refresh = w.Refresh || former.Refresh
	w.Accept = cmp.Or(w.Accept, former.Accept)
	for _, before := range []time.Time{standing.Seen, former.At} {
		if !w.At.After(before) {
			w.At = before.Add(time.Millisecond)
		}
	}
	value, err := json.Marshal(w)
	if err == nil {
		err = k.PutState(ctx, requestKey(scheme), value, lease)
	}
	return errors.Join(err, k.Release(ctx, lease))
}

// readState reads a small value; what was never set leaves v as it is.
func readState(ctx context.Context, k Keeper, key string, v any) error {
	value, err := k.State(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("directory: %s: %w", key, err)
	}
	if err := json.Unmarshal(value, v); err != nil {
		return fmt.Errorf("directory: %s: %w", key, err)
	}
	return nil
}
