package auth_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// loggedEngine returns an engine and what it logs.
func loggedEngine(w *authtest.World) (*session.Engine, *bytes.Buffer) {
	var log bytes.Buffer
	e := w.NewEngine(0)
	e.Log = slog.New(slog.NewTextHandler(&log, nil))
	return e, &log
}

// TestN3FailedAuthenticationSaysWithWhichErro: the outcome has the Erro of the directory server, our Erro about an
// answer that is not valid, or the Erro that comes in place of a result. It has no text that could be a card number.
// The log has the element.
func TestN3FailedAuthenticationSaysWithWhichErro(t *testing.T) {
	erroOf := func(req authtest.Object, code, component string) authtest.Object {
		return authtest.Object{
			"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": code, "errorComponent": component,
			"errorDescription": "Not valid", "errorDetail": "threeDSCompInd of 4000 0000 0000 0103",
			"threeDSServerTransID": req["threeDSServerTransID"],
		}
	}
	for _, tt := range []struct {
		name   string
		do     func(t *testing.T, w *authtest.World, e *session.Engine) string // returns the id
		want   api.OutcomeError
		action api.Action
	}{
		{"the directory server's", func(t *testing.T, w *authtest.World, e *session.Engine) string {
			w.Reply = func(_ string, o authtest.Object) ([]byte, error) { return erroOf(o, "305", "D").JSON(), nil }
			id := authtest.Preauth(t, e, authtest.Shop)
			_, _, _ = e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", id).JSON())
			return id
		}, api.OutcomeError{Component: "D", Code: "305", Description: "Not valid", Detail: "threeDSCompInd of ***"}, api.ActionDoNotAuthorise},
		{"for an answer that is not valid", func(t *testing.T, w *authtest.World, e *session.Engine) string {
			w.Reply = func(_ string, o authtest.Object) ([]byte, error) {
				return authtest.With(authtest.AResObject(o, "Y"), "eci", "055").JSON(), nil
			}
			id := authtest.Preauth(t, e, authtest.Shop)
			_, _, _ = e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", id).JSON())
			return id
		}, api.OutcomeError{Component: "S", Code: "203", Description: "Invalid response from Directory Server", Detail: "eci"}, api.ActionRetryLater},
		{"the issuer's in place of a result", func(t *testing.T, w *authtest.World, e *session.Engine) string {
			req := challengedAt(t, w, "2.2.0")
			e.Receive(t.Context(), []string{"visa"}, erroOf(req, "402", "A").JSON())
			return req.Text("threeDSServerTransID")
		}, api.OutcomeError{Component: "A", Code: "402", Description: "Not valid", Detail: "threeDSCompInd of ***"}, api.ActionRetryLater},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := authtest.NewWorld()
			e, log := loggedEngine(w)
			id := tt.do(t, w, e)
			a, err := e.Authentication(t.Context(), authtest.Shop, id)
			if err != nil {
				t.Fatal(err)
			}
			if a.Outcome.Error == nil || *a.Outcome.Error != tt.want || a.Outcome.Next.Action != tt.action {
				t.Errorf("%+v, %+v; want %+v, %s", a.Outcome.Error, a.Outcome.Next, tt.want, tt.action)
			}
			element, _, isSentence := strings.Cut(tt.want.Detail, " ")
			if !strings.Contains(log.String(), "errorDetail="+element) || isSentence && strings.Contains(log.String(), element+" of") {
				t.Errorf("want the element of the detail, and no more of a text of others: %s", log)
			}
			testOfJournal(t, w, e, id, a)
		})
	}
}

