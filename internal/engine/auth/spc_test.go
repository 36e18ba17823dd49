package auth_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// signed is an assertion as browsers write it.
const signed = `{"id":"Y3JlZGVudGlhbA","type":"public-key","response":{"signature":"c2ln"}}`

// spcPage begins an authentication of a browser with SPC, up to the browser's dialog, and returns what is sent from then
// on. The first AReq is answered S, the second with a status.
func spcPage(t *testing.T, w *world, status string, parts ...object) (*pageTest, *sentAReqs) {
	t.Helper()
	p, sent := offerOfPage(t, w, status, parts...)
	said := maps.Clone(seen)
	said["spc"] = "true"
	var err error
	if _, p.binding, err = p.BeginBrowser(t.Context(), p.token, "", said); err != nil {
		t.Fatal(err)
	}
	p.await(auth.StepSPC)
	return p, sent
}

// offerOfPage creates an authentication of a browser whose request offers SPC.
func offerOfPage(t *testing.T, w *world, status string, parts ...object) (*pageTest, *sentAReqs) {
	t.Helper()
	sent := new(sentAReqs)
	w.sent = sent.add
	w.reply = func(_ string, areq object) ([]byte, error) {
		if areq.text("threeDSRequestorSpcSupport") == "Y" && areq["threeDSRequestorPriorAuthenticationInfo"] == nil {
			return aresS(areq), nil
		}
		return ares(areq, status), nil
	}
	e := w.browserEngine()
	o := four()
	for _, part := range append([]object{offered, {"messageVersion": "2.3.1", "acquirerCountryCode": "208", "acquirerCountryCodeSource": "01"}}, parts...) {
		maps.Copy(o, part)
	}
	a, access, err := e.Create(t.Context(), profiled, o.json())
	if err != nil {
		t.Fatal(told(err))
	}
	return &pageTest{world: w, Engine: e, t: t, id: a.ID, token: access.Token}, sent
}

// sentAReqs are the AReqs that have left.
type sentAReqs struct {
	mu  sync.Mutex
	all []object
}

func (s *sentAReqs) add(areq []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var o object
	if err := json.Unmarshal(areq, &o); err != nil {
		panic(err)
	}
	s.all = append(s.all, o)
}

func (s *sentAReqs) list() []object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// answer has the page tell what became of the dialog.
func (p *pageTest) answer(e *auth.Engine, a auth.SPCAnswer) (*auth.BrowserView, error) {
	return e.AnswerSPC(p.t.Context(), p.token, p.binding, a)
}

var confirmed = auth.SPCAnswer{Assertion: json.RawMessage(signed)}

