package auth_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// TestFirstResultWins posts many different RReqs for one challenge at once: one is
// acknowledged, and that one is read (I2).
func TestFirstResultWins(t *testing.T) {
	w := newWorld()
	e := w.engine(0)
	id := preauth(t, e, shop)
	req := areq("2.3.1", id)
	w.reply = func(_ string, o object) ([]byte, error) { return ares(o, "C"), nil }
	if _, _, err := e.Authenticate(t.Context(), shop, req.json()); err != nil {
		t.Fatal(err)
	}
	var acked atomic.Pointer[[]byte]
	var count atomic.Int32
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			body := rreq(req, "Y", i).json()
			got := e.Receive(context.Background(), []string{"visa"}, body)
			switch o := parse(t, got.Body); o.text("messageType") + o.text("errorCode") {
			case "RRes":
				count.Add(1)
				acked.Store(&body)
			case "Erro312":
			default:
				t.Errorf("answer %s", got.Body)
			}
		})
	}
	group.Wait()
	if count.Load() != 1 {
		t.Fatalf("%d of 32 RReqs acknowledged, want 1", count.Load())
	}
	got, err := e.Result(t.Context(), shop, object{"threeDSServerTransID": id}.json())
	if err != nil || string(got) != string(*acked.Load()) {
		t.Errorf("Result = %q, %v; want what was acknowledged", got, err)
	}
}

// TestIDIsUsedOnce calls /auth many times at once with one id: one AReq leaves (I5).
func TestIDIsUsedOnce(t *testing.T) {
	w := newWorld()
	nodes := []*auth.Engine{w.engine(0), w.engine(0)}
	id := preauth(t, w.engine(0), shop)
	body := areq("2.2.0", id).json()
	var good atomic.Int32
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			_, _, err := nodes[i%2].Authenticate(context.Background(), shop, body)
			switch codeOf(err) {
			case "":
				good.Add(1)
			case "301":
			default:
				t.Errorf("Authenticate: %v", err)
			}
		})
	}
	group.Wait()
	if good.Load() != 1 || w.sends[id] != 1 {
		t.Errorf("%d good answers and %d AReqs, want 1 and 1", good.Load(), w.sends[id])
	}
}

// errorJSON is the Erro on the wire, with the id taken out.
func errorJSON(err error, id string) string {
	bad, _ := errors.AsType[message.Error](err)
	return strings.ReplaceAll(string(bad.JSON()), id, "ID")
}

// TestTransactionsOfOthersAreUnknown: to another merchant an id in every state is answered
// exactly as one that nobody knows (I3).
func TestTransactionsOfOthersAreUnknown(t *testing.T) {
	for _, status := range []string{"C", "Y", "N"} {
		t.Run(fmt.Sprint("after ", status), func(t *testing.T) {
			w := newWorld()
			e := w.engine(0)
			id := preauth(t, e, shop)
			w.reply = func(_ string, o object) ([]byte, error) { return ares(o, status), nil }
			if _, _, err := e.Authenticate(t.Context(), shop, areq("2.2.0", id).json()); err != nil {
				t.Fatal(err)
			}
			const nobodys = "01a1fa01-36cc-465e-ab5f-50d051286852"
			_, theirs := e.Result(t.Context(), other, object{"threeDSServerTransID": id}.json())
			_, unknown := e.Result(t.Context(), other, object{"threeDSServerTransID": nobodys}.json())
			a, b := errorJSON(theirs, id), errorJSON(unknown, nobodys)
			if a != b || codeOf(theirs) != "203" {
				t.Errorf("another's id: %s; unknown id: %s", a, b)
			}
		})
	}
}

// TestErroNamesKeptIDs is MX-15: the Erro about an RReq has the ids that the
// RReq lacks, from the ARes.
func TestErroNamesKeptIDs(t *testing.T) {
	w := newWorld()
	e := w.engine(0)
	id := preauth(t, e, shop)
	req := areq("2.2.0", id)
	w.reply = func(_ string, o object) ([]byte, error) { return ares(o, "C"), nil }
	if _, _, err := e.Authenticate(t.Context(), shop, req.json()); err != nil {
		t.Fatal(err)
	}
	bad := rreq(req, "Y", 0)
	want := map[string]any{"dsTransID": bad["dsTransID"], "acsTransID": bad["acsTransID"]}
	delete(bad, "dsTransID")
	delete(bad, "acsTransID")
	got := parse(t, e.Receive(t.Context(), []string{"visa"}, bad.json()).Body)
	if got.text("errorCode") != "201" {
		t.Errorf("errorCode = %q, want 201", got.text("errorCode"))
	}
	for name, id := range want {
		if got[name] != id {
			t.Errorf("%s = %v, want %v", name, got[name], id)
		}
	}
}

