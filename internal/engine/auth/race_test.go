package auth_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// TestFirstResultWins posts many different RReqs for one challenge at once: one is
// acknowledged, and that one is read (I2).
func TestFirstResultWins(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	id := authtest.Preauth(t, e, authtest.Shop)
	req := authtest.AReq("2.3.1", id)
	w.Reply = func(_ string, o authtest.Object) ([]byte, error) { return authtest.ARes(o, "C"), nil }
	if _, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON()); err != nil {
		t.Fatal(err)
	}
	var acked atomic.Pointer[[]byte]
	var count atomic.Int32
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			body := authtest.RReq(req, "Y", i).JSON()
			got := e.Receive(context.Background(), []string{"visa"}, body)
			switch o := authtest.Parse(t, got.Body); o.Text("messageType") + o.Text("errorCode") {
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
	got, err := e.Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": id}.JSON())
	if err != nil || string(got) != string(*acked.Load()) {
		t.Errorf("Result = %q, %v; want what was acknowledged", got, err)
	}
}

// TestIDIsUsedOnce calls /auth many times at once with one id: one AReq leaves (I5).
func TestIDIsUsedOnce(t *testing.T) {
	w := authtest.NewWorld()
	nodes := []*session.Engine{w.NewEngine(0), w.NewEngine(0)}
	id := authtest.Preauth(t, w.NewEngine(0), authtest.Shop)
	body := authtest.AReq("2.2.0", id).JSON()
	var good atomic.Int32
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			_, _, err := nodes[i%2].Authenticate(context.Background(), authtest.Shop, body)
			switch authtest.CodeOf(err) {
			case "":
				good.Add(1)
			case "301":
			default:
				t.Errorf("Authenticate: %v", err)
			}
		})
	}
	group.Wait()
	if good.Load() != 1 || w.Sends[id] != 1 {
		t.Errorf("%d good answers and %d AReqs, want 1 and 1", good.Load(), w.Sends[id])
	}
}

// errorJSON is the Erro on the wire, with the id taken out.
func errorJSON(err error, id string) string {
	bad, _ := errors.AsType[message.Error](err)
	return strings.ReplaceAll(string(bad.JSON()), id, "ID")
}

// TestTransactionsOfOthersAreUnknown: another merchant gets the same answer for an id, in every state, as for an
// unknown id (I3).
func TestTransactionsOfOthersAreUnknown(t *testing.T) {
	for _, status := range []string{"C", "Y", "N"} {
		t.Run(fmt.Sprint("after ", status), func(t *testing.T) {
			w := authtest.NewWorld()
			e := w.NewEngine(0)
			id := authtest.Preauth(t, e, authtest.Shop)
			w.Reply = func(_ string, o authtest.Object) ([]byte, error) { return authtest.ARes(o, status), nil }
			if _, _, err := e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", id).JSON()); err != nil {
				t.Fatal(err)
			}
			const nobodys = "01a1fa01-36cc-465e-ab5f-50d051286852"
			_, theirs := e.Result(t.Context(), authtest.Other, authtest.Object{"threeDSServerTransID": id}.JSON())
			_, unknown := e.Result(t.Context(), authtest.Other, authtest.Object{"threeDSServerTransID": nobodys}.JSON())
			a, b := errorJSON(theirs, id), errorJSON(unknown, nobodys)
			if a != b || authtest.CodeOf(theirs) != "203" {
				t.Errorf("another's id: %s; unknown id: %s", a, b)
			}
		})
	}
}

// TestErroNamesKeptIDs is MX-15: the Erro about an RReq has the ids that the
// RReq lacks, from the ARes.
func TestErroNamesKeptIDs(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	id := authtest.Preauth(t, e, authtest.Shop)
	req := authtest.AReq("2.2.0", id)
	w.Reply = func(_ string, o authtest.Object) ([]byte, error) { return authtest.ARes(o, "C"), nil }
	if _, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON()); err != nil {
		t.Fatal(err)
	}
	bad := authtest.RReq(req, "Y", 0)
	want := map[string]any{"dsTransID": bad["dsTransID"], "acsTransID": bad["acsTransID"]}
	delete(bad, "dsTransID")
	delete(bad, "acsTransID")
	got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, bad.JSON()).Body)
	if got.Text("errorCode") != "201" {
		t.Errorf("errorCode = %q, want 201", got.Text("errorCode"))
	}
	for name, id := range want {
		if got[name] != id {
			t.Errorf("%s = %v, want %v", name, got[name], id)
		}
	}
}

