package server

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A pinged store answers one question.
type pinged struct {
	store.Store
	err error
}

func (s pinged) Ping(context.Context) error { return s.err }

// TestReadinessNeedsTheStore: a store that is not there and one that may not be written to are
// both no reason to send requests here, and want different people to look.
func TestReadinessNeedsTheStore(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.New("no route to host"), "cannot be reached"},
		{fmt.Errorf("ping: %w", store.ErrReadOnly), "may only be read: its user lacks privileges"},
	} {
		got, degraded := storeConditions(pinged{err: test.err}, new(writeWatch), ranges.NewSchemes())[0].Check()
		if got != test.want || degraded {
			t.Errorf("the store, whose Ping is %v: %q, degraded: %t; want %q", test.err, got, degraded, test.want)
		}
	}
}

// TestReadinessNeedsADirectory: until a directory server was asked, the node does not know which cards take part, so it
// is not ready for requests. Afterwards it may know that one scheme has no ranges, and that is no reason to refuse
// requests for the others.
func TestReadinessNeedsADirectory(t *testing.T) {
	type state struct {
		name, problem string
		degraded      bool
	}
	cards := ranges.NewSchemes("visa", "jcb")
	check := func(want ...state) {
		t.Helper()
		for i, c := range storeConditions(pinged{}, new(writeWatch), cards) {
			problem, degraded := c.Check()
			if got := (state{c.Name, problem, degraded && problem != ""}); got != want[i] {
				t.Errorf("%+v, want %+v", got, want[i])
			}
		}
	}
	const (
		none = "none: its cards count as not enrolled"
		yet  = "none yet: requests for cards that no other directory holds are asked to try again"
	)
	check(state{"store", "", false}, state{"directories", "none has been asked for its card ranges yet", false},
		state{"ranges of visa", yet, true}, state{"ranges of jcb", yet, true})
	var b ranges.Builder
	must(t, b.Add("4000000000000000", "4000009999999999", &ranges.Info{}))
	table, err := b.Build()
	must(t, err)
	cards.Swap("visa", table)
	cards.MarkTried("visa")
	check(state{"store", "", false}, state{"directories", "", false}, state{"ranges of visa", "", false}, state{"ranges of jcb", yet, true})
	cards.MarkTried("jcb")
	check(state{"store", "", false}, state{"directories", "", false}, state{"ranges of visa", "", false}, state{"ranges of jcb", none, true})
}