// TestB8SecondAReqOfAPage: it has a fresh id, what became of SPC, a reference to the first ARes, and is otherwise the first
// one. The requestor sees one authentication under one id, with the second answer.
func TestB8SecondAReqOfAPage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		answer auth.SPCAnswer
		want   object // members of the second AReq
		parts  []object
	}{
		{name: "confirmed", answer: confirmed},
		{name: "failed", answer: auth.SPCAnswer{Incomplete: "01"}, want: object{"spcIncompInd": "01"}},
		{name: "cancelled", answer: auth.SPCAnswer{Incomplete: "02"}, want: object{"spcIncompInd": "02"}},
		{name: "beside what the requestor knows", answer: confirmed, parts: []object{{
			"threeDSRequestorAuthenticationInfo": []object{{"threeDSReqAuthMethod": "02"}},
		}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := spcWorld()
			p, sent := spcPage(t, w, "Y", test.parts...)
			v := p.await(auth.StepSPC)
			if v.SPC == nil || !bytes.Contains(v.SPC.Credentials, []byte("bank.example")) || !bytes.Contains(v.SPC.Transaction, []byte(`"value":"10.99"`)) || v.Challenge != nil {
				t.Errorf("the dialog gets %+v", v)
			}
			if a, err := p.Authentication(t.Context(), profiled, p.id); err != nil || a.Status != api.StatusInProgress {
				t.Errorf("while the dialog is shown: %+v, %v", a, err)
			}
			after, err := p.answer(p.Engine, test.answer)
			if err != nil || after.Version <= v.Version {
				t.Fatal(after, v, err)
			}
			if end := p.await(auth.StepEnd); end.End != "completed" || end.Version <= after.Version && after.Step != auth.StepEnd {
				t.Errorf("%+v", end)
			}
			all := sent.list()
			if len(all) != 2 {
				t.Fatalf("%d AReqs left", len(all))
			}
			first, second := all[0], all[1]
			id := second.text("threeDSServerTransID")
			if id == p.id || w.sends[p.id] != 1 || w.sends[id] != 1 {
				t.Errorf("the second has the id %s of %s, %v", id, p.id, w.sends)
			}
			prior := second["threeDSRequestorPriorAuthenticationInfo"].([]any)
			last := object(prior[len(prior)-1].(map[string]any))
			if last.text("threeDSReqPriorAuthMethod") != "05" || last.text("threeDSReqPriorRef") != "ac5"+p.id[3:] || last.text("threeDSReqPriorAuthTimestamp") != "202611201200" {
				t.Errorf("prior %v", prior)
			}
			infos, _ := second["threeDSRequestorAuthenticationInfo"].([]any)
			isConfirmed := false
			for _, info := range infos {
				o := object(info.(map[string]any))
				data, _ := json.Marshal(o["threeDSReqAuthData"])
				isConfirmed = isConfirmed || o.text("threeDSReqAuthMethod") == "09" && strings.Contains(string(data), `"signature":"c2ln"`)
			}
			if isConfirmed != (test.answer.Incomplete == "") {
				t.Errorf("authentication %v", infos)
			}
			if second.text("spcIncompInd") != test.want.text("spcIncompInd") {
				t.Errorf("spcIncompInd %q, want %q", second.text("spcIncompInd"), test.want.text("spcIncompInd"))
			}
			for _, name := range []string{"threeDSServerTransID", "threeDSRequestorPriorAuthenticationInfo", "threeDSRequestorAuthenticationInfo", "spcIncompInd"} {
				delete(first, name)
				delete(second, name)
			}
			if string(first.json()) != string(second.json()) {
				t.Errorf("all else is not as in the first:\n%s\n%s", first.json(), second.json())
			}
			a, err := p.Authentication(t.Context(), profiled, p.id)
			if err != nil || a.ID != p.id || a.Outcome == nil || a.Outcome.Result != api.ResultAuthenticated || !bytes.Contains(a.ARes, []byte(id)) {
				t.Errorf("%+v, %v", a, err)
			}
			if _, err := p.Authentication(t.Context(), profiled, id); !errors.Is(err, auth.ErrNoAuthentication) {
				t.Errorf("the second id names %v", err)
			}
		})
	}
}

