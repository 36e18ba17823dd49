package threedstest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/threedstest"
)

// pay authenticates a card with the 3DS Method left out; changes are made to the AReq, nil takes a member out. An
// Erro is returned as the code and the component.
func pay(t *testing.T, s *threedstest.Server, version, pan string, changes map[string]any) (*client.ARes, string) {
	t.Helper()
	crd, err := s.Client().Preauth(t.Context(), client.PreauthRequest{AcctNumber: pan})
	if err != nil {
		t.Fatal(err)
	}
	areq := browserPayment(crd.ThreeDSServerTransID)
	areq["messageVersion"], areq["acctNumber"] = version, pan
	if version == "2.3.1" {
		maps.Copy(areq, map[string]any{"acquirerCountryCode": "208", "acquirerCountryCodeSource": "01", "acceptLanguage": []string{"en"}})
	}
	for name, value := range changes {
		areq[name] = value
		if value == nil {
			delete(areq, name)
		}
	}
	ares, err := s.Client().Auth(t.Context(), areq)
	var erro *client.Erro
	if errors.As(err, &erro) {
		return nil, erro.ErrorCode + " " + erro.ErrorComponent
	}
	if err != nil {
		t.Fatalf("%s: %v", pan, err)
	}
	return ares, ""
}

// threeRI are the changes that make an AReq one of 3RI.
func threeRI(indicator string) map[string]any {
	changes := map[string]any{"deviceChannel": "03", "threeRIInd": indicator, "notificationURL": nil, "threeDSCompInd": nil,
		"threeDSRequestorAuthenticationInd": nil, "acceptLanguage": nil}
	for name := range browserPayment("") {
		if strings.HasPrefix(name, "browser") {
			changes[name] = nil
		}
	}
	return changes
}

// waitForResult waits for the result of a transaction.
func waitForResult(t *testing.T, s *threedstest.Server, id string) map[string]any {
	t.Helper()
	var all map[string]any
	waittest.Until(t, "the result", func() bool {
		rreq, err := s.Client().PostAuth(t.Context(), id)
		if err != nil {
			return false
		}
		if err := json.Unmarshal(rreq.Raw, &all); err != nil {
			t.Fatal(err)
		}
		return true
	})
	return all
}

// A page is what the issuer shows.
type page struct {
	status int
	url    string
	text   string
}

// load reads an answer.
func load(t *testing.T, answer *http.Response, err error) page {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return page{answer.StatusCode, answer.Request.URL.String(), string(text)}
}

// openChallenge brings the CReq of a challenge to the issuer.
func openChallenge(t *testing.T, version string, ares *client.ARes) page {
	t.Helper()
	creq, err := json.Marshal(map[string]any{"messageType": "CReq", "messageVersion": version, "challengeWindowSize": "03",
		"threeDSServerTransID": ares.ThreeDSServerTransID, "acsTransID": ares.ACSTransID})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.PostForm(ares.ACSURL, url.Values{"creq": {base64.RawURLEncoding.EncodeToString(creq)}})
	return load(t, answer, err)
}

// cres is the CRes in the page, read as text, nil when there is none.
func (p page) cres(t *testing.T) map[string]any {
	t.Helper()
	found := regexp.MustCompile(`<input type="hidden" name="cres" value="(\S*)">`).FindStringSubmatch(p.text)
	if found == nil {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(found[1], "="))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestFamousTestNumbersAreAuthenticated: numbers that everybody knows are authenticated at once.
func TestFamousTestNumbersAreAuthenticated(t *testing.T) {
	t.Parallel()
	s := threedstest.NewServer(t)
	for number, eci := range map[string]string{
		"4242 4242 4242 4242": "05", "4111 1111 1111 1111": "05", "5555 5555 5555 4444": "02", "3782 822463 10005": "05",
	} {
		pan := strings.ReplaceAll(number, " ", "")
		for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
			if ares, erro := pay(t, s, version, pan, nil); erro != "" || ares.TransStatus != "Y" || ares.ECI != eci {
				t.Errorf("%s %s: %+v %s", version, pan, ares, erro)
			}
		}
	}
}

