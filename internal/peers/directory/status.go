package directory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A Keeper is the part of the store that the client needs: leases, generations of card ranges, and the status and
// requests of each scheme. Nodes share it.
type Keeper interface {
	store.Leases
	store.Snapshots
	store.States
}

// RefreshStatus is the state of the card ranges of one scheme. All nodes share it through the store. Times are UTC.
type RefreshStatus struct {
	Asked time.Time `json:"asked,omitzero"` // when the latest PReq left
	To    string    `json:"to,omitempty"`   // its address
	Next  time.Time `json:"next,omitzero"`  // when the next one leaves
	// Earliest is when the protocol lets the next one leave at the request of an operator.
	Earliest time.Time `json:"earliest,omitzero"`
	Full     bool      `json:"full,omitempty"` // the next one asks for all ranges, whatever is in use

	Generation int64     `json:"generation,omitempty"` // number of the generation in use, or 0
	Serial     string    `json:"serial,omitempty"`     // its serial number
	Ranges     int       `json:"ranges,omitempty"`     // how many it has
	Version    string    `json:"version,omitempty"`    // protocol version of its PRes
	Loaded     time.Time `json:"loaded,omitzero"`      // when it was loaded or last confirmed
	From       string    `json:"from,omitempty"`       // the address that it came from, or "" if that is not known

	Fault   string    `json:"fault,omitempty"` // what was wrong with the latest exchange, or ""
	FaultAt time.Time `json:"faultAt,omitzero"`

	Held       int64 `json:"held,omitempty"`   // number of the generation that waits to be accepted, or 0
	HeldRanges int   `json:"heldOf,omitempty"` // how many ranges it has
	// HeldFrom is the address that it came from.
	HeldFrom string `json:"heldFrom,omitempty"`

	Seen time.Time `json:"seen,omitzero"` // At of the newest RefreshRequest that was handled
}

// A RefreshRequest is a request of an operator. The node that sees it first carries it out.
type RefreshRequest struct {
	At      time.Time `json:"at"`
	Refresh bool      `json:"refresh,omitempty"` // send a PReq now, or as soon as the protocol allows
	Accept  int64     `json:"accept,omitempty"`  // use the held generation with this number, or 0
}

// Names in the store of a scheme's status, requests and held generation.
func statusKey(scheme string) string  { return "ranges/" + scheme }
func requestKey(scheme string) string { return "ranges/" + scheme + "/wish" }
func heldScheme(scheme string) string { return scheme + "/held" }

// ReadRefreshStatus returns the status of a scheme, or the zero value if there is none yet.
func ReadRefreshStatus(ctx context.Context, k Keeper, scheme string) (RefreshStatus, error) {
	var s RefreshStatus
	err := readState(ctx, k, statusKey(scheme), &s)
	return s, err
}

// AdaptTo returns the status with Next and Earliest adapted to a configuration with the given intervals; least is that
// after an answer, or 0. The status may have been stored under a configuration with longer intervals: shorter ones hold
// immediately. After a fault Next does not depend on refresh and stays.
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

// markCurrent records that g is in use and that there is no fault. A generation that was held back is older
// than g, so it is dropped.
func (s *RefreshStatus) markCurrent(g *ranges.Generation) {
	s.Held, s.HeldRanges, s.HeldFrom = 0, 0, ""
	s.Fault, s.FaultAt, s.Full = "", time.Time{}, false
	s.setGeneration(g)
}

// setGeneration records the properties of g.
func (s *RefreshStatus) setGeneration(g *ranges.Generation) {
	s.Serial, s.Ranges, s.Version, s.Loaded, s.From = g.Serial, g.Len(), g.Version.String(), g.Loaded, g.From
}

// ReadRefreshRequest returns the request for a scheme that no node has handled yet, which s tells. It returns the zero
// value if there is none.
func ReadRefreshRequest(ctx context.Context, k Keeper, scheme string, s RefreshStatus) (RefreshRequest, error) {
	var w RefreshRequest
	if err := readState(ctx, k, requestKey(scheme), &w); err != nil || !w.At.After(s.Seen) {
		return RefreshRequest{}, err
	}
	return w, nil
}

// ReadRefresh returns the status of a scheme, adapted to a configuration with the given intervals as
// [RefreshStatus.AdaptTo] does, and the request that no node has handled yet.
func ReadRefresh(ctx context.Context, k Keeper, scheme string,
	refresh, least time.Duration) (RefreshStatus, RefreshRequest, error) {
	status, err := ReadRefreshStatus(ctx, k, scheme)
	if err != nil {
		return status, RefreshRequest{}, err
	}
	status = status.AdaptTo(refresh, least)
	asked, err := ReadRefreshRequest(ctx, k, scheme, status)
	return status, asked, err
}

// Accepts reports whether a request has the generation used that is held back now.
func (w RefreshRequest) Accepts(s RefreshStatus) bool { return s.Held != 0 && w.Accept == s.Held }

// PutRefreshRequest stores a request for the nodes that serve, merged with a request that none has handled yet. Nodes
// ignore a request whose At is not later than that of the last one they handled, so PutRefreshRequest moves At forward
// if the clocks of two machines differ.
func PutRefreshRequest(ctx context.Context, k Keeper, scheme, holder string, w RefreshRequest) error {
	lease, err := k.Acquire(ctx, requestKey(scheme), holder, defaultLeaseTime)
	if err != nil {
		return fmt.Errorf("directory: refresh request: %w", err)
	}
	var former RefreshRequest
	status, err := ReadRefreshStatus(ctx, k, scheme)
	if err == nil {
		former, err = ReadRefreshRequest(ctx, k, scheme, status)
	}
	if err != nil {
		return errors.Join(err, k.Release(ctx, lease))
	}
	w.Refresh = w.Refresh || former.Refresh
	w.Accept = cmp.Or(w.Accept, former.Accept)
	for _, before := range []time.Time{status.Seen, former.At} {
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

// readState reads a small value into v. If it was never set, v stays as it is.
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