// TestB8OfferOfAPage: SPC is offered if the requestor asks for it, the issuer has it, and the page says that its browser
// has it. What the page tells beside goes nowhere.
func TestB8OfferOfAPage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name                    string
		spc, script, isStrict   bool
		isLacking, isOldVersion bool // the issuer has no SPC, the version is before it
		want                    bool
	}{
		{name: "page and issuer have it", spc: true, script: true, want: true},
		{name: "a strict key", spc: true, script: true, isStrict: true, want: true},
		{name: "the page does not say so", script: true},
		{name: "without JavaScript", spc: true},
		{name: "the issuer lacks it", spc: true, script: true, isLacking: true},
		{name: "the issuer lacks it, a strict key", spc: true, script: true, isLacking: true, isStrict: true},
		{name: "2.2.0", spc: true, script: true, isOldVersion: true},
	} {
		w := spcWorld()
		if test.isLacking {
			w.hits[0].Info = allVersions("")
		}
		var sent object
		w.reply = func(_ string, areq object) ([]byte, error) {
			sent = areq
			return ares(areq, "Y"), nil
		}
		e, acc := w.browserEngine(), *profiled
		acc.Strict = test.isStrict
		o := four()
		maps.Copy(o, offered)
		maps.Copy(o, object{"messageVersion": "2.3.1", "acquirerCountryCode": "208", "acquirerCountryCodeSource": "01"})
		if test.isOldVersion {
			o["messageVersion"] = "2.2.0"
		}
		a, access, err := e.Create(t.Context(), &acc, o.json())
		if err != nil {
			t.Fatal(test.name, told(err))
		}
		p := &pageTest{world: w, Engine: e, t: t, id: a.ID, token: access.Token}
		said := maps.Clone(seen)
		maps.Copy(said, auth.BrowserData{"spcIncompInd": "02", "threeDSRequestorAuthenticationInfo": "x"})
		if test.spc {
			said["spc"] = "true"
		}
		if !test.script {
			said["browserJavascriptEnabled"] = "false"
		}
		if _, p.binding, err = p.BeginBrowser(t.Context(), p.token, "", said); err != nil {
			t.Fatal(err)
		}
		if v := p.await(auth.StepEnd); v.End != "completed" {
			t.Errorf("%s: %+v", test.name, v)
		}
		for _, name := range []string{"threeDSRequestorSpcSupport", "payeeOrigin"} {
			if (sent[name] != nil) != test.want || sent == nil {
				t.Errorf("%s: the AReq has %s: %v", test.name, name, sent[name])
			}
		}
		for _, name := range []string{"spc", "spcIncompInd", "threeDSRequestorAuthenticationInfo"} {
			if sent[name] != nil {
				t.Errorf("%s: the AReq has %s: %v", test.name, name, sent[name])
			}
		}
		if test.isLacking && !slices.ContainsFunc(a.Normalised, func(c api.Correction) bool { return c.Pointer == "/threeDSRequestorSpcSupport" }) {
			t.Errorf("%s: the back end is not told: %+v", test.name, a.Normalised)
		}
	}
}

// TestI5OneSecondAReqHoweverOftenPagesAnswer: on two nodes, many times at once, and again when it has left.
func TestI5OneSecondAReqHoweverOftenPagesAnswer(t *testing.T) {
	t.Parallel()
	w := spcWorld()
	p, sent := spcPage(t, w, "Y")
	nodes := []*auth.Engine{p.Engine, w.browserEngine()}
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			answer := confirmed
			if i%3 == 0 {
				answer = auth.SPCAnswer{Incomplete: "02"}
			}
			if _, err := p.answer(nodes[i%2], answer); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	p.await(auth.StepEnd)
	if v, err := p.answer(nodes[1], confirmed); err != nil || v.Step != auth.StepEnd {
		t.Errorf("after the end: %+v, %v", v, err)
	}
	if n := len(sent.list()); n != 2 {
		t.Errorf("%d AReqs left, want 2", n)
	}
}

// TestI5RowsThatWerePutBack: each of the two rows alone keeps a second AReq from leaving twice, should the other one have
// been put back as it was before.
func TestI5RowsThatWerePutBack(t *testing.T) {
	t.Parallel()
	for _, row := range []string{"the authentication", "the second AReq"} {
		synctest.Test(t, func(t *testing.T) {
			w := spcWorld()
			p, sent := spcPage(t, w, "Y")
			w.mu.Lock()
			before := maps.Clone(w.txns)
			w.mu.Unlock()
			if _, err := p.answer(p.Engine, confirmed); err != nil {
				t.Fatal(err)
			}
			p.await(auth.StepEnd)
			w.mu.Lock()
			for id, was := range before {
				if (id == p.id) == (row == "the authentication") {
					was.Version = w.txns[id].Version + 1
					w.txns[id] = was
				}
			}
			w.mu.Unlock()
			for _, e := range []*auth.Engine{p.Engine, w.browserEngine()} {
				_, _ = p.answer(e, confirmed)
			}
			synctest.Wait() // an AReq would leave in another goroutine
			if n := len(sent.list()); n != 2 {
				t.Errorf("%s was put back: %d AReqs left, want 2", row, n)
			}
			w.pass(time.Hour) // the tasks end, since the time for SPC is over
			time.Sleep(time.Second)
		})
	}
}