// TestCase05DataOnlyIsNoAuthentication: what only shares data shifts no liability, through the API.
func TestCase05DataOnlyIsNoAuthentication(t *testing.T) {
	t.Parallel()
	s := threedstest.NewServer(t)
	for _, test := range []struct {
		version, pan      string
		changes           map[string]any
		status, code, eci string
	}{
		{"2.1.0", "5100000000000103", map[string]any{"messageCategory": "80"}, "U", "80", "04"},
		{"2.2.0", "5100000000000103", map[string]any{"messageCategory": "80"}, "U", "80", "04"},
		{"2.3.1", "5100000000000172", map[string]any{"messageCategory": "80"}, "U", "80", "04"},
		{"2.2.0", "5100000000000113", map[string]any{"messageCategory": "80"}, "U", "80", "04"},
		{"2.2.0", "4000000000000103", map[string]any{"threeDSRequestorChallengeInd": "06"}, "I", "", "07"},
		{"2.1.0", "4000000000000103", map[string]any{"threeDSRequestorChallengeInd": "82"}, "N", "89", "07"},
		{"2.3.1", "4000000000000103", map[string]any{"threeDSRequestorChallengeInd": []string{"82"}}, "I", "", "07"},
	} {
		ares, erro := pay(t, s, test.version, test.pan, test.changes)
		if erro != "" || ares.TransStatus != test.status || ares.TransStatusReason != test.code || ares.ECI != test.eci || len(ares.AuthenticationValue) != 28 {
			t.Errorf("%+v: %+v %s", test, ares, erro)
		}
	}
	if _, erro := pay(t, s, "2.2.0", "4000000000000103", map[string]any{"messageCategory": "80"}); !strings.HasPrefix(erro, "203") {
		t.Errorf("a category that Visa does not define: %q", erro)
	}
}

// TestDecoupledEndsInEveryWay: decoupled authentications that pass, fail, time out and are rejected, in 3RI too, and
// the fallback of 2.3.1 from the challenge to its end.
func TestDecoupledEndsInEveryWay(t *testing.T) {
	t.Parallel()
	s := threedstest.NewServer(t)
	asked := map[string]any{"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010"}
	type expected struct{ status, reason, cancel any }
	waiting := map[string]expected{}
	for end, want := range map[string]expected{
		"83": {"Y", nil, nil}, "84": {"N", "01", nil}, "85": {"U", "24", "03"}, "86": {"R", "11", nil}, "87": {"Y", nil, nil},
	} {
		for _, version := range []string{"2.2.0", "2.3.1"} {
			for _, changes := range []map[string]any{{}, threeRI("08")} {
				maps.Copy(changes, asked)
				ares, erro := pay(t, s, version, "40000000000001"+end, changes)
				isRefused := end == "83" && changes["deviceChannel"] == "03"
				if isRefused && erro != "305 D" || !isRefused && (erro != "" || ares.TransStatus != "D") {
					t.Errorf("%s %s %v: %+v %s", version, end, changes["deviceChannel"], ares, erro)
				} else if !isRefused {
					waiting[ares.ThreeDSServerTransID] = want
				}
			}
		}
	}
	for _, ind := range []string{"Y", "N"} {
		if _, erro := pay(t, s, "2.3.1", "4000000000000178",
			map[string]any{"threeDSRequestorDecReqInd": ind, "threeDSRequestorDecMaxTime": "00010"}); erro != "305 D" {
			t.Errorf("a fallback that was not asked for, with %s: %q", ind, erro)
		}
	}
	if _, erro := pay(t, s, "2.2.0", "4000000000000178", asked); erro != "305 D" {
		t.Errorf("a fallback in 2.2.0: %q", erro)
	}
	for _, ind := range []string{"F", "B"} {
		first, erro := pay(t, s, "2.3.1", "4000000000000178", map[string]any{"threeDSRequestorDecReqInd": ind, "threeDSRequestorDecMaxTime": "00010"})
		if erro != "" || first.TransStatus != "C" {
			t.Fatalf("the challenge of a fallback: %+v %s", first, erro)
		}
		if cres := openChallenge(t, "2.3.1", first).cres(t); cres["transStatus"] != "D" {
			t.Errorf("CRes %v", cres)
		}
		rreq := waitForResult(t, s, first.ThreeDSServerTransID)
		if rreq["transStatus"] != "D" || rreq["transStatusReason"] != "29" || rreq["eci"] != nil {
			t.Errorf("RReq %v", rreq)
		}
		changes := threeRI("19")
		maps.Copy(changes, asked)
		changes["threeDSRequestorPriorAuthenticationInfo"] = []map[string]any{{"threeDSReqPriorRef": first.ACSTransID, "threeDSReqPriorAuthMethod": "02"}}
		second, erro := pay(t, s, "2.3.1", "4000000000000178", changes)
		if erro != "" || second.TransStatus != "D" {
			t.Fatalf("the 3RI of a fallback: %+v %s", second, erro)
		}
		waiting[second.ThreeDSServerTransID] = expected{"Y", nil, nil}
	}
	for id, want := range waiting {
		rreq := waitForResult(t, s, id)
		if got := (expected{rreq["transStatus"], rreq["transStatusReason"], rreq["challengeCancel"]}); got != want {
			t.Errorf("RReq %v, want %v", rreq, want)
		}
	}
}

