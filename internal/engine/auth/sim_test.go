package auth_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

var seeds = flag.Int("seeds", 150, "how many simulations TestSimulation runs")

// TestSimulation drives engines of two nodes over one store through random
// events, faults and restarts included, and checks the invariants after every
// step. A failing seed is printed; run it alone with -seeds and the seed.
func TestSimulation(t *testing.T) {
	events := 0
	for seed := range *seeds {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, uint64(seed))
			for range 200 {
				s.step()
				events++
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d simulations, %d events", *seeds, events)
}

// A fact is what the model knows of one transaction.
type fact struct {
	areq    authtest.Object
	owner   *account.Account
	scheme  string
	status  string    // of the ARes that the engine handed out, "" when none was
	handed  time.Time // when
	first   []byte    // the RReq for which an RRes was sent
	expires time.Time // of the result
	erro    bool      // the DS gave it up
}

// A delivery is a result that was refused for the store's sake.
type delivery struct {
	of   *fact
	body []byte
}

type sim struct {
	*authtest.World
	t     *testing.T
	rand  *rand.Rand
	nodes [2]*session.Engine
	facts []*fact
	again []delivery // to be made again when the store works
	brief bool       // the fault is of one write
	given *fact      // that the DS has given up in this step
	n     int
}

func newSim(t *testing.T, seed uint64) *sim {
	s := &sim{World: authtest.NewWorld(), t: t, rand: rand.New(rand.NewPCG(seed, 7))}
	s.restart()
	return s
}

// restart replaces both nodes: all that they knew in memory is gone.
func (s *sim) restart() {
	s.nodes[0] = s.NewEngine(0)
	s.nodes[1] = s.NewEngine(time.Duration(s.rand.IntN(10000)-5000) * time.Millisecond)
}

func (s *sim) node() *session.Engine { return s.nodes[s.rand.IntN(2)] }

func (s *sim) pick() *fact {
	if len(s.facts) == 0 {
		return nil
	}
	return s.facts[s.rand.IntN(len(s.facts))]
}

func (s *sim) step() {
	s.n++
	if s.rand.IntN(4) == 0 { // a store that fails before or after the write
		done := s.rand.IntN(2) == 0
		which := []string{"create", "update"}[s.rand.IntN(2)]
		lasts := s.rand.IntN(3) // one write, all of the kind, or whatever comes after it too
		s.brief = lasts == 0
		failed := false
		s.World.Fault = func(op string) (bool, error) {
			if op != which || s.brief && failed {
				return true, nil
			}
			was := done && !failed // the change was made; its other tries change nothing
			failed, s.Down = true, lasts == 2
			return was, authtest.ErrFault
		}
	}
	switch f := s.pick(); s.rand.IntN(10) {
	case 0, 1:
		s.begin()
	case 2:
		if f != nil {
			s.repeat(f)
		}
	case 3, 4:
		if f != nil {
			s.deliver(f)
		}
	case 5:
		if f != nil {
			s.giveUp(f)
		}
	case 6:
		s.Pass(time.Duration(s.rand.Int64N(int64(90 * time.Second))))
	case 7:
		s.restart()
		if s.rand.IntN(2) == 0 {
			s.LoseLazy()
		}
	default:
		if f != nil {
			s.read(f)
		}
	}
	if s.World.Fault != nil {
		s.Works()
		time.Sleep(time.Minute) // for what goes on behind
		synctest.Wait()
	}
	s.noteGivenUp()
	s.deliverAgain()
	s.invariants()
}

// begin makes a new authentication, with any answer of the directory.
func (s *sim) begin() {
	owner := []*account.Account{authtest.Shop, authtest.Other}[s.rand.IntN(2)]
	node := s.nodes[0] // the id's age is exact on the node that made it
	id := authtest.Preauth(s.t, node, owner)
	version := []string{"2.1.0", "2.2.0", "2.3.1"}[s.rand.IntN(3)]
	f := &fact{areq: authtest.AReq(version, id), owner: owner, scheme: "visa"}
	if version != "2.1.0" && s.rand.IntN(3) == 0 {
		f.areq["threeDSRequestorDecReqInd"], f.areq["threeDSRequestorDecMaxTime"] = "Y", "00005"
	}
	s.facts = append(s.facts, f)
	s.authenticate(node, f)
}

// repeat repeats an /auth with an id that has been tried.
func (s *sim) repeat(f *fact) { s.authenticate(s.node(), f) }

func (s *sim) authenticate(node *session.Engine, f *fact) {
	status := []string{"Y", "N", "C", "C", "C", "D"}[s.rand.IntN(6)]
	if status == "D" && f.areq.Text("threeDSRequestorDecReqInd") != "Y" {
		status = "C"
	}
	bad := s.rand.IntN(8)
	early := s.rand.IntN(8) == 0
	var sent []byte
	s.Reply = func(_ string, req authtest.Object) ([]byte, error) {
		if early { // the RReq comes before the ARes is handed out
			got := node.Receive(context.Background(), []string{"visa"}, authtest.RReq(req, "Y", s.n).JSON())
			if authtest.Parse(s.t, got.Body).Text("messageType") == "RRes" {
				s.t.Errorf("RReq before the ARes was acknowledged")
			}
		}
		o := authtest.AResObject(req, status)
		switch bad {
		case 0:
			return nil, context.DeadlineExceeded
		case 1:
			o["acsTransID"] = "nonsense"
		case 2:
			return authtest.Object{"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "403", "errorComponent": "D",
				"errorDescription": "x", "errorDetail": "y"}.JSON(), nil
		}
		sent = o.JSON()
		return sent, nil
	}
	got, _, err := node.Authenticate(context.Background(), f.owner, f.areq.JSON())
	if err != nil {
		if authtest.CodeOf(err) == "?" {
			s.t.Errorf("Authenticate: %v", err)
		}
		return
	}
	if string(got) != string(sent) || bad < 3 {
		s.t.Errorf("ARes is not what the directory sent (I8)")
	}
	if f.status != "" {
		s.t.Errorf("a second ARes for one id")
	}
	f.status, f.handed = status, s.Clock()
}

// deliver posts an RReq: the right one, one with other values, with foreign
// ids, from another directory.
func (s *sim) deliver(f *fact) {
	schemes := []string{"visa"}
	status := []string{"Y", "N"}[s.rand.IntN(2)]
	o := authtest.RReq(f.areq, status, s.n)
	right := true
	switch s.rand.IntN(6) {
	case 0:
		schemes, right = []string{"mastercard"}, false
	case 1:
		o["acsTransID"], right = "00000000-0000-4000-8000-000000000000", false
	case 2:
		delete(o, "transStatus")
		right = false
	}
	body := o.JSON()
	got := authtest.Parse(s.t, s.node().Receive(context.Background(), schemes, body).Body)
	waiting := (f.status == "C" || f.status == "D") && f.first == nil && !f.erro && s.Clock().Sub(f.handed) < time.Hour
	if got.Text("messageType") != "RRes" {
		if right && waiting {
			if s.World.Fault == nil || s.brief {
				s.t.Errorf("the RReq of a challenge that was handed out is refused: %v", got)
			}
			s.again = append(s.again, delivery{f, body})
		}
		return
	}
	s.acked(f, body, right, got)
}

// deliverAgain posts what was refused because the store had failed: now it is accepted, whether it was stored then or
// not.
func (s *sim) deliverAgain() {
	for _, d := range s.again {
		got := authtest.Parse(s.t, s.node().Receive(context.Background(), []string{"visa"}, d.body).Body)
		if got.Text("messageType") != "RRes" {
			s.t.Errorf("what was refused with 403 is refused again: %v", got)
			continue
		}
		s.acked(d.of, d.body, true, got)
	}
	s.again = nil
}

// acked notes that an RReq was acknowledged.
func (s *sim) acked(f *fact, body []byte, right bool, got authtest.Object) {
	switch {
	case !right:
		s.t.Errorf("an RReq that is not right was acknowledged (I7)")
	case f.first != nil && s.Clock().Before(f.expires):
		s.t.Errorf("a second RReq was acknowledged (I2)")
	case f.status == "Y" || f.status == "N":
		s.t.Errorf("an RReq after a final ARes was acknowledged (I4)")
	case f.erro:
		s.t.Errorf("an RReq after the directory's Erro was acknowledged (I4)")
	case (f.status == "") != (got.Text("resultsStatus") == "03"):
		s.t.Errorf("resultsStatus %v after an ARes %q", got["resultsStatus"], f.status)
	}
	keep := 300 * time.Second
	if f.status == "D" {
		keep = 20 * time.Minute
	}
	f.first, f.expires = body, s.Clock().Add(keep)
}

// giveUp posts the directory's Erro.
func (s *sim) giveUp(f *fact) {
	body := authtest.Object{
		"messageType": "Erro", "messageVersion": f.areq["messageVersion"], "errorCode": "203", "errorComponent": "D",
		"errorDescription": "x", "errorDetail": "y", "threeDSServerTransID": f.areq["threeDSServerTransID"],
	}.JSON()
	if got := s.nodes[0].Receive(context.Background(), []string{"visa"}, body); len(got.Body) != 0 {
		s.t.Errorf("an Erro was answered with %s", got.Body)
	}
	s.given = f
}

// noteGivenUp asks whether the Erro counts: the store may have failed.
func (s *sim) noteGivenUp() {
	f := s.given
	if f == nil {
		return
	}
	s.given = nil
	bad, _ := errors.AsType[message.Error](errorOf(s.nodes[0].Result(context.Background(), f.owner, s.idOf(f))))
	f.erro = f.erro || bad.Component == "D"
}

func errorOf(_ []byte, err error) error { return err }

func (s *sim) idOf(f *fact) []byte {
	return authtest.Object{"threeDSServerTransID": f.areq["threeDSServerTransID"]}.JSON()
}

// read looks at a result as another than its owner.
func (s *sim) read(f *fact) {
	stranger := authtest.Shop
	if f.owner == authtest.Shop {
		stranger = authtest.Other
	}
	if _, err := s.node().Result(context.Background(), stranger, s.idOf(f)); authtest.CodeOf(err) != "203" {
		s.t.Errorf("another merchant's /postauth: %v (I3)", err)
	}
}

// invariants are checked after every step, on both nodes.
func (s *sim) invariants() {
	for id, n := range s.Sends {
		if n > 1 {
			s.t.Errorf("%d AReqs for %s (I5)", n, id)
		}
	}
	for _, f := range s.facts {
		if f.first == nil {
			continue
		}
		got, err := s.node().Result(context.Background(), f.owner, s.idOf(f))
		// The clock of the node that wrote the result and that of the one that reads it may both be off.
		const tolerance = 2*transid.MaxSkew + time.Second
		switch left := f.expires.Sub(s.Clock()); {
		case left > tolerance && (err != nil || string(got) != string(f.first)):
			s.t.Errorf("acknowledged result: got %q, %v; want %q (I1, I2)", got, err, f.first)
		case left < -tolerance && authtest.CodeOf(err) != "203":
			s.t.Errorf("result after its time: %q %v (I1)", got, err)
		}
	}
}