// TestB8TimeForTheDialogIsOver: a page that never comes back, and one that answers late, end in one second AReq that says
// so. It has no assertion, nor what the requestor knew of the shopper.
func TestB8TimeForTheDialogIsOver(t *testing.T) {
	t.Parallel()
	for _, comesLate := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := spcWorld()
			p, sent := spcPage(t, w, "Y", object{"threeDSRequestorAuthenticationInfo": []object{{"threeDSReqAuthMethod": "02"}}})
			other := w.browserEngine()
			if _, err := other.ViewBrowser(t.Context(), p.token, p.binding, -1); err != nil { // two nodes have the token
				t.Fatal(err)
			}
			w.pass(539 * time.Second)
			time.Sleep(time.Second)
			if n := len(sent.list()); n != 1 {
				t.Fatalf("%d AReqs before the time was over", n)
			}
			w.pass(2 * time.Second)
			if comesLate {
				if _, err := p.answer(p.Engine, confirmed); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
			all := sent.list()
			if len(all) != 2 {
				t.Fatalf("%d AReqs, want 2", len(all))
			}
			if second := all[1]; second.text("spcIncompInd") != "03" || second["threeDSRequestorAuthenticationInfo"] != nil {
				t.Errorf("the second AReq is %s", second.json())
			}
			if v, err := p.answer(other, confirmed); err != nil || v.End != "completed" || len(sent.list()) != 2 {
				t.Errorf("an answer after that: %+v, %v, %d AReqs", v, err, len(sent.list()))
			}
		})
	}
}

// TestB8ResultOfTheSecondAReq: a result counts under the id of the second AReq, once that has left. One that names the
// first is acknowledged then, and changes nothing.
func TestB8ResultOfTheSecondAReq(t *testing.T) {
	t.Parallel()
	w := spcWorld()
	p, sent := spcPage(t, w, "C")
	first := sent.list()[0]
	second := w.secondID(t)
	early := maps.Clone(first)
	early["threeDSServerTransID"] = second
	if got := p.Receive(t.Context(), []string{"visa"}, rreq(early, "Y", 1).json()); got.Refused == nil {
		t.Errorf("a result before the second AReq: %s", got.Body)
	}
	if _, err := p.answer(p.Engine, confirmed); err != nil {
		t.Fatal(err)
	}
	v := p.await(auth.StepChallenge)
	text, err := base64.RawURLEncoding.DecodeString(v.Challenge.CReq)
	if creq := parse(t, text); err != nil || creq.text("threeDSServerTransID") != second || creq.text("acsTransID") != "ac5"+second[3:] {
		t.Errorf("CReq %s, %v", text, err)
	}
	timedOut := rreq(first, "N", 1)
	timedOut["transStatusReason"], timedOut["challengeCancel"] = "14", "05"
	got := p.Receive(t.Context(), []string{"visa"}, timedOut.json())
	if got.Refused != nil || !bytes.Contains(got.Body, []byte(`"resultsStatus":"01"`)) {
		t.Errorf("a result of the first: %s", got.Body)
	}
	erro := object{
		"messageType": "Erro", "messageVersion": "2.3.1", "threeDSServerTransID": p.id, "errorCode": "402", "errorComponent": "D",
		"errorDescription": "x", "errorDetail": "x",
	}
	p.Receive(t.Context(), []string{"visa"}, erro.json())
	if v := p.await(auth.StepChallenge); v.Challenge == nil {
		t.Errorf("after messages about the first: %+v", v)
	}
	if got := p.Receive(t.Context(), []string{"mastercard"}, rreq(sent.list()[1], "Y", 1).json()); got.Refused == nil {
		t.Errorf("a result from another directory: %s", got.Body)
	}
	if got := p.Receive(t.Context(), []string{"visa"}, rreq(sent.list()[1], "Y", 1).json()); got.Refused != nil {
		t.Fatalf("the result: %s", got.Body)
	}
	a, err := p.Authentication(t.Context(), profiled, p.id)
	if err != nil || a.ID != p.id || a.Status != api.StatusCompleted || a.Outcome.Result != api.ResultAuthenticated {
		t.Errorf("%+v, %v", a, err)
	}
	if id := a.Outcome.Authorisation.ThreeDSServerTransID; string(id) != second {
		t.Errorf("the authorisation names %v, want %s", id, second)
	}
	if v := p.await(auth.StepEnd); v.End != "completed" {
		t.Errorf("%+v", v)
	}
}

