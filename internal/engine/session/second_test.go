package session_test

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
	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

var confirmed = session.SPCAnswer{Assertion: json.RawMessage(authtest.Signed)}

// TestB8SecondAReqOfAPage: the second AReq has a fresh id, the outcome of SPC and a reference to the first ARes.
// Otherwise it is like the first one. The requestor sees one authentication under one id, with the second answer.
func TestB8SecondAReqOfAPage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		answer session.SPCAnswer
		want   authtest.Object // members of the second AReq
		parts  []authtest.Object
	}{
		{name: "confirmed", answer: confirmed},
		{name: "failed", answer: session.SPCAnswer{Incomplete: "01"}, want: authtest.Object{"spcIncompInd": "01"}},
		{name: "cancelled", answer: session.SPCAnswer{Incomplete: "02"}, want: authtest.Object{"spcIncompInd": "02"}},
		{name: "beside what the requestor knows", answer: confirmed, parts: []authtest.Object{{
			"threeDSRequestorAuthenticationInfo": []authtest.Object{{"threeDSReqAuthMethod": "02"}},
		}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := authtest.SPCWorld()
			p, sent := authtest.NewSPCPage(t, w, "Y", test.parts...)
			v := p.Await(session.StepSPC)
			if v.SPC == nil || !bytes.Contains(v.SPC.Credentials, []byte("bank.example")) ||
				!bytes.Contains(v.SPC.Transaction, []byte(`"value":"10.99"`)) || v.Challenge != nil {
				t.Errorf("the dialog gets %+v", v)
			}
			if a, err := p.Authentication(t.Context(), authtest.Profiled, p.ID); err != nil || a.Status != api.StatusInProgress {
				t.Errorf("while the dialog is shown: %+v, %v", a, err)
			}
			after, err := p.Answer(p.Engine, test.answer)
			if err != nil || after.Version <= v.Version {
				t.Fatal(after, v, err)
			}
			if end := p.Await(session.StepEnd); end.End != "completed" || end.Version <= after.Version && after.Step != session.StepEnd {
				t.Errorf("%+v", end)
			}
			all := sent.List()
			if len(all) != 2 {
				t.Fatalf("%d AReqs left", len(all))
			}
			first, second := all[0], all[1]
			id := second.Text("threeDSServerTransID")
			if id == p.ID || w.Sends[p.ID] != 1 || w.Sends[id] != 1 {
				t.Errorf("the second has the id %s of %s, %v", id, p.ID, w.Sends)
			}
			prior := second["threeDSRequestorPriorAuthenticationInfo"].([]any)
			last := authtest.Object(prior[len(prior)-1].(map[string]any))
			if last.Text("threeDSReqPriorAuthMethod") != "05" || last.Text("threeDSReqPriorRef") != "ac5"+p.ID[3:] ||
				last.Text("threeDSReqPriorAuthTimestamp") != "202611201200" {
				t.Errorf("prior %v", prior)
			}
			infos, _ := second["threeDSRequestorAuthenticationInfo"].([]any)
			isConfirmed := false
			for _, info := range infos {
				o := authtest.Object(info.(map[string]any))
				data, _ := json.Marshal(o["threeDSReqAuthData"])
				isConfirmed = isConfirmed || o.Text("threeDSReqAuthMethod") == "09" && strings.Contains(string(data), `"signature":"c2ln"`)
			}
			if isConfirmed != (test.answer.Incomplete == "") {
				t.Errorf("authentication %v", infos)
			}
			if second.Text("spcIncompInd") != test.want.Text("spcIncompInd") {
				t.Errorf("spcIncompInd %q, want %q", second.Text("spcIncompInd"), test.want.Text("spcIncompInd"))
			}
			for _, name := range []string{"threeDSServerTransID", "threeDSRequestorPriorAuthenticationInfo", "threeDSRequestorAuthenticationInfo", "spcIncompInd"} {
				delete(first, name)
				delete(second, name)
			}
			if string(first.JSON()) != string(second.JSON()) {
				t.Errorf("all else is not as in the first:\n%s\n%s", first.JSON(), second.JSON())
			}
			a, err := p.Authentication(t.Context(), authtest.Profiled, p.ID)
			if err != nil || a.ID != p.ID || a.Outcome == nil || a.Outcome.Result != api.ResultAuthenticated || !bytes.Contains(a.ARes, []byte(id)) {
				t.Errorf("%+v, %v", a, err)
			}
			if _, err := p.Authentication(t.Context(), authtest.Profiled, id); !errors.Is(err, auth.ErrNoAuthentication) {
				t.Errorf("the second id names %v", err)
			}
		})
	}
}

