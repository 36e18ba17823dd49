package journal_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestFlowTellsWhoRefused: of a short time every request is counted, by the minute, the merchant and the scheme. What
// this server refused is apart from what a directory refused and from what nobody answered.
func TestFlowTellsWhoRefused(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		end := day.Truncate(time.Minute)
		n := 0
		add := func(back time.Duration, merchant, scheme string, change func(*journal.Entry)) {
			n++
			e := entry(keys, n, journal.Answered)
			e.Record.Created, e.Record.Merchant, e.Record.Card.Scheme, e.Record.Result = end.Add(-back), merchant, scheme, "authenticated"
			change(&e)
			e.Steps[0].At, e.Record.Updated = e.Record.Created, e.Record.Created
			write(t, st, e)
		}
		good := func(*journal.Entry) {}
		failed := func(component, code string) func(*journal.Entry) {
			return func(e *journal.Entry) {
				r := &e.Record
				r.Status, r.Result, r.TransStatus, r.ErrorComponent, r.ErrorCode = "failed", "error", "", component, code
				r.Reference = `"errorComponent":"D"` // a text that looks like a member
			}
		}
		refused := func(code string) func(*journal.Entry) {
			return func(e *journal.Entry) {
				e.Kind, e.Record.Status, e.Record.Result, e.Record.ErrorCode = journal.Refused, "refused", "", code
			}
		}
		add(10*time.Minute, "a", "visa", good)
		add(10*time.Minute, "a", "visa", good)
		add(9*time.Minute, "a", "visa", failed("D", "303"))
		add(9*time.Minute, "a", "visa", failed("A", "101"))
		add(9*time.Minute, "b", "jcb", failed("S", "405"))
		add(8*time.Minute, "b", "visa", func(e *journal.Entry) { // a challenge that failed was answered
			failed("D", "101")(e)
			e.Record.Challenged = true
		})
		add(8*time.Minute, "b", "visa", func(e *journal.Entry) { e.Record.Challenged = true })
		add(7*time.Minute, "b", "", refused("203"))
		add(7*time.Minute, "b", "", refused("305"))
		add(7*time.Minute, "b", "visa", func(e *journal.Entry) { // no AReq: the browser never came
			e.Record.Status, e.Record.Result, e.Record.TransStatus = "expired", "", ""
		})
		add(15*time.Minute, "a", "visa", good)                  // the first moment
		add(15*time.Minute+time.Millisecond, "a", "visa", good) // before it
		add(0, "a", "visa", good)                               // the first moment after

		q := journal.FlowQuery{From: end.Add(-15 * time.Minute), To: end}
		got, err := st.Flow(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(got, func(a, b journal.FlowCount) int {
			return cmp.Or(a.Minute.Compare(b.Minute), cmp.Compare(a.Merchant, b.Merchant), cmp.Compare(a.Scheme, b.Scheme),
				cmp.Compare(a.Result, b.Result), cmp.Compare(a.Declined, b.Declined), cmp.Compare(a.Refused, b.Refused))
		})
		at := func(back int) time.Time { return end.Add(-time.Duration(back) * time.Minute) }
		want := []journal.FlowCount{
			{at(15), "a", "visa", "authenticated", journal.Flow{Requests: 1}},
			{at(10), "a", "visa", "authenticated", journal.Flow{Requests: 2}},
			{at(9), "a", "visa", "error", journal.Flow{Requests: 2, Declined: 2}},
			{at(9), "b", "jcb", "error", journal.Flow{Requests: 1, Unanswered: 1}},
			{at(8), "b", "visa", journal.AfterChallenge, journal.Flow{Requests: 1}},
			{at(8), "b", "visa", "error", journal.Flow{Requests: 1}},
			{at(7), "b", "", "", journal.Flow{Requests: 1, NotEnrolled: 1}},
			{at(7), "b", "", "", journal.Flow{Requests: 1, Refused: 1}},
		}
		if !slices.Equal(got, want) {
			t.Errorf("the flow is\n%+v,\nwant\n%+v", got, want)
		}

		var sum journal.Flow
		q.Merchant, q.Whole = "b", true
		if got, err = st.Flow(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		for _, c := range got {
			if c.Merchant != "" || c.Scheme != "" {
				t.Errorf("of the whole there is %+v", c)
			}
			sum.Add(&c.Flow)
		}
		if want := (journal.Flow{Requests: 5, Refused: 1, NotEnrolled: 1, Unanswered: 1}); sum != want || sum.Sent() != 3 || sum.Failed() != 1 {
			t.Errorf("shop b has %+v, want %+v", sum, want)
		}
	})
}