// interposed has something happen just before the first change of a row.
type interposed struct {
	txn.Store
	once   sync.Once
	before func()
}

func (s *interposed) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	s.once.Do(s.before)
	return s.Store.Update(ctx, was, change)
}

// TestB8ResultCrossesTheSecondAReq: messages about the first AReq that were read before the second one left, and are to be
// stored after it, change nothing. The directory server hears that its result has come.
func TestB8ResultCrossesTheSecondAReq(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"RReq", "Erro"} {
		w := spcWorld()
		p, sent := spcPage(t, w, "C")
		about := rreq(sent.list()[0], "N", 1)
		about["transStatusReason"], about["challengeCancel"] = "14", "05"
		if message == "Erro" {
			about = object{
				"messageType": "Erro", "messageVersion": "2.3.1", "threeDSServerTransID": p.id, "errorCode": "402", "errorComponent": "D",
				"errorDescription": "x", "errorDetail": "x",
			}
		}
		slow := w.browserEngine()
		slow.Store = &interposed{Store: w, before: func() {
			if _, err := p.answer(p.Engine, confirmed); err != nil {
				t.Error(err)
			}
			p.await(auth.StepChallenge)
		}}
		got := slow.Receive(t.Context(), []string{"visa"}, about.json())
		if message == "RReq" && (got.Refused != nil || !bytes.Contains(got.Body, []byte(`"resultsStatus":"01"`))) {
			t.Errorf("%s: %s", message, got.Body)
		}
		if v := p.await(auth.StepChallenge); v.Challenge == nil {
			t.Errorf("%s: %+v", message, v)
		}
		if got := p.Receive(t.Context(), []string{"visa"}, rreq(sent.list()[1], "Y", 1).json()); got.Refused != nil {
			t.Errorf("%s: the result of the second: %s", message, got.Body)
		}
	}
}

// TestB8IssuerEndsTheFirst: an issuer that has waited for the second AReq in vain ends the authentication. No second AReq
// leaves after that (SP-11).
func TestB8IssuerEndsTheFirst(t *testing.T) {
	t.Parallel()
	w := spcWorld()
	p, sent := spcPage(t, w, "Y")
	timedOut := rreq(sent.list()[0], "N", 1)
	timedOut["transStatusReason"], timedOut["challengeCancel"] = "14", "05"
	if got := p.Receive(t.Context(), []string{"visa"}, timedOut.json()); got.Refused != nil {
		t.Fatalf("%s", got.Body)
	}
	if v, err := p.answer(p.Engine, confirmed); err != nil || v.End != "completed" || len(sent.list()) != 1 {
		t.Errorf("%+v, %v, %d AReqs", v, err, len(sent.list()))
	}
	if a, err := p.Authentication(t.Context(), profiled, p.id); err != nil || a.Outcome.Result != api.ResultAbandoned {
		t.Errorf("%+v, %v", a.Outcome, err)
	}
}

// TestB8CancelledWhileTheDialogIsShown: no second AReq leaves then, not even when the time is over.
func TestB8CancelledWhileTheDialogIsShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := spcWorld()
		p, sent := spcPage(t, w, "Y")
		if v, err := p.CancelBrowser(t.Context(), p.token, p.binding); err != nil || v.End != "cancelled" {
			t.Fatal(v, err)
		}
		if v, err := p.answer(p.Engine, confirmed); err != nil || v.End != "cancelled" {
			t.Errorf("%+v, %v", v, err)
		}
		w.pass(541 * time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(sent.list()); n != 1 {
			t.Errorf("%d AReqs", n)
		}
	})
}