// TestB8OfferOfAPage: SPC is offered if the requestor asks for it, the issuer supports it, and the page says that its
// browser supports it. Anything else that the page sends is dropped.
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
		w := authtest.SPCWorld()
		if test.isLacking {
			w.Hits[0].Info = authtest.AllVersions("")
		}
		var sent authtest.Object
		w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
			sent = areq
			return authtest.ARes(areq, "Y"), nil
		}
		e, acc := w.NewBrowserEngine(), *authtest.Profiled
		acc.Strict = test.isStrict
		o := authtest.Four()
		maps.Copy(o, authtest.Offered)
		maps.Copy(o, authtest.Object{"messageVersion": "2.3.1", "acquirerCountryCode": "208", "acquirerCountryCodeSource": "01"})
		if test.isOldVersion {
			o["messageVersion"] = "2.2.0"
		}
		a, access, err := e.Create(t.Context(), &acc, o.JSON())
		if err != nil {
			t.Fatal(test.name, authtest.Told(err))
		}
		p := &authtest.Page{World: w, Engine: e, T: t, ID: a.ID, Token: access.Token}
		said := maps.Clone(authtest.Seen)
		maps.Copy(said, session.BrowserData{"spcIncompInd": "02", "threeDSRequestorAuthenticationInfo": "x"})
		if test.spc {
			said["spc"] = "true"
		}
		if !test.script {
			said["browserJavascriptEnabled"] = "false"
		}
		if _, p.Binding, err = p.BeginBrowser(t.Context(), p.Token, "", said); err != nil {
			t.Fatal(err)
		}
		if v := p.Await(session.StepEnd); v.End != "completed" {
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

// TestI5OneSecondAReqHoweverOftenPagesAnswer: pages answer on two nodes, many times at once, and again when the AReq
// has been sent.
func TestI5OneSecondAReqHoweverOftenPagesAnswer(t *testing.T) {
	t.Parallel()
	w := authtest.SPCWorld()
	p, sent := authtest.NewSPCPage(t, w, "Y")
	nodes := []*session.Engine{p.Engine, w.NewBrowserEngine()}
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			answer := confirmed
			if i%3 == 0 {
				answer = session.SPCAnswer{Incomplete: "02"}
			}
			if _, err := p.Answer(nodes[i%2], answer); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	p.Await(session.StepEnd)
	if v, err := p.Answer(nodes[1], confirmed); err != nil || v.Step != session.StepEnd {
		t.Errorf("after the end: %+v, %v", v, err)
	}
	if n := len(sent.List()); n != 2 {
		t.Errorf("%d AReqs left, want 2", n)
	}
}

// TestI5RowsThatWerePutBack: each of the two rows alone prevents a second AReq from leaving twice, even if an attacker
// puts back an older version of the other row.
func TestI5RowsThatWerePutBack(t *testing.T) {
	t.Parallel()
	for _, row := range []string{"the authentication", "the second AReq"} {
		synctest.Test(t, func(t *testing.T) {
			w := authtest.SPCWorld()
			p, sent := authtest.NewSPCPage(t, w, "Y")
			w.Mu.Lock()
			before := maps.Clone(w.Txns)
			w.Mu.Unlock()
			if _, err := p.Answer(p.Engine, confirmed); err != nil {
				t.Fatal(err)
			}
			p.Await(session.StepEnd)
			w.Mu.Lock()
			for id, was := range before {
				if (id == p.ID) == (row == "the authentication") {
					was.Version = w.Txns[id].Version + 1
					w.Txns[id] = was
				}
			}
			w.Mu.Unlock()
			for _, e := range []*session.Engine{p.Engine, w.NewBrowserEngine()} {
				_, _ = p.Answer(e, confirmed)
			}
			synctest.Wait() // an AReq would leave in another goroutine
			if n := len(sent.List()); n != 2 {
				t.Errorf("%s was put back: %d AReqs left, want 2", row, n)
			}
			w.Pass(time.Hour) // the tasks end, since the time for SPC is over
			time.Sleep(time.Second)
		})
	}
}

// TestB8TimeForTheDialogIsOver: a page that never comes back, and one that answers late, end in one second AReq that
// says so. It has no assertion, and no data that the requestor knew about the shopper.
func TestB8TimeForTheDialogIsOver(t *testing.T) {
	t.Parallel()
	for _, comesLate := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := authtest.SPCWorld()
			p, sent := authtest.NewSPCPage(t, w, "Y", authtest.Object{"threeDSRequestorAuthenticationInfo": []authtest.Object{{"threeDSReqAuthMethod": "02"}}})
			other := w.NewBrowserEngine()
			if _, err := other.ViewBrowser(t.Context(), p.Token, p.Binding, -1); err != nil { // two nodes have the token
				t.Fatal(err)
			}
			w.Pass(539 * time.Second)
			time.Sleep(time.Second)
			if n := len(sent.List()); n != 1 {
				t.Fatalf("%d AReqs before the time was over", n)
			}
			w.Pass(2 * time.Second)
			if comesLate {
				if _, err := p.Answer(p.Engine, confirmed); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
			all := sent.List()
			if len(all) != 2 {
				t.Fatalf("%d AReqs, want 2", len(all))
			}
			if second := all[1]; second.Text("spcIncompInd") != "03" || second["threeDSRequestorAuthenticationInfo"] != nil {
				t.Errorf("the second AReq is %s", second.JSON())
			}
			if v, err := p.Answer(other, confirmed); err != nil || v.End != "completed" || len(sent.List()) != 2 {
				t.Errorf("an answer after that: %+v, %v, %d AReqs", v, err, len(sent.List()))
			}
		})
	}
}

