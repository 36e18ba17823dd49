package client_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/threedstest"
)

// appRequest is a request of an app with all that the protocol wants of it.
func appRequest(card string) map[string]any {
	return map[string]any{
		"acctNumber": card, "cardExpiryDate": "3012", "purchaseAmount": "1250", "purchaseCurrency": "978",
		"deviceChannel": "03", "threeRIInd": "03", "messageVersion": "2.2.0",
	}
}

// TestF1AuthenticateAndCancel walks over the operations as a back end does.
func TestF1AuthenticateAndCancel(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	c, ctx := server.Client(), t.Context()

	t.Run("F3 a request without a cardholder is answered with the result", func(t *testing.T) {
		a, err := c.Authenticate(ctx, appRequest("4000000000000103"), "")
		if err != nil {
			t.Fatal(err)
		}
		if a.Status != "completed" || a.Answer.Status != http.StatusCreated ||
			a.Answer.Header.Get("Location") != "/authentications/"+a.ID || a.Outcome.Next.Action != "authorise" {
			t.Errorf("%d %s", a.Answer.Status, a.Answer.Raw)
		}
		again, err := c.Authentication(ctx, a.ID, 0)
		if err != nil || again.Status != "completed" || !slices.Contains(again.Defaulted, "purchaseExponent") {
			t.Errorf("%v %s", err, again.Answer.Raw)
		}
		_, err = c.Cancel(ctx, a.ID)
		wantProblem(t, err, http.StatusConflict, "final")
	})
	t.Run("F5 the same key gives the same answer", func(t *testing.T) {
		first, err := c.Authenticate(ctx, appRequest("4000000000000103"), "order-17")
		if err != nil {
			t.Fatal(err)
		}
		second, err := c.Authenticate(ctx, appRequest("4000000000000103"), "order-17")
		if err != nil || string(second.Answer.Raw) != string(first.Answer.Raw) || second.Answer.Header.Get("Idempotency-Replayed") != "true" ||
			second.Answer.Header.Get("Location") != first.Answer.Header.Get("Location") {
			t.Errorf("%v %v %s", err, second.Answer.Header, second.Answer.Raw)
		}
	})
	t.Run("F8 the error says which element is wrong, and what to do", func(t *testing.T) {
		request := appRequest("4000000000000103")
		delete(request, "purchaseAmount")
		_, err := c.Authenticate(ctx, request, "")
		const want = "/purchaseAmount required: Send purchaseAmount (amount in minor units)."
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	})
	t.Run("F8 all faults at once", func(t *testing.T) {
		request := appRequest("4000000000000103")
		request["purchaseAmount"], request["mcc"], request["reference"] = "1,50", "54", strings.Repeat("x", 65)
		_, err := c.Authenticate(ctx, request, "")
		said := wantProblem(t, err, http.StatusBadRequest, "invalid")
		if len(said.Faults) != 3 {
			t.Errorf("%s", said.Answer.Raw)
		}
	})
	t.Run("F9 a card in no range", func(t *testing.T) {
		a, err := c.Authenticate(ctx, appRequest("9000100111111111"), "")
		if err != nil || a.Status != "completed" || a.Outcome.Result != "not_enrolled" || !strings.Contains(string(a.Answer.Raw), `"scheme":null`) {
			t.Errorf("%v %+v", err, a)
		}
	})
	t.Run("F4 another merchant finds nothing, in the same bytes", func(t *testing.T) {
		a, err := c.Authenticate(ctx, appRequest("4000000000000103"), "")
		if err != nil {
			t.Fatal(err)
		}
		other := client.New(server.URL, server.OtherKey)
		_, foreign := other.Authentication(ctx, a.ID, 0)
		_, unknown := other.Authentication(ctx, "00000000-0000-4000-8000-000000000000", 0)
		one, two := wantProblem(t, foreign, 404, "not-found"), wantProblem(t, unknown, 404, "not-found")
		_, err = other.Cancel(ctx, a.ID)
		three := wantProblem(t, err, 404, "not-found")
		if string(one.Answer.Raw) != string(two.Answer.Raw) || string(one.Answer.Raw) != string(three.Answer.Raw) {
			t.Errorf("%s %s %s", one.Answer.Raw, two.Answer.Raw, three.Answer.Raw)
		}
	})
	t.Run("D5 one that /auth began cannot be cancelled", func(t *testing.T) {
		crd, err := c.Preauth(ctx, client.PreauthRequest{AcctNumber: "4000000000000103"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Auth(ctx, areq(crd.ThreeDSServerTransID, "4000000000000103")); err != nil {
			t.Fatal(err)
		}
		_, err = c.Cancel(ctx, crd.ThreeDSServerTransID)
		wantProblem(t, err, http.StatusConflict, "not-cancellable")
	})
	t.Run("F4 wait ends with the challenge", func(t *testing.T) {
		a, err := c.Authenticate(ctx, appRequest("4000000000000103"), "")
		if err != nil {
			t.Fatal(err)
		}
		if a, err = c.Authentication(ctx, a.ID, 30*time.Second); err != nil || !a.IsFinal() {
			t.Errorf("%v %+v", err, a)
		}
	})
}

// wantProblem fails unless err is the problem of a name.
func wantProblem(t *testing.T, err error, status int, name string) *client.Problem {
	t.Helper()
	said, ok := errors.AsType[*client.Problem](err)
	if !ok || said.Status != status || said.Type != "urn:threeds:problem:"+name {
		t.Fatalf("%v, want the problem %s with %d", err, name, status)
	}
	return said
}