// TestB8SecondAnswerThatAsksAgain: an issuer that answers the second AReq with S, too, is refused.
func TestB8SecondAnswerThatAsksAgain(t *testing.T) {
	t.Parallel()
	w := spcWorld()
	p, sent := spcPage(t, w, "Y")
	w.mu.Lock()
	w.reply = func(_ string, areq object) ([]byte, error) { return aresS(areq), nil }
	w.mu.Unlock()
	if _, err := p.answer(p.Engine, confirmed); err != nil {
		t.Fatal(err)
	}
	if v := p.await(auth.StepEnd); v.End != "failed" || len(sent.list()) != 2 {
		t.Errorf("%+v", v)
	}
	if erros := w.reported(); len(erros) != 1 || erros[0].Detail != "transStatus" {
		t.Errorf("the directory is told %+v", erros)
	}
}

// TestB8NobodyElseSendsTheSecondAReq: the requestor cannot, by either API, nor a browser with another secret.
func TestB8NobodyElseSendsTheSecondAReq(t *testing.T) {
	t.Parallel()
	w := spcWorld()
	p, sent := spcPage(t, w, "Y")
	ref := "ac5" + p.id[3:]
	if _, err := try(t, p.Engine, shop, offered, asserted(ref)); err == nil {
		t.Error("/auth sends it")
	}
	o := four()
	maps.Copy(o, asserted(ref))
	maps.Copy(o, object{"messageVersion": "2.3.1", "acquirerCountryCode": "208"})
	if _, _, err := p.Engine.Create(t.Context(), profiled, o.json()); err == nil {
		t.Error("/authentications sends it")
	}
	used := areq231(w.secondID(t), nil)
	if _, _, err := p.Authenticate(t.Context(), shop, used.json()); err == nil {
		t.Error("the id of the second AReq can be used")
	}
	if _, err := p.AnswerSPC(t.Context(), p.token, strings.Repeat("A", 43), confirmed); !errors.Is(err, auth.ErrOtherBrowser) {
		t.Errorf("another browser: %v", err)
	}
	if n := len(sent.list()); n != 1 {
		t.Errorf("%d AReqs left", n)
	}
}

// TestB8CardGoesWithTheSecondAReq: the card waits in the row of the second AReq, under the secret of the token, and the
// row of the authentication has nothing of it. It goes when that AReq leaves, or the row with it 11 minutes after the ARes.
func TestB8CardGoesWithTheSecondAReq(t *testing.T) {
	t.Parallel()
	w := spcWorld()
	p, _ := spcPage(t, w, "C")
	id := w.secondID(t)
	w.mu.Lock()
	first, second := w.txns[p.id], w.txns[id]
	w.mu.Unlock()
	_, record, _ := bytes.Cut(first.Data, []byte("{"))
	var kept struct{ Page struct{ Card []byte } }
	if err := json.Unmarshal(append([]byte("{"), record...), &kept); err != nil || kept.Page.Card != nil {
		t.Errorf("the row of the authentication keeps %s, %v", kept.Page.Card, err)
	}
	if !bytes.Contains(second.Data, []byte(`"Card"`)) || bytes.Contains(second.Data, []byte(pan)) {
		t.Errorf("the row of the second AReq has %s", second.Data)
	}
	if rest := second.Expires.Sub(w.clock()); rest > 11*time.Minute {
		t.Errorf("the row stays for %s", rest)
	}
	if _, err := p.answer(p.Engine, confirmed); err != nil {
		t.Fatal(err)
	}
	p.await(auth.StepChallenge)
	w.mu.Lock()
	second = w.txns[id]
	w.mu.Unlock()
	if bytes.Contains(second.Data, []byte(`"Card"`)) || second.Expires.Sub(w.clock()) < 24*time.Hour {
		t.Errorf("the row has %s until %s", second.Data, second.Expires)
	}
}