// TestB8ResultOfTheSecondAReq: a result counts under the id of the second AReq, once that has left. One that names the
// first is acknowledged then, and changes nothing.
func TestB8ResultOfTheSecondAReq(t *testing.T) {
	t.Parallel()
	w := authtest.SPCWorld()
	p, sent := authtest.NewSPCPage(t, w, "C")
	first := sent.List()[0]
	second := secondID(w, t)
	early := maps.Clone(first)
	early["threeDSServerTransID"] = second
	if got := p.Receive(t.Context(), []string{"visa"}, authtest.RReq(early, "Y", 1).JSON()); got.Refused == nil {
		t.Errorf("a result before the second AReq: %s", got.Body)
	}
	if _, err := p.Answer(p.Engine, confirmed); err != nil {
		t.Fatal(err)
	}
	v := p.Await(session.StepChallenge)
	text, err := base64.RawURLEncoding.DecodeString(v.Challenge.CReq)
	if creq := authtest.Parse(t, text); err != nil || creq.Text("threeDSServerTransID") != second || creq.Text("acsTransID") != "ac5"+second[3:] {
		t.Errorf("CReq %s, %v", text, err)
	}
	timedOut := authtest.RReq(first, "N", 1)
	timedOut["transStatusReason"], timedOut["challengeCancel"] = "14", "05"
	got := p.Receive(t.Context(), []string{"visa"}, timedOut.JSON())
	if got.Refused != nil || !bytes.Contains(got.Body, []byte(`"resultsStatus":"01"`)) {
		t.Errorf("a result of the first: %s", got.Body)
	}
	erro := authtest.Object{
		"messageType": "Erro", "messageVersion": "2.3.1", "threeDSServerTransID": p.ID, "errorCode": "402", "errorComponent": "D",
		"errorDescription": "x", "errorDetail": "x",
	}
	p.Receive(t.Context(), []string{"visa"}, erro.JSON())
	if v := p.Await(session.StepChallenge); v.Challenge == nil {
		t.Errorf("after messages about the first: %+v", v)
	}
	if got := p.Receive(t.Context(), []string{"mastercard"}, authtest.RReq(sent.List()[1], "Y", 1).JSON()); got.Refused == nil {
		t.Errorf("a result from another directory: %s", got.Body)
	}
	if got := p.Receive(t.Context(), []string{"visa"}, authtest.RReq(sent.List()[1], "Y", 1).JSON()); got.Refused != nil {
		t.Fatalf("the result: %s", got.Body)
	}
	a, err := p.Authentication(t.Context(), authtest.Profiled, p.ID)
	if err != nil || a.ID != p.ID || a.Status != api.StatusCompleted || a.Outcome.Result != api.ResultAuthenticated {
		t.Errorf("%+v, %v", a, err)
	}
	if id := a.Outcome.Authorisation.ThreeDSServerTransID; string(id) != second {
		t.Errorf("the authorisation names %v, want %s", id, second)
	}
	if v := p.Await(session.StepEnd); v.End != "completed" {
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

// TestB8ResultCrossesTheSecondAReq: messages about the first AReq change nothing if they were read before the second
// one was sent, and would be stored after it. The directory server hears that its result has come.
func TestB8ResultCrossesTheSecondAReq(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"RReq", "Erro"} {
		w := authtest.SPCWorld()
		p, sent := authtest.NewSPCPage(t, w, "C")
		about := authtest.RReq(sent.List()[0], "N", 1)
		about["transStatusReason"], about["challengeCancel"] = "14", "05"
		if message == "Erro" {
			about = authtest.Object{
				"messageType": "Erro", "messageVersion": "2.3.1", "threeDSServerTransID": p.ID, "errorCode": "402", "errorComponent": "D",
				"errorDescription": "x", "errorDetail": "x",
			}
		}
		slow := w.NewBrowserEngine()
		slow.Store = &interposed{Store: w, before: func() {
			if _, err := p.Answer(p.Engine, confirmed); err != nil {
				t.Error(err)
			}
			p.Await(session.StepChallenge)
		}}
		got := slow.Receive(t.Context(), []string{"visa"}, about.JSON())
		if message == "RReq" && (got.Refused != nil || !bytes.Contains(got.Body, []byte(`"resultsStatus":"01"`))) {
			t.Errorf("%s: %s", message, got.Body)
		}
		if v := p.Await(session.StepChallenge); v.Challenge == nil {
			t.Errorf("%s: %+v", message, v)
		}
		if got := p.Receive(t.Context(), []string{"visa"}, authtest.RReq(sent.List()[1], "Y", 1).JSON()); got.Refused != nil {
			t.Errorf("%s: the result of the second: %s", message, got.Body)
		}
	}
}

// TestB8IssuerEndsTheFirst: an issuer that has waited for the second AReq in vain ends the authentication. No second
// AReq leaves after that (SP-11).
func TestB8IssuerEndsTheFirst(t *testing.T) {
	t.Parallel()
	w := authtest.SPCWorld()
	p, sent := authtest.NewSPCPage(t, w, "Y")
	timedOut := authtest.RReq(sent.List()[0], "N", 1)
	timedOut["transStatusReason"], timedOut["challengeCancel"] = "14", "05"
	if got := p.Receive(t.Context(), []string{"visa"}, timedOut.JSON()); got.Refused != nil {
		t.Fatalf("%s", got.Body)
	}
	if v, err := p.Answer(p.Engine, confirmed); err != nil || v.End != "completed" || len(sent.List()) != 1 {
		t.Errorf("%+v, %v, %d AReqs", v, err, len(sent.List()))
	}
	if a, err := p.Authentication(t.Context(), authtest.Profiled, p.ID); err != nil || a.Outcome.Result != api.ResultAbandoned {
		t.Errorf("%+v, %v", a.Outcome, err)
	}
}

// TestB8CancelledWhileTheDialogIsShown: no second AReq leaves then, not even when the time is over.
func TestB8CancelledWhileTheDialogIsShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := authtest.SPCWorld()
		p, sent := authtest.NewSPCPage(t, w, "Y")
		if v, err := p.CancelBrowser(t.Context(), p.Token, p.Binding); err != nil || v.End != "cancelled" {
			t.Fatal(v, err)
		}
		if v, err := p.Answer(p.Engine, confirmed); err != nil || v.End != "cancelled" {
			t.Errorf("%+v, %v", v, err)
		}
		w.Pass(541 * time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(sent.List()); n != 1 {
			t.Errorf("%d AReqs", n)
		}
	})
}

