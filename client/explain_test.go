package client_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/threedstest"
)

// TestE1LookupOfACard: a lookup returns the schemes of a card with everything that D22 lists, and nothing is sent.
func TestE1LookupOfACard(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	c, ctx := server.Client(), t.Context()
	got, err := c.Lookup(ctx, "4000000000000103")
	if err != nil {
		t.Fatal(err)
	}
	if got.Last4 != "0103" || len(got.Schemes) != 1 || got.Schemes[0].Scheme != "visa" ||
		strings.Contains(string(got.Answer.Raw), "400000") {
		t.Fatalf("%s", got.Answer.Raw)
	}
	s := got.Schemes[0]
	if len(s.Versions) == 0 || s.Recommended == nil || s.Recommended.Because == "" ||
		s.Recommended.MessageVersion != s.Versions[len(s.Versions)-1].MessageVersion {
		t.Errorf("%s", got.Answer.Raw)
	}
	for _, v := range s.Versions {
		if slices.ContainsFunc(v.ACSInfoInd, func(m api.CodeMeaning) bool { return m.Code == "" || m.Meaning == "" }) {
			t.Errorf("%+v", v)
		}
	}
	for _, r := range s.Requires {
		if r.Element == "" || r.Source == "" ||
			!slices.Contains([]string{"required", "advised", "ignored", "forbidden"}, string(r.Level)) {
			t.Errorf("%+v", r)
		}
	}
	if len(s.Requires) == 0 {
		t.Errorf("nothing is required: %s", got.Answer.Raw)
	}
	for _, body := range []string{
		`{}`, `{"acctNumber":"4000"}`, `{"acctNumber":4000000000000103}`, `{"acctNumber":"1","ACCTNUMBER":"1"}`, `{`,
	} {
		res, answer := post(t, server, "/lookup", body)
		if res.StatusCode != http.StatusBadRequest || res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", body, res.StatusCode, answer)
		}
	}
	if _, err := c.Lookup(ctx, "4000"); err == nil {
		t.Error("no error for a short number")
	} else if problem, ok := errors.AsType[*client.Problem](err); !ok || problem.Faults[0].Where() != "/acctNumber" ||
		problem.Faults[0].Rule != "length" {
		t.Errorf("%v", err)
	}
}

// TestE2Explain: an explanation has the members of D23, the card masked, and status 200 whatever the body is.
func TestE2Explain(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	c, ctx := server.Client(), t.Context()
	const card = "4000000000000103"
	crd, err := c.Preauth(ctx, client.PreauthRequest{AcctNumber: card})
	if err != nil {
		t.Fatal(err)
	}
	request := areq(crd.ThreeDSServerTransID, card)
	for _, options := range []client.ExplainOptions{{}, {Scheme: "mastercard"}} {
		got, err := c.Explain(ctx, request, options)
		if err != nil || !got.IsValid() || strings.Contains(string(got.Answer.Raw), card) {
			t.Fatalf("%v %s", err, got.Answer.Raw)
		}
		var sent map[string]any
		if err := json.Unmarshal(got.WouldSend, &sent); err != nil || sent["acctNumber"] != "400000******0103" ||
			sent["threeDSServerURL"] == nil {
			t.Errorf("%v %s", err, got.WouldSend)
		}
		if want := options.Scheme; want != "" && string(got.Scheme) != want || want == "" && got.Scheme != "visa" {
			t.Errorf("scheme %q", got.Scheme)
		}
	}
	if ares, err := c.Auth(ctx, request); err != nil || ares.TransStatus != "Y" {
		t.Fatalf("the id is used up: %v", err)
	}
	for body, want := range map[string]struct{ pointer, rule string }{
		`no JSON`:                     {"", "json"},
		`[]`:                          {"", "json"},
		`{}`:                          {"/acctNumber", "required"},
		`{"for":"auth"}`:              {"/messageType", "required"},
		`{"for":"authentications"}`:   {"/acctNumber", "required"},
		`{"for":"check"}`:             {"/for", "unknown-code"},
		`{"asOf":"soon"}`:             {"/asOf", "pattern"},
		`{"scheme":"nobody"}`:         {"/scheme", "unknown-code"},
		`{"mcc":"54112"}`:             {"/mcc", "length"},
		`{"a":{"b":1},"for":"auth"}`:  {"/messageType", "required"},
		`{"messageVersion":"2.4.0"}`:  {"/messageVersion", "version"},
		`{"acctNumber":"1","MCC":""}`: {"/acctNumber", "length"},
	} {
		res, answer := post(t, server, "/explain", body)
		var got client.Explanation
		if err := json.Unmarshal(answer, &got); err != nil || res.StatusCode != http.StatusOK ||
			got.Verdict != "invalid" || string(got.WouldSend) != "null" {
			t.Errorf("%s: %v %d %s", body, err, res.StatusCode, answer)
			continue
		}
		if !slices.ContainsFunc(got.Faults, func(f api.Fault) bool {
			return f.Where() == want.pointer && f.Rule == want.rule && f.Cure != ""
		}) {
			t.Errorf("%s: %s", body, answer)
		}
	}
}

// TestD14NormalisedOfExplain: a correction has values only if they are not personal, and unknown members are named.
func TestD14NormalisedOfExplain(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	c, ctx := server.Client(), t.Context()
	const card = "4000000000000103"
	crd, err := c.Preauth(ctx, client.PreauthRequest{AcctNumber: card})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(areq(crd.ThreeDSServerTransID, card))
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		t.Fatal(err)
	}
	body["purchaseCurrency"], body["billAddrLine1"], body["colour"] = "EUR", "1 Road\nFlat 2", "red"
	got, err := c.Explain(ctx, body, client.ExplainOptions{})
	if err != nil || !got.IsValid() {
		t.Fatalf("%v %s", err, got.Answer.Raw)
	}
	if !strings.Contains(string(got.WouldSend), `"billAddrLine1":"***"`) || strings.Contains(string(got.Answer.Raw), "1 Road") {
		t.Errorf("an address is shown: %s", got.Answer.Raw)
	}
	for pointer, want := range map[string][2]string{
		"/purchaseCurrency": {`"EUR"`, `"978"`}, "/billAddrLine1": {"null", "null"}, "/colour": {"null", "null"},
	} {
		i := slices.IndexFunc(got.Normalised, func(n api.Correction) bool { return n.Pointer == pointer })
		if i < 0 || string(got.Normalised[i].Found) != want[0] || string(got.Normalised[i].Sent) != want[1] ||
			(got.Normalised[i].Rule == "unknown-member") != (pointer == "/colour") {
			t.Errorf("%s in %s", pointer, got.Answer.Raw)
		}
	}
}

// post posts a body to an operation.
func post(t *testing.T, server *threedstest.Server, path, body string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("APIKey", server.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, answer
}
