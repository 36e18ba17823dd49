package client_test

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/threedstest"
)

// authenticate makes an /auth with a card and returns its ARes.
func authenticate(t testing.TB, c *client.Client, card string) *client.ARes {
	t.Helper()
	crd, err := c.Preauth(t.Context(), client.PreauthRequest{AcctNumber: card})
	if err != nil {
		t.Fatal(err)
	}
	ares, err := c.Auth(t.Context(), areq(crd.ThreeDSServerTransID, card))
	if err != nil {
		t.Fatal(err)
	}
	return ares
}

// TestO6OutcomeOfAnAuth: users of the compatible API get the same object by GET and by POST /outcome.
func TestO6OutcomeOfAnAuth(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	c, ctx := server.Client(), t.Context()
	for card, want := range map[string]struct{ status, result, action, shifts string }{
		"4000000000000103": {"Y", "authenticated", "authorise", "yes"},
		"4000000000000123": {"A", "attempted", "authorise", "yes"},
		"4000000000000113": {"N", "not_authenticated", "do_not_authorise", "no"},
		"4000000000000133": {"R", "rejected", "do_not_authorise", "no"},
		"4000000000000143": {"I", "informational", "authorise", "no"},
		"4000000000000153": {"U", "unavailable", "authorise_without_authentication", "no"},
	} {
		ares := authenticate(t, c, card)
		if ares.TransStatus != want.status {
			t.Fatalf("%s: %s", card, ares.Raw)
		}
		got, err := c.Outcome(ctx, ares.ThreeDSServerTransID)
		if err != nil {
			t.Fatal(err)
		}
		o := got.Outcome
		if got.Status != "completed" || o == nil || string(o.Result) != want.result || string(o.Next.Action) != want.action ||
			string(o.Liability.Shifts) != want.shifts {
			t.Fatalf("%s: %s", card, got.Answer.Raw)
		}
		if got.Card.Last4 != card[12:] || got.Card.Scheme != "visa" || got.ARes.TransStatus != want.status {
			t.Errorf("%s: %s", card, got.Answer.Raw)
		}
		if a := o.Authorisation; (a != nil) != strings.Contains("YAI", want.status) || a != nil &&
			(string(a.ECI) != ares.ECI || string(a.AuthenticationValue) != ares.AuthenticationValue || string(a.DSTransID) != ares.DSTransID) {
			t.Errorf("%s: authorisation in %s", card, got.Answer.Raw)
		}
		again, err := c.Authentication(ctx, strings.ToUpper(ares.ThreeDSServerTransID), 0)
		if err != nil || string(again.Answer.Raw) != string(got.Answer.Raw) {
			t.Errorf("GET: %v %s, POST: %s", err, again.Answer.Raw, got.Answer.Raw)
		}
	}
}

// TestF4WaitEndsWithTheStatus: a GET that waits answers as soon as the challenge is over, with the result of the RReq.
func TestF4WaitEndsWithTheStatus(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	c, ctx := server.Client(), t.Context()
	ares := authenticate(t, c, "4000000000000170") // the challenge passes by itself once its page is opened
	got, err := c.Authentication(ctx, ares.ThreeDSServerTransID, 0)
	if err != nil || got.Status != "challenge" || got.IsFinal() || got.RReq != nil {
		t.Fatalf("%v %s", err, got.Answer.Raw)
	}
	go func() {
		creq := base64.RawURLEncoding.EncodeToString([]byte(`{"messageType":"CReq","messageVersion":"2.2.0","challengeWindowSize":"05",` +
			`"threeDSServerTransID":"` + ares.ThreeDSServerTransID + `","acsTransID":"` + ares.ACSTransID + `"}`))
		if res, err := http.PostForm(ares.ACSURL, url.Values{"creq": {creq}}); err == nil {
			res.Body.Close()
		}
	}()
	got, err = c.Authentication(ctx, ares.ThreeDSServerTransID, 30*time.Second)
	if err != nil || !got.IsFinal() || got.Outcome.Result != "authenticated" || !got.Outcome.Challenged || got.RReq == nil {
		t.Fatalf("%v %s", err, got.Answer.Raw)
	}
}

// TestF4ForTheOwnerOnly: another merchant's id, an unknown and a malformed one are the same 404, byte for byte.
func TestF4ForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	ares := authenticate(t, server.Client(), "4000000000000103")
	stranger := client.New(server.URL, server.OtherKey)
	var first string
	for _, id := range []string{ares.ThreeDSServerTransID, "00000000-0000-4000-8000-000000000000", "x", "..%2f"} {
		for _, ask := range []func() (*client.Authentication, error){
			func() (*client.Authentication, error) { return stranger.Authentication(t.Context(), id, 0) },
			func() (*client.Authentication, error) { return stranger.Outcome(t.Context(), id) },
		} {
			_, err := ask()
			problem, ok := errors.AsType[*client.Problem](err)
			if !ok || problem.Status != 404 || problem.Type != "urn:threeds:problem:not-found" {
				t.Fatalf("%s: %v", id, err)
			}
			if first == "" {
				first = string(problem.Answer.Raw)
			}
			if string(problem.Answer.Raw) != first {
				t.Errorf("%s: %s, want %s", id, problem.Answer.Raw, first)
			}
		}
	}
}

// TestF8ProblemsOfRequests: a fault of a request is problem+json that names what is wrong.
func TestF8ProblemsOfRequests(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/authentications/00000000-0000-4000-8000-000000000000?wait=61", "", 400, `"parameter":"wait"`},
		{"GET", "/authentications/00000000-0000-4000-8000-000000000000?wait=1.5", "", 400, `"rule":"range"`},
		{"POST", "/outcome", "no JSON", 400, `"rule":"json"`},
		{"POST", "/outcome", `{"threeDSServerTransID":7}`, 400, `"rule":"json"`},
		{"POST", "/outcome", `{}`, 400, `"pointer":"/threeDSServerTransID"`},
		{"PUT", "/outcome", `{}`, 405, `method-not-allowed`},
		{"POST", "/authentications/x", `{}`, 405, `method-not-allowed`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("APIKey", server.Key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != c.status || !strings.Contains(string(body), c.want) ||
			res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d %s %s", c.method, c.path, res.StatusCode, res.Header.Get("Content-Type"), body)
		}
		if c.status == 405 && res.Header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
}