// TestB8SecondAnswerThatAsksAgain: an issuer that answers the second AReq with S, too, is refused.
func TestB8SecondAnswerThatAsksAgain(t *testing.T) {
	t.Parallel()
	w := authtest.SPCWorld()
	p, sent := authtest.NewSPCPage(t, w, "Y")
	w.Mu.Lock()
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) { return authtest.AResS(areq), nil }
	w.Mu.Unlock()
	if _, err := p.Answer(p.Engine, confirmed); err != nil {
		t.Fatal(err)
	}
	if v := p.Await(session.StepEnd); v.End != "failed" || len(sent.List()) != 2 {
		t.Errorf("%+v", v)
	}
	if erros := w.Reported(); len(erros) != 1 || erros[0].Detail != "transStatus" {
		t.Errorf("the directory is told %+v", erros)
	}
}

// TestB8NobodyElseSendsTheSecondAReq: the requestor cannot, by either API, nor a browser with another secret.
func TestB8NobodyElseSendsTheSecondAReq(t *testing.T) {
	t.Parallel()
	w := authtest.SPCWorld()
	p, sent := authtest.NewSPCPage(t, w, "Y")
	ref := "ac5" + p.ID[3:]
	if _, err := authtest.Try(t, p.Engine, authtest.Shop, authtest.Offered, authtest.Asserted(ref)); err == nil {
		t.Error("/auth sends it")
	}
	o := authtest.Four()
	maps.Copy(o, authtest.Asserted(ref))
	maps.Copy(o, authtest.Object{"messageVersion": "2.3.1", "acquirerCountryCode": "208"})
	if _, _, err := p.Engine.Create(t.Context(), authtest.Profiled, o.JSON()); err == nil {
		t.Error("/authentications sends it")
	}
	used := authtest.AReq231(secondID(w, t), nil)
	if _, _, err := p.Authenticate(t.Context(), authtest.Shop, used.JSON()); err == nil {
		t.Error("the id of the second AReq can be used")
	}
	if _, err := p.AnswerSPC(t.Context(), p.Token, strings.Repeat("A", 43), confirmed); !errors.Is(err, session.ErrOtherBrowser) {
		t.Errorf("another browser: %v", err)
	}
	if n := len(sent.List()); n != 1 {
		t.Errorf("%d AReqs left", n)
	}
}