// TestPR28BeforeTheFirstAnswer: until any directory was asked for its ranges,
// nobody can say that a card is not enrolled. The protocol would let us send an
// AReq without ranges; we ask the requestor to come again, within seconds.
func TestPR28BeforeTheFirstAnswer(t *testing.T) {
	w := newWorld()
	w.tried, w.hits = false, nil
	e := w.engine(0)
	_, _, err := e.Preauth(context.Background(), shop, object{"acctNumber": "4000000000000002"}.json())
	if bad, ok := errors.AsType[message.Error](err); !ok || bad.Code != message.TransientFailure {
		t.Errorf("/preauth: %v, want %v", err, message.TransientFailure)
	}
}

// TestPR28OneNotAskedYet: a card that no range has is not enrolled only once every
// directory that could hold it was asked: 305 means that and nothing else. The others
// go on meanwhile, and an id says which directory counts.
func TestPR28OneNotAskedYet(t *testing.T) {
	w := newWorld()
	e := w.engine(0)
	made, held := preauth(t, e, shop), w.hits
	for _, tt := range []struct {
		name, pending, ds string
		unheld            bool // by any directory that was asked
		want              string
	}{
		{"all asked", "", "", true, "305"},
		{"one not asked", "jcb", "", true, "403"},
		{"the one that is wished for", "jcb", "jcb", false, "403"},
		{"another than the one wished for", "jcb", "amex", true, "305"},
		{"a range has it", "jcb", "", false, ""},
	} {
		w.pending, w.hits = tt.pending, held
		if tt.unheld {
			w.hits = nil
		}
		body := object{"acctNumber": pan}
		if tt.ds != "" {
			body["ds"] = tt.ds
		}
		if _, _, err := e.Preauth(context.Background(), shop, body.json()); codeOf(err) != tt.want {
			t.Errorf("/preauth, %s: %v, want %q", tt.name, err, tt.want)
		}
		if tt.ds != "" {
			continue // which /auth does not know
		}
		req := with(areq("2.2.0", ""), "deviceChannel", "03")
		req["threeRIInd"] = "03"
		delete(req, "threeDSServerTransID")
		if _, _, err := e.Authenticate(t.Context(), shop, req.json()); codeOf(err) != tt.want {
			t.Errorf("/auth, %s: %v, want %q", tt.name, err, tt.want)
		}
	}
	w.hits = held[1:] // visa has the card no more, of which the id is
	for _, tt := range []struct{ pending, want string }{{"visa", "403"}, {"jcb", "305"}} {
		w.pending = tt.pending
		if _, _, err := e.Authenticate(t.Context(), shop, areq("2.2.0", made).json()); codeOf(err) != tt.want {
			t.Errorf("/auth with an id of visa while %s was not asked: %v, want %s", tt.pending, err, tt.want)
		}
	}
}

// TestIDStaysUsedAfterTheEnd: an id stays used up for as long as it could be used,
// though what it stood for is over and can no longer be fetched (I5, I1).
func TestIDStaysUsedAfterTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name           string
		preauth, after time.Duration // how long ids are good; after how long the challenge ends
		challenge      time.Duration
		end            func(sent object) object // what ends it; nil: nothing does
		want           string                   // what the owner hears afterwards
	}{
		{"a result", time.Hour, time.Second, 24 * time.Hour, func(sent object) object { return rreq(sent, "Y", 1) }, "203 Unknown threeDSServerTransID"},
		{"an Erro", time.Hour, time.Second, 24 * time.Hour, func(sent object) object {
			return object{"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "402", "threeDSServerTransID": sent["threeDSServerTransID"]}
		}, "203 Expired"},
		{"no result", time.Hour, 10 * time.Minute, 10 * time.Minute, nil, "203 Expired"},
	} {
		w := newWorld()
		e := w.engine(0)
		e.Timeouts.Preauth, e.Timeouts.Challenge = tt.preauth, tt.challenge
		var sent object
		w.reply = func(_ string, areq object) ([]byte, error) {
			sent = areq
			return ares(areq, "C"), nil
		}
		req := areq("2.2.0", preauth(t, e, shop))
		if _, _, err := e.Authenticate(t.Context(), shop, req.json()); err != nil {
			t.Fatal(err)
		}
		ask := object{"threeDSServerTransID": req["threeDSServerTransID"]}.json()
		w.pass(tt.after - time.Millisecond)
		if tt.end != nil {
			e.Receive(t.Context(), []string{"visa"}, tt.end(sent).json())
			w.pass(e.Timeouts.Result - time.Millisecond)
		}
		if _, err := e.Result(t.Context(), shop, ask); codeOf(err) == "203" {
			t.Errorf("%s: forgotten before its time: %v", tt.name, err)
		}
		w.pass(time.Millisecond)
		if _, err := e.Result(t.Context(), shop, ask); told(err) != tt.want {
			t.Errorf("%s: after its time: %v, want %s", tt.name, err, tt.want)
		}
		if got := parse(t, e.Receive(t.Context(), []string{"visa"}, rreq(sent, "N", 1).json()).Body); got.text("errorCode") != "301" {
			t.Errorf("%s: an RReq after its time: %v", tt.name, got)
		}
		for ; w.clock().Before(time.Date(2026, 11, 20, 13, 0, 15, 0, time.UTC)); w.pass(7 * time.Second) {
			if _, _, err := e.Authenticate(t.Context(), shop, req.json()); codeOf(err) != "301" {
				t.Fatalf("%s: the id once more, at %v: %v, want 301", tt.name, w.clock(), err)
			}
		}
		if tt.want == "203 Expired" {
			w.pass(24 * time.Hour) // the owner hears of it for so long
		}
		if _, err := w.Get(t.Context(), req.text("threeDSServerTransID")); err == nil {
			t.Errorf("%s: kept for longer than the id was good, or its owner hears of it", tt.name)
		}
	}
}

