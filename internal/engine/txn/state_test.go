package txn

import (
	"errors"
	"testing"

	"github.com/openthreeds/threeds/internal/state/store"
)

// TestAdvance tries every pair of states (I4): one way only, but for SPC, and what is final
// stays.
func TestAdvance(t *testing.T) {
	all := []store.State{Sent, Challenge, Final, Failed, Result}
	good := map[[2]store.State]bool{
		{Sent, Challenge}: true, {Sent, Final}: true, {Sent, Failed}: true,
		{Challenge, Result}: true, {Challenge, Failed}: true,
		{Challenge, Sent}: true, // for the second AReq of SPC, which claimSecond alone permits
	}
	for _, from := range all {
		for _, to := range all {
			row := store.Txn{State: from}
			err := Advance(&row, to)
			want := from
			if good[[2]store.State{from, to}] {
				want = to
			}
			if row.State != want || (err == nil) != (want == to && from != to) || err != nil && !errors.Is(err, ErrArrow) {
				t.Errorf("advance %s to %s = %v, state %s; want %s", from, to, err, row.State, want)
			}
		}
	}
}