// TestCase37RefusedResultIsInTheAuthentication: the object and the event report an RReq that is not valid, both while a
// valid one may still come and afterwards.
func TestCase37RefusedResultIsInTheAuthentication(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	req := challengedAt(t, w, "2.2.0")
	id := req.Text("threeDSServerTransID")
	show := func() *auth.Authentication {
		t.Helper()
		a, err := e.Authentication(t.Context(), authtest.Shop, id)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := show(); a.ResultRefused != nil {
		t.Errorf("before: %+v", a.ResultRefused)
	}
	e.Receive(t.Context(), []string{"visa"}, authtest.With(authtest.RReq(req, "N", 1), "challengeCancel", "").JSON())
	want := &journal.Refusal{At: w.Clock(), Code: "203", Description: "The format or the value of an element is not valid.", Detail: "challengeCancel"}
	if a := show(); a.Status != api.StatusChallenge || !reflect.DeepEqual(a.ResultRefused, want) {
		t.Errorf("%s, %+v; want %+v", a.Status, a.ResultRefused, want)
	}
	e.Receive(t.Context(), []string{"visa"}, authtest.RReq(req, "Y", 1).JSON())
	if a := show(); a.Status != api.StatusCompleted || !reflect.DeepEqual(a.ResultRefused, want) {
		t.Errorf("%s, %+v; want %+v", a.Status, a.ResultRefused, want)
	}
}

// TestCase33AuthenticationSaysWhatWasAuthenticated: a merchant that receives a value can compare it with its order,
// even when only the journal still has it.
func TestCase33AuthenticationSaysWhatWasAuthenticated(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	id := authenticated(t, w, e, "Y")
	for range 2 {
		a, err := e.Authentication(t.Context(), authtest.Shop, id)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{a.Amount, a.Currency, a.Exponent, a.AcquirerMerchant, a.Merchant}
		sent := authtest.AReq("2.2.0", id)
		want := []string{
			sent.Text("purchaseAmount"), sent.Text("purchaseCurrency"), sent.Text("purchaseExponent"), sent.Text("acquirerMerchantID"),
			authtest.Shop.Merchant.Name,
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if e.Journal != nil {
			return
		}
		testOfJournal(t, w, e, id, a)
	}
}

// TestC18ChallengeThatNobodyWasShownIsAbandoned: if an issuer got no CReq although the browser got the form that opens
// its page, the issuer was not reached. If the browser did not get the form, the shopper had left before.
func TestC18ChallengeThatNobodyWasShownIsAbandoned(t *testing.T) {
	for isShown, want := range map[bool]api.Result{true: api.ResultBankUnreachable, false: api.ResultAbandoned} {
		w := authtest.NewWorld()
		var sent authtest.Object
		w.Reply = func(_ string, o authtest.Object) ([]byte, error) { sent = o; return authtest.ARes(o, "C"), nil }
		p := w.NewPage(t)
		p.Start()
		waittest.Until(t, "the challenge", func() bool {
			a, err := p.Authentication(t.Context(), authtest.Profiled, p.ID)
			return err == nil && a.Status == api.StatusChallenge
		})
		if isShown {
			p.Await(session.StepChallenge)
		}
		p.Receive(t.Context(), []string{"visa"}, authtest.With(authtest.RReq(sent, "N", 1), "challengeCancel", "05").JSON())
		a, err := p.Authentication(t.Context(), authtest.Profiled, p.ID)
		if err != nil || a.Outcome == nil || a.Outcome.Result != want {
			t.Errorf("shown %v: %+v, %v; want %s", isShown, a, err, want)
		}
	}
}

// TestC16FindingsOfAnAuthenticationAreThoseOfExplain: entry by entry, while its row is there and from the journal.
func TestC16FindingsOfAnAuthenticationAreThoseOfExplain(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	request := authtest.With(authtest.ThreeRI(), "merchantName", "A name that is longer than schemes like") // what Visa advises is not there either
	want := e.Explain(authtest.Profiled, request.JSON(), check.ExplainOptions{IsCreation: true})
	a, _, err := e.Create(t.Context(), authtest.Profiled, request.JSON())
	if err != nil || !want.IsValid || len(want.Findings) == 0 {
		t.Fatalf("%v, %+v", err, want)
	}
	text := func(all []*scheme.Finding) string {
		b, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if text(a.Findings) != text(want.Findings) || !strings.Contains(text(a.Findings), `"element":"`) {
		t.Errorf("%s, want %s", text(a.Findings), text(want.Findings))
	}
	row, err := w.Get(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range e.JournalEntries(row, w.Clock(), true, nil) {
		if got := text(entry.Record.Findings(scheme.Public("visa"))); got != text(want.Findings) {
			t.Errorf("%s of the journal: %s, want %s", entry.Kind, got, text(want.Findings))
		}
	}
}