// TestPR28BeforeTheFirstAnswer: until a directory was asked for its ranges, the server cannot say that a card is not
// enrolled. The protocol would let us send an AReq without ranges; we ask the requestor to try again, within seconds.
func TestPR28BeforeTheFirstAnswer(t *testing.T) {
	w := authtest.NewWorld()
	w.Tried, w.Hits = false, nil
	e := w.NewEngine(0)
	_, _, err := e.Preauth(context.Background(), authtest.Shop, authtest.Object{"acctNumber": "4000000000000002"}.JSON())
	if bad, ok := errors.AsType[message.Error](err); !ok || bad.Code != message.TransientFailure {
		t.Errorf("/preauth: %v, want %v", err, message.TransientFailure)
	}
}

// TestPR28OneNotAskedYet: a card without a range counts as not enrolled only after every directory that could hold it
// was asked: 305 means only that. Other cards are served meanwhile, and an id says which directory counts.
func TestPR28OneNotAskedYet(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	made, held := authtest.Preauth(t, e, authtest.Shop), w.Hits
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
		w.Unasked, w.Hits = tt.pending, held
		if tt.unheld {
			w.Hits = nil
		}
		body := authtest.Object{"acctNumber": authtest.PAN}
		if tt.ds != "" {
			body["ds"] = tt.ds
		}
		if _, _, err := e.Preauth(context.Background(), authtest.Shop, body.JSON()); authtest.CodeOf(err) != tt.want {
			t.Errorf("/preauth, %s: %v, want %q", tt.name, err, tt.want)
		}
		if tt.ds != "" {
			continue // which /auth does not know
		}
		req := authtest.With(authtest.AReq("2.2.0", ""), "deviceChannel", "03")
		req["threeRIInd"] = "03"
		delete(req, "threeDSServerTransID")
		if _, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON()); authtest.CodeOf(err) != tt.want {
			t.Errorf("/auth, %s: %v, want %q", tt.name, err, tt.want)
		}
	}
	w.Hits = held[1:] // visa, for which the id was made, no longer has the card
	for _, tt := range []struct{ pending, want string }{{"visa", "403"}, {"jcb", "305"}} {
		w.Unasked = tt.pending
		if _, _, err := e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", made).JSON()); authtest.CodeOf(err) != tt.want {
			t.Errorf("/auth with an id of visa while %s was not asked: %v, want %s", tt.pending, err, tt.want)
		}
	}
}

// TestIDStaysUsedAfterTheEnd: an id stays used up for as long as it could be used, even if its authentication is over
// and can no longer be fetched (I5, I1).
func TestIDStaysUsedAfterTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name           string
		preauth, after time.Duration // how long ids are good; after how long the challenge ends
		challenge      time.Duration
		end            func(sent authtest.Object) authtest.Object // what ends it; nil means that it is left to expire
		want           string                                     // what the owner hears afterwards
	}{
		{"a result", time.Hour, time.Second, 24 * time.Hour,
			func(sent authtest.Object) authtest.Object { return authtest.RReq(sent, "Y", 1) }, "203 Unknown threeDSServerTransID"},
		{"an Erro", time.Hour, time.Second, 24 * time.Hour, func(sent authtest.Object) authtest.Object {
			return authtest.Object{"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "402", "threeDSServerTransID": sent["threeDSServerTransID"]}
		}, "203 Expired"},
		{"no result", time.Hour, 10 * time.Minute, 10 * time.Minute, nil, "203 Expired"},
	} {
		w := authtest.NewWorld()
		e := w.NewEngine(0)
		e.Timeouts.Preauth, e.Timeouts.Challenge = tt.preauth, tt.challenge
		var sent authtest.Object
		w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
			sent = areq
			return authtest.ARes(areq, "C"), nil
		}
		req := authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop))
		if _, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON()); err != nil {
			t.Fatal(err)
		}
		ask := authtest.Object{"threeDSServerTransID": req["threeDSServerTransID"]}.JSON()
		w.Pass(tt.after - time.Millisecond)
		if tt.end != nil {
			e.Receive(t.Context(), []string{"visa"}, tt.end(sent).JSON())
			w.Pass(e.Timeouts.Result - time.Millisecond)
		}
		if _, err := e.Result(t.Context(), authtest.Shop, ask); authtest.CodeOf(err) == "203" {
			t.Errorf("%s: forgotten before its time: %v", tt.name, err)
		}
		w.Pass(time.Millisecond)
		if _, err := e.Result(t.Context(), authtest.Shop, ask); authtest.Told(err) != tt.want {
			t.Errorf("%s: after its time: %v, want %s", tt.name, err, tt.want)
		}
		if got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, authtest.RReq(sent, "N", 1).JSON()).Body); got.Text("errorCode") != "301" {
			t.Errorf("%s: an RReq after its time: %v", tt.name, got)
		}
		for ; w.Clock().Before(time.Date(2026, 11, 20, 13, 0, 15, 0, time.UTC)); w.Pass(7 * time.Second) {
			if _, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON()); authtest.CodeOf(err) != "301" {
				t.Fatalf("%s: the id once more, at %v: %v, want 301", tt.name, w.Clock(), err)
			}
		}
		if tt.want == "203 Expired" {
			w.Pass(24 * time.Hour) // the owner hears of it for so long
		}
		if _, err := w.Get(t.Context(), req.Text("threeDSServerTransID")); err == nil {
			t.Errorf("%s: kept for longer than the id was good, or its owner hears of it", tt.name)
		}
	}
}