// TestB8OneSecondAReqOnEachStore: two nodes that share a real store send one second AReq, and the result of that reaches the
// authentication.
func TestB8OneSecondAReqOnEachStore(t *testing.T) {
	eachRealStore(t, func(t *testing.T, w *world, st realStore, keyFile string) {
		ring, err := keyring.LoadOrCreate(keyFile)
		if err != nil {
			t.Fatal(err)
		}
		w.hits = spcWorld().hits
		w.onStore = func(e *auth.Engine) { e.Store, e.Sealer = st, ring }
		p, sent := spcPage(t, w, "C")
		nodes := []*auth.Engine{p.Engine, w.browserEngine()}
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				if _, err := p.answer(nodes[i%2], confirmed); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		p.await(auth.StepChallenge)
		all := sent.list()
		if len(all) != 2 {
			t.Fatalf("%d AReqs left, want 2", len(all))
		}
		if got := nodes[1].Receive(t.Context(), []string{"visa"}, rreq(all[1], "Y", 1).json()); got.Refused != nil {
			t.Fatalf("%s", got.Body)
		}
		a, err := p.Authentication(t.Context(), profiled, p.id)
		if err != nil || a.Status != api.StatusCompleted || a.Outcome.Result != api.ResultAuthenticated {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// TestB8JournalCatchesUp: what the journal lacks of two AReqs comes from the row: each message is that of its time.
func TestB8JournalCatchesUp(t *testing.T) {
	t.Parallel()
	w := spcWorld()
	p, _ := spcPage(t, w, "Y")
	w.pass(2 * time.Second)
	if _, err := p.answer(p.Engine, confirmed); err != nil {
		t.Fatal(err)
	}
	p.await(auth.StepEnd)
	row, err := w.Get(t.Context(), p.id)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range p.JournalEntries(row, w.clock(), true, nil) {
		for _, step := range entry.Steps {
			var m object
			if step.Message != nil {
				m = parse(t, step.Message)
			}
			got = append(got, fmt.Sprint(step.At.Sub(entry.Record.Created), " ", step.Step, " ", m.text("threeDSServerTransID") == p.id, " ", m.text("transStatus")))
		}
		if entry.Record.ID != p.id || entry.Record.Status != "completed" {
			t.Errorf("%s has the record %+v", entry.Kind, entry.Record)
		}
	}
	want := []string{
		"0s request false ", "0s lookup false ", "0s answered false ", "0s areq true ", "0s ares true S",
		"2s spc.answer false ", "2s areq false ", "2s ares false Y",
	}
	if !slices.Equal(got, want) {
		t.Errorf("steps\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	second, err := w.Get(t.Context(), w.secondID(t))
	if err != nil || len(p.JournalEntries(second, w.clock(), true, nil)) != 0 {
		t.Errorf("the row of the second AReq is in the journal: %v", err)
	}
}

// secondID returns the id of the one second AReq that there is.
func (w *world) secondID(t *testing.T) string {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, row := range w.txns {
		if row.State == store.State("second") {
			return id
		}
	}
	t.Fatal("there is no row of a second AReq")
	return ""
}

// TestB8AssertionOfAnyBytesFails: what is no JSON of UTF-8 counts as a dialog that has failed, and stops nothing.
func TestB8AssertionOfAnyBytesFails(t *testing.T) {
	t.Parallel()
	for _, assertion := range []string{"{\"id\":\"\xff\"}", "{\"\xfc\":1}", `{"id":"\ud800"}`, `{"id":"a","id":"b"}`} {
		p, sent := spcPage(t, spcWorld(), "Y")
		if _, err := p.answer(p.Engine, auth.SPCAnswer{Assertion: json.RawMessage(assertion)}); err != nil {
			t.Fatal(err)
		}
		p.await(auth.StepEnd)
		if all := sent.list(); len(all) != 2 {
			t.Errorf("%q: %d AReqs", assertion, len(all))
		}
	}
}
