package auth_test

import (
	"context"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/store"
)

// overtaken is a store before whose next update something else happens.
type overtaken struct {
	txn.Store
	by func()
}

func (s *overtaken) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	if by := s.by; by != nil {
		s.by = nil
		by()
	}
	return s.Store.Update(ctx, was, change)
}

// TestResultOvertakesChallengeCommit: a result whose transaction was read while it waited, and is written to
// when it does not any more, changes nothing, and its directory server is told as if it
// had come later: 403 would have it sent again.
func TestResultOvertakesChallengeCommit(t *testing.T) {
	for _, version := range []string{"2.2.0", "2.3.1"} {
		for name, tt := range map[string]struct {
			by          func(w *world, req object)
			older, code string // the answer's, before 2.3.1 and from then on
			result      string // what the requestor hears; "": the other result
		}{
			"another result": {by: func(w *world, req object) {
				w.engine(0).Receive(context.Background(), []string{"visa"}, rreq(req, "Y", 1).json())
			}, older: "301", code: "312"},
			"an Erro": {by: func(w *world, req object) {
				w.engine(0).Receive(context.Background(), []string{"visa"}, object{"messageType": "Erro", "messageVersion": version,
					"errorCode": "402", "errorComponent": "D", "threeDSServerTransID": req["threeDSServerTransID"]}.json())
			}, older: "301", code: "313", result: "402"},
			"the end of the time": {by: func(w *world, _ object) { w.pass(24 * time.Hour) }, older: "301", code: "301", result: "203"},
		} {
			w := newWorld()
			req := challenged(t, w, w.engine(0), object{"messageVersion": version})
			e := w.engine(0)
			e.Store = &overtaken{Store: w, by: func() { tt.by(w, req) }}
			want := tt.older
			if version == "2.3.1" {
				want = tt.code
			}
			got := parse(t, e.Receive(t.Context(), []string{"visa"}, rreq(req, "N", 2).json()).Body)
			if got.text("errorCode") != want {
				t.Errorf("%s, overtaken by %s: %v, want %s", version, name, got, want)
			}
			kept, err := w.engine(0).Result(t.Context(), shop, object{"threeDSServerTransID": req["threeDSServerTransID"]}.json())
			if codeOf(err) != tt.result || err == nil && parse(t, kept).text("transStatus") != "Y" {
				t.Errorf("%s, overtaken by %s: the requestor gets %s, %v, want %q", version, name, kept, err, tt.result)
			}
		}
	}
}