// minding is a store that does nothing for who has gone.
type minding struct{ txn.Store }

func (m minding) Create(ctx context.Context, t store.Txn) error {
	return cmp.Or(ctx.Err(), m.Store.Create(ctx, t))
}

// TestRequestorGoneBeforeTheClaim: who has ended its side of the connection, and waits for the
// answer, gets it.
func TestRequestorGoneBeforeTheClaim(t *testing.T) {
	w := newWorld()
	w.reply = func(_ string, o object) ([]byte, error) { return ares(o, "Y"), nil }
	e := w.engine(0)
	e.Store = minding{e.Store}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, _, err := e.Authenticate(ctx, shop, areq("2.2.0", preauth(t, e, shop)).json())
	if err != nil || parse(t, got).text("messageType") != "ARes" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestRaisedPreauthTimeout: an id is used once though the time for ids is raised afterwards, on
// the node that has seen it or on another (I5).
func TestRaisedPreauthTimeout(t *testing.T) {
	for _, raised := range []time.Duration{81 * time.Second, 5 * time.Minute, time.Hour} {
		w := newWorld()
		before, after := w.engine(0), w.engine(0)
		before.Timeouts.Result = 10 * time.Second
		after.Timeouts.Preauth = raised
		spent := areq("2.2.0", preauth(t, before, shop))
		unused := areq("2.2.0", preauth(t, before, shop))
		if _, _, err := before.Authenticate(t.Context(), shop, spent.json()); err != nil {
			t.Fatal(err)
		}
		young := areq("2.2.0", preauth(t, after, shop)) // used where the time is still short
		if _, _, err := before.Authenticate(t.Context(), shop, young.json()); err != nil {
			t.Fatal(err)
		}
		late := areq("2.2.0", preauth(t, after, shop))
		for passed := time.Duration(0); passed < raised; passed += 7 * time.Second {
			for _, req := range []object{spent, young} {
				if _, _, err := after.Authenticate(t.Context(), shop, req.json()); codeOf(err) != "301" {
					t.Fatalf("raised to %v: an id once more after %v: %v", raised, passed, err)
				}
			}
			w.pass(min(7*time.Second, raised-time.Millisecond-passed))
		}
		if _, _, err := after.Authenticate(t.Context(), shop, late.json()); err != nil {
			t.Errorf("raised to %v: a new id at the end of its time: %v", raised, err)
		}
		if _, _, err := after.Authenticate(t.Context(), shop, unused.json()); raised > 2*time.Minute && codeOf(err) != "301" {
			t.Errorf("raised to %v: an id of before, as late: %v, want 301", raised, err)
		}
	}
}

// TestRequestsWithoutStore: while the store cannot be read nobody hears that an id is unknown, which
// would have him give up: neither directory server nor requestor.
func TestRequestsWithoutStore(t *testing.T) {
	w := newWorld()
	e := w.engine(0)
	req := challenged(t, w, e)
	post := func() string {
		o := parse(t, e.Receive(t.Context(), []string{"visa"}, rreq(req, "Y", 1).json()).Body)
		return o.text("messageType") + o.text("errorCode")
	}
	fetch := func() string {
		_, err := e.Result(t.Context(), shop, object{"threeDSServerTransID": req["threeDSServerTransID"]}.json())
		return codeOf(err)
	}
	begin := func() string {
		_, err := try(t, e, shop)
		return codeOf(err)
	}
	w.down = true
	if posted, fetched, begun := post(), fetch(), begin(); posted != "Erro403" || fetched != "403" || begun != "403" {
		t.Errorf("an RReq is answered with %s, /postauth with %s, /auth with %s, want 403", posted, fetched, begun)
	}
	w.works()
	if posted, fetched := post(), fetch(); posted != "RRes" || fetched != "" {
		t.Errorf("afterwards: an RReq is answered with %s, /postauth with %s", posted, fetched)
	}
}