// TestB8CardGoesWithTheSecondAReq: the card waits in the row of the second AReq, under the secret of the token, and the
// row of the authentication has nothing of it. The card is removed when that AReq is sent, or together with the row 11
// minutes after the ARes.
func TestB8CardGoesWithTheSecondAReq(t *testing.T) {
	t.Parallel()
	w := authtest.SPCWorld()
	p, _ := authtest.NewSPCPage(t, w, "C")
	id := secondID(w, t)
	w.Mu.Lock()
	first, second := w.Txns[p.ID], w.Txns[id]
	w.Mu.Unlock()
	_, record, _ := bytes.Cut(first.Data, []byte("{"))
	var kept struct{ Page struct{ Card []byte } }
	if err := json.Unmarshal(append([]byte("{"), record...), &kept); err != nil || kept.Page.Card != nil {
		t.Errorf("the row of the authentication keeps %s, %v", kept.Page.Card, err)
	}
	if !bytes.Contains(second.Data, []byte(`"Card"`)) || bytes.Contains(second.Data, []byte(authtest.PAN)) {
		t.Errorf("the row of the second AReq has %s", second.Data)
	}
	if rest := second.Expires.Sub(w.Clock()); rest > 11*time.Minute {
		t.Errorf("the row stays for %s", rest)
	}
	if _, err := p.Answer(p.Engine, confirmed); err != nil {
		t.Fatal(err)
	}
	p.Await(session.StepChallenge)
	w.Mu.Lock()
	second = w.Txns[id]
	w.Mu.Unlock()
	if bytes.Contains(second.Data, []byte(`"Card"`)) || second.Expires.Sub(w.Clock()) < 24*time.Hour {
		t.Errorf("the row has %s until %s", second.Data, second.Expires)
	}
}