// TestChallengeIsConfirmedOutsideItsPage: the page of an out-of-band challenge is told when it is over, and the result
// says how the cardholder was asked.
func TestChallengeIsConfirmedOutsideItsPage(t *testing.T) {
	t.Parallel()
	s := threedstest.NewServer(t)
	const pan = "4000000000000174"
	for _, test := range []struct {
		version, action, status string
		kind                    any
	}{{"2.2.0", "", "Y", "03"}, {"2.3.1", "", "Y", nil}, {"2.1.0", "approve", "Y", "03"}, {"2.2.0", "decline", "N", "03"}, {"2.2.0", "cancel", "N", "03"}} {
		ares, erro := pay(t, s, test.version, pan, nil)
		if erro != "" || ares.TransStatus != "C" {
			t.Fatalf("%+v %s", ares, erro)
		}
		p := openChallenge(t, test.version, ares)
		if !strings.Contains(p.text, "Open the app of your bank") || !strings.Contains(p.text, `data-until="`) {
			t.Fatalf("%s", p.text)
		}
		press := func(action string) page {
			answer, err := http.PostForm(p.url, url.Values{"action": {action}, "step": {"1"}})
			return load(t, answer, err)
		}
		isOver := func() int { answer, err := http.Get(p.url + "/over"); return load(t, answer, err).status }
		if again := press("submit"); !strings.Contains(again.text, "has not seen it yet") || isOver() != http.StatusNoContent {
			t.Errorf("%s", again.text)
		}
		last := page{}
		if test.action != "" {
			last = press(test.action)
		} else {
			body := bytes.NewReader([]byte(`{"acsTransID":"` + ares.ACSTransID + `"}`))
			answer, err := http.Post(s.Sandbox.ControlURL()+"/oob", "application/json", body)
			if told := load(t, answer, err); told.status != http.StatusOK {
				t.Errorf("/oob: %d %s", told.status, told.text)
			}
			answer, err = http.Get(p.url)
			last = load(t, answer, err)
		}
		if cres := last.cres(t); cres["transStatus"] != test.status || isOver() != http.StatusOK {
			t.Errorf("%+v: CRes %v, over %d", test, cres, isOver())
		}
		rreq := waitForResult(t, s, ares.ThreeDSServerTransID)
		if methods, _ := rreq["authenticationMethod"].([]any); rreq["transStatus"] != test.status ||
			rreq["authenticationType"] != test.kind || test.version == "2.3.1" && methods[0] != "07" {
			t.Errorf("%+v: RReq %v", test, rreq)
		}
	}
	for _, body := range []string{`{"acsTransID":"x"}`, `{}`} {
		answer, err := http.Post(s.Sandbox.ControlURL()+"/oob", "application/json", strings.NewReader(body))
		if told := load(t, answer, err); told.status != http.StatusNotFound {
			t.Errorf("%s: %d", body, told.status)
		}
	}
}

// TestBanksWithHabitsOfTheirOwn: a CRes with a member too many, a tall page, a bank that is down and says so.
func TestBanksWithHabitsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := threedstest.NewServer(t)
	for end, completed := range map[string]any{"76": "Y", "70": nil} {
		ares, _ := pay(t, s, "2.2.0", "40000000000001"+end, nil)
		if cres := openChallenge(t, "2.2.0", ares).cres(t); cres["challengeCompletionInd"] != completed || cres["transStatus"] != "Y" {
			t.Errorf("%s: CRes %v", end, cres)
		}
	}
	ares, _ := pay(t, s, "2.2.0", "4000000000000170", map[string]any{"acquirerMerchantID": "FAULT-BASE64"}) // case 20: read as text
	if p := openChallenge(t, "2.2.0", ares); !regexp.MustCompile(`name="cres" value="[A-Za-z0-9/+]*\+[A-Za-z0-9/+]*=*"`).MatchString(p.text) {
		t.Errorf("base64 does not stand in the page as it is: %s", p.text)
	}
	ares, _ = pay(t, s, "2.2.0", "4000000000000175", nil)
	if p := openChallenge(t, "2.2.0", ares); !strings.Contains(p.text, `data-testid="terms"`) || !strings.Contains(p.text, `data-testid="challenge-code"`) {
		t.Errorf("the tall page: %s", p.text)
	}
	ares, _ = pay(t, s, "2.2.0", "4000000000000172", map[string]any{"acquirerMerchantID": "FAULT-ACSDOWN"})
	if p := openChallenge(t, "2.2.0", ares); p.status != http.StatusServiceUnavailable || !strings.Contains(p.text, "Your bank cannot be reached") {
		t.Errorf("a bank that is down: %d %s", p.status, p.text)
	}
}
