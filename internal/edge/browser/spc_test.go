package browser

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/session"
)

// send makes a step of threeds.js with a body of its own.
func send(h http.Handler, path, token, binding, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(bindingHeader, binding)
	r.Header.Set("Origin", "https://shop.example")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// asksForSPC is an authentication whose issuer asks for SPC.
func asksForSPC() fakeRow {
	return fakeRow{SPC: &session.BrowserSPC{
		Credentials: json.RawMessage(`[{"rpID":"bank.example","credentialIds":["YWE"]}]`), Transaction: json.RawMessage(`{"challenge":"Yg"}`),
	}}
}

// TestB8StepTakesWhatTheDialogCameTo: the step takes an assertion, or one of two words. Anything else counts as failed,
// and the page cannot say that the time was over.
func TestB8StepTakesWhatTheDialogCameTo(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]session.SPCAnswer{
		`{"assertion":{"id":"a"}}`:                   {Assertion: json.RawMessage(`{"id":"a"}`)},
		`{"incomplete":"01"}`:                        {Incomplete: "01"},
		`{"incomplete":"02"}`:                        {Incomplete: "02"},
		`{"incomplete":"03"}`:                        {Incomplete: "01"},
		`{"incomplete":"Y"}`:                         {Incomplete: "01"},
		`{"assertion":"signed"}`:                     {Incomplete: "01"},
		`{"assertion":{"id":"a"},"incomplete":"02"}`: {Incomplete: "02"},
		`{}`: {Incomplete: "01"},
	} {
		h, engine := newTestHandler(nil)
		token, mine := engine.Add(asksForSPC()), newSecret()
		begun := send(h, "/a/begin", token, mine, `{"data":{},"spc":true}`)
		var view struct {
			Step string
			SPC  struct{ Credentials, Transaction json.RawMessage }
		}
		if err := json.Unmarshal(begun.Body.Bytes(), &view); err != nil || view.Step != "spc" {
			t.Fatalf("begin: %d %s", begun.Code, begun.Body)
		}
		if string(view.SPC.Credentials) != `[{"rpID":"bank.example","credentialIds":["YWE"]}]` || string(view.SPC.Transaction) != `{"challenge":"Yg"}` {
			t.Errorf("the dialog gets %s and %s", view.SPC.Credentials, view.SPC.Transaction)
		}
		for range 2 {
			if w := send(h, "/a/spc", token, mine, body); w.Code != 200 || !strings.Contains(w.Body.String(), `"step":"end"`) {
				t.Errorf("%s: %d %s", body, w.Code, w.Body)
			}
		}
		row := engine.Row(token)
		if len(row.Answers) != 1 || string(row.Answers[0].Assertion) != string(want.Assertion) || row.Answers[0].Incomplete != want.Incomplete {
			t.Errorf("%s: %q, want %q", body, row.Answers, want)
		}
	}
	h, engine := newTestHandler(nil)
	token, mine := engine.Add(asksForSPC()), newSecret()
	send(h, "/a/begin", token, mine, `{"data":{},"spc":true}`)
	if w := send(h, "/a/spc", token, mine, `not JSON`); w.Code != 404 || len(engine.Row(token).Answers) != 0 {
		t.Errorf("not JSON: %d", w.Code)
	}
	if w := send(h, "/a/spc", token, newSecret(), `{"incomplete":"02"}`); w.Code != 409 || len(engine.Row(token).Answers) != 0 {
		t.Errorf("another browser: %d", w.Code)
	}
}

// TestB8PageWritesNoElementOfSPC: elements of SPC in the data of the first step are dropped. Only a page whose browser
// says that it supports SPC is asked for it.
func TestB8PageWritesNoElementOfSPC(t *testing.T) {
	t.Parallel()
	const data = `{"spc":"true","spcIncompInd":"02","threeDSRequestorSpcSupport":"Y","threeDSRequestorAuthenticationInfo":"x","payeeOrigin":"https://evil.example"}`
	for body, want := range map[string]string{`{"data":` + data + `}`: "", `{"data":` + data + `,"spc":true}`: "true"} {
		h, engine := newTestHandler(nil)
		token := engine.Add(asksForSPC())
		if w := send(h, "/a/begin", token, newSecret(), body); w.Code != 200 || strings.Contains(w.Body.String(), `"step":"spc"`) != (want != "") {
			t.Fatalf("begin: %d %s", w.Code, w.Body)
		}
		row := engine.Row(token)
		for _, name := range []string{"spcIncompInd", "threeDSRequestorSpcSupport", "threeDSRequestorAuthenticationInfo", "payeeOrigin"} {
			if row.Data[name] != "" {
				t.Errorf("%s is %q", name, row.Data[name])
			}
		}
		if row.Data["spc"] != want {
			t.Errorf("%s: spc is %q, want %q", body, row.Data["spc"], want)
		}
	}
}