// TestB8OneSecondAReqOnEachStore: two nodes that share a real store send one second AReq, and the result of that
// reaches the authentication.
func TestB8OneSecondAReqOnEachStore(t *testing.T) {
	eachRealStore(t, func(t *testing.T, w *authtest.World, st realStore, keyFile string) {
		ring, err := keyring.LoadOrCreate(keyFile)
		if err != nil {
			t.Fatal(err)
		}
		w.Hits = authtest.SPCWorld().Hits
		w.OnStore = func(e *session.Engine) { e.Store, e.Sealer = st, ring }
		p, sent := authtest.NewSPCPage(t, w, "C")
		nodes := []*session.Engine{p.Engine, w.NewBrowserEngine()}
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				if _, err := p.Answer(nodes[i%2], confirmed); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		p.Await(session.StepChallenge)
		all := sent.List()
		if len(all) != 2 {
			t.Fatalf("%d AReqs left, want 2", len(all))
		}
		if got := nodes[1].Receive(t.Context(), []string{"visa"}, authtest.RReq(all[1], "Y", 1).JSON()); got.Refused != nil {
			t.Fatalf("%s", got.Body)
		}
		a, err := p.Authentication(t.Context(), authtest.Profiled, p.ID)
		if err != nil || a.Status != api.StatusCompleted || a.Outcome.Result != api.ResultAuthenticated {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// TestB8JournalCatchesUp: what the journal lacks of two AReqs comes from the row: each message is that of its time.
func TestB8JournalCatchesUp(t *testing.T) {
	t.Parallel()
	w := authtest.SPCWorld()
	p, _ := authtest.NewSPCPage(t, w, "Y")
	w.Pass(2 * time.Second)
	if _, err := p.Answer(p.Engine, confirmed); err != nil {
		t.Fatal(err)
	}
	p.Await(session.StepEnd)
	row, err := w.Get(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range p.JournalEntries(row, w.Clock(), true, nil) {
		for _, step := range entry.Steps {
			var m authtest.Object
			if step.Message != nil {
				m = authtest.Parse(t, step.Message)
			}
			got = append(got, fmt.Sprint(step.At.Sub(entry.Record.Created), " ", step.Step, " ", m.Text("threeDSServerTransID") == p.ID, " ", m.Text("transStatus")))
		}
		if entry.Record.ID != p.ID || entry.Record.Status != "completed" {
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
	second, err := w.Get(t.Context(), secondID(w, t))
	if err != nil || len(p.JournalEntries(second, w.Clock(), true, nil)) != 0 {
		t.Errorf("the row of the second AReq is in the journal: %v", err)
	}
}

// secondID returns the id of the one second AReq that there is.
func secondID(w *authtest.World, t *testing.T) string {
	t.Helper()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for id, row := range w.Txns {
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
		p, sent := authtest.NewSPCPage(t, authtest.SPCWorld(), "Y")
		if _, err := p.Answer(p.Engine, session.SPCAnswer{Assertion: json.RawMessage(assertion)}); err != nil {
			t.Fatal(err)
		}
		p.Await(session.StepEnd)
		if all := sent.List(); len(all) != 2 {
			t.Errorf("%q: %d AReqs", assertion, len(all))
		}
	}
}
