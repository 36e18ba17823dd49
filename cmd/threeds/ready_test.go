package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/internal/store"
)

// A pinged store answers one question.
type pinged struct {
	store.Store
	err error
}

func (s pinged) Ping(context.Context) error { return s.err }

// TestReadyWithStore: a store that is not there and one that may not be written to are
// both no reason to send requests here, and want different people to look.
func TestReadyWithStore(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("no route to host"), "cannot be reached"},
		{fmt.Errorf("ping: %w", store.ErrReadOnly), "may only be read: its user lacks privileges"},
	} {
		got, degraded := conditions(pinged{err: test.err}, ranges.NewSchemes())[0].Check()
		if got != test.want || degraded {
			t.Errorf("the store, whose Ping is %v: %q, degraded: %t; want %q", test.err, got, degraded, test.want)
		}
	}
}