// minding is a store that does nothing for who has gone.
type minding struct{ txn.Store }

func (m minding) Create(ctx context.Context, t store.Txn) error {
	return cmp.Or(ctx.Err(), m.Store.Create(ctx, t))
}

// TestRequestorGoneBeforeTheClaim: a requestor that has ended its side of the connection and waits for the answer gets
// it.
func TestRequestorGoneBeforeTheClaim(t *testing.T) {
	w := authtest.NewWorld()
	w.Reply = func(_ string, o authtest.Object) ([]byte, error) { return authtest.ARes(o, "Y"), nil }
	e := w.NewEngine(0)
	e.Store = minding{e.Store}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, _, err := e.Authenticate(ctx, authtest.Shop, authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop)).JSON())
	if err != nil || authtest.Parse(t, got).Text("messageType") != "ARes" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestRaisedPreauthTimeout: an id is used only once, even if the time for ids is raised afterwards, on the node that
// has seen it or on another (I5).
func TestRaisedPreauthTimeout(t *testing.T) {
	for _, raised := range []time.Duration{81 * time.Second, 5 * time.Minute, time.Hour} {
		w := authtest.NewWorld()
		before, after := w.NewEngine(0), w.NewEngine(0)
		before.Timeouts.Result = 10 * time.Second
		after.Timeouts.Preauth = raised
		spent := authtest.AReq("2.2.0", authtest.Preauth(t, before, authtest.Shop))
		unused := authtest.AReq("2.2.0", authtest.Preauth(t, before, authtest.Shop))
		if _, _, err := before.Authenticate(t.Context(), authtest.Shop, spent.JSON()); err != nil {
			t.Fatal(err)
		}
		young := authtest.AReq("2.2.0", authtest.Preauth(t, after, authtest.Shop)) // used where the time is still short
		if _, _, err := before.Authenticate(t.Context(), authtest.Shop, young.JSON()); err != nil {
			t.Fatal(err)
		}
		late := authtest.AReq("2.2.0", authtest.Preauth(t, after, authtest.Shop))
		for passed := time.Duration(0); passed < raised; passed += 7 * time.Second {
			for _, req := range []authtest.Object{spent, young} {
				if _, _, err := after.Authenticate(t.Context(), authtest.Shop, req.JSON()); authtest.CodeOf(err) != "301" {
					t.Fatalf("raised to %v: an id once more after %v: %v", raised, passed, err)
				}
			}
			w.Pass(min(7*time.Second, raised-time.Millisecond-passed))
		}
		if _, _, err := after.Authenticate(t.Context(), authtest.Shop, late.JSON()); err != nil {
			t.Errorf("raised to %v: a new id at the end of its time: %v", raised, err)
		}
		if _, _, err := after.Authenticate(t.Context(), authtest.Shop, unused.JSON()); raised > 2*time.Minute && authtest.CodeOf(err) != "301" {
			t.Errorf("raised to %v: an id of before, as late: %v, want 301", raised, err)
		}
	}
}

// TestRequestsWithoutStore: while the store cannot be read, neither directory server nor requestor hears that an id is
// unknown, for then they would give up.
func TestRequestsWithoutStore(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	req := authtest.Challenged(t, w, e)
	post := func() string {
		o := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, authtest.RReq(req, "Y", 1).JSON()).Body)
		return o.Text("messageType") + o.Text("errorCode")
	}
	fetch := func() string {
		_, err := e.Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": req["threeDSServerTransID"]}.JSON())
		return authtest.CodeOf(err)
	}
	begin := func() string {
		_, err := authtest.Try(t, e, authtest.Shop)
		return authtest.CodeOf(err)
	}
	w.Down = true
	if posted, fetched, begun := post(), fetch(), begin(); posted != "Erro403" || fetched != "403" || begun != "403" {
		t.Errorf("an RReq is answered with %s, /postauth with %s, /auth with %s, want 403", posted, fetched, begun)
	}
	w.Works()
	if posted, fetched := post(), fetch(); posted != "RRes" || fetched != "" {
		t.Errorf("afterwards: an RReq is answered with %s, /postauth with %s", posted, fetched)
	}
}

// overtaken is a store in which something else happens just before the next update.
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

// TestResultOvertakesChallengeCommit: the transaction of a result is read while it still waits, and no longer waits
// when the result is written. The result changes nothing, and its directory server gets the answer for a result that
// comes too late: after 403 it would send it again.
func TestResultOvertakesChallengeCommit(t *testing.T) {
	for _, version := range []string{"2.2.0", "2.3.1"} {
		for name, tt := range map[string]struct {
			by          func(w *authtest.World, req authtest.Object)
			older, code string // the answer's, before 2.3.1 and from then on
			result      string // what the requestor hears; "": the other result
		}{
			"another result": {by: func(w *authtest.World, req authtest.Object) {
				w.NewEngine(0).Receive(context.Background(), []string{"visa"}, authtest.RReq(req, "Y", 1).JSON())
			}, older: "301", code: "312"},
			"an Erro": {by: func(w *authtest.World, req authtest.Object) {
				w.NewEngine(0).Receive(context.Background(), []string{"visa"}, authtest.Object{"messageType": "Erro", "messageVersion": version,
					"errorCode": "402", "errorComponent": "D", "threeDSServerTransID": req["threeDSServerTransID"]}.JSON())
			}, older: "301", code: "313", result: "402"},
			"the end of the time": {by: func(w *authtest.World, _ authtest.Object) { w.Pass(24 * time.Hour) }, older: "301", code: "301", result: "203"},
		} {
			w := authtest.NewWorld()
			req := authtest.Challenged(t, w, w.NewEngine(0), authtest.Object{"messageVersion": version})
			e := w.NewEngine(0)
			e.Store = &overtaken{Store: w, by: func() { tt.by(w, req) }}
			want := tt.older
			if version == "2.3.1" {
				want = tt.code
			}
			got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, authtest.RReq(req, "N", 2).JSON()).Body)
			if got.Text("errorCode") != want {
				t.Errorf("%s, overtaken by %s: %v, want %s", version, name, got, want)
			}
			kept, err := w.NewEngine(0).Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": req["threeDSServerTransID"]}.JSON())
			if authtest.CodeOf(err) != tt.result || err == nil && authtest.Parse(t, kept).Text("transStatus") != "Y" {
				t.Errorf("%s, overtaken by %s: the requestor gets %s, %v, want %q", version, name, kept, err, tt.result)
			}
		}
	}
}

// TestRowPutBackIsNoticed: an attacker who replaces a row with an older one cannot turn an acknowledged N into an
// acknowledged Y at the node that acknowledged the N. That node refuses the row, logs it and counts it. So does the
// engine that follows it at a reload.
func TestRowPutBackIsNoticed(t *testing.T) {
	w := authtest.NewWorld()
	req := challengedAt(t, w, "2.2.0")
	id := req.Text("threeDSServerTransID")
	ask := authtest.Object{"threeDSServerTransID": id}.JSON()
	old := w.Txns[id]
	var shared txn.Acknowledged
	var log bytes.Buffer
	counted := 0
	node := func() *session.Engine {
		e := w.NewEngine(0)
		e.Acknowledged, e.PutBack, e.Log = &shared, func() { counted++ }, slog.New(slog.NewJSONHandler(&log, nil))
		return e
	}
	first := authtest.RReq(req, "N", 1).JSON()
	if got := authtest.Parse(t, node().Receive(t.Context(), []string{"visa"}, first).Body); got.Text("messageType") != "RRes" {
		t.Fatalf("the N: %v", got)
	}
	if _, err := node().Result(t.Context(), authtest.Shop, ask); err != nil || counted != 0 {
		t.Fatalf("before: %v, counted %d", err, counted)
	}
	w.Txns[id] = old
	for i, body := range [][]byte{authtest.RReq(req, "Y", 1).JSON(), first} {
		got := authtest.Parse(t, node().Receive(t.Context(), []string{"visa"}, body).Body)
		if got.Text("errorCode") != "403" || counted != i+1 {
			t.Errorf("RReq %d: %v, counted %d, want 403 and %d", i, got, counted, i+1)
		}
	}
	if _, err := node().Result(t.Context(), authtest.Shop, ask); authtest.CodeOf(err) != "?" || counted != 3 {
		t.Errorf("/postauth: %v, counted %d, want an internal fault and 3", err, counted)
	}
	if n := strings.Count(log.String(), "row of a transaction was put back"); n != 3 {
		t.Errorf("the log has %d lines of it, want 3: %s", n, &log)
	}
	// Nodes that have not acknowledged the result cannot know.
	if got := authtest.Parse(t, w.NewEngine(0).Receive(t.Context(), []string{"visa"}, authtest.RReq(req, "Y", 1).JSON()).Body); got.Text("messageType") != "RRes" {
		t.Fatalf("another node: %v", got)
	}
	if _, err := node().Result(t.Context(), authtest.Shop, ask); authtest.CodeOf(err) != "?" {
		t.Errorf("the Y that another node has acknowledged: %v, want an internal fault", err)
	}
}
