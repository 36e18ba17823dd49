package client_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/threedstest"
)

// An agent pays in the place of shoppers.
type agent struct {
	t      *testing.T
	server *threedstest.Server
	key    string
}

// An agentSession is what an agent is answered.
type agentSession struct {
	ID     string `json:"authentication_session_id"`
	Status string `json:"status"`
	Action struct {
		Type        string `json:"type"`
		Fingerprint struct {
			URL string `json:"three_ds_method_url"`
		} `json:"fingerprint"`
		Challenge struct {
			URL     string `json:"acs_url"`
			ACSID   string `json:"acs_trans_id"`
			ID      string `json:"three_ds_server_trans_id"`
			Version string `json:"message_version"`
		} `json:"challenge"`
	} `json:"action"`
	Result *struct {
		Status     string `json:"trans_status"`
		ECI        string `json:"electronic_commerce_indicator"`
		Cryptogram string `json:"three_ds_cryptogram"`
		DSID       string `json:"transaction_id"`
		ID         string `json:"three_ds_server_trans_id"`
		Version    string `json:"version"`
	} `json:"authentication_result"`

	Code    string `json:"code"` // of an error, as Param and Type
	Param   string `json:"param"`
	Type    string `json:"type"`
	http    *http.Response
	content string
}

// call makes a request, with further headers, each a name and a value.
func (a *agent) call(method, path, body string, header ...string) *agentSession {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.server.URL+"/delegate_authentication"+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.key)
	req.Header.Set("API-Version", "2026-04-17")
	for i := 0; i < len(header); i += 2 {
		if req.Header.Set(header[i], header[i+1]); header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	s := &agentSession{http: res, content: string(text)}
	if err := json.Unmarshal(text, s); err != nil {
		a.t.Fatalf("%v: %s", err, text)
	}
	return s
}

// create begins a session, and wants a status of it.
func (a *agent) create(body, want string, header ...string) *agentSession {
	a.t.Helper()
	s := a.call("POST", "", body, header...)
	if s.http.StatusCode != 201 || s.Status != want {
		a.t.Fatalf("create: %d %s, want %s", s.http.StatusCode, s.content, want)
	}
	return s
}

// authenticate has the AReq sent, and wants a status.
func (a *agent) authenticate(id, body, want string) *agentSession {
	a.t.Helper()
	s := a.call("POST", "/"+id+"/authenticate", body)
	if s.http.StatusCode != 200 || s.Status != want || s.Result != nil {
		a.t.Fatalf("authenticate: %d %s, want %s", s.http.StatusCode, s.content, want)
	}
	return s
}

// get wants a status, and a transStatus or none.
func (a *agent) get(id, want, transStatus string) *agentSession {
	a.t.Helper()
	s := a.call("GET", "/"+id, "")
	got := ""
	if s.Result != nil {
		got = s.Result.Status
	}
	if s.http.StatusCode != 200 || s.Status != want || got != transStatus {
		a.t.Fatalf("get: %d %s, want %s %s", s.http.StatusCode, s.content, want, transStatus)
	}
	return s
}

const (
	agentChannel = `"channel":{"type":"browser","browser":{"accept_header":"text/html","ip_address":"192.0.2.1",` +
		`"javascript_enabled":true,"language":"en-GB","user_agent":"Agent/1","color_depth":24,"java_enabled":false,` +
		`"screen_height":1080,"screen_width":1920,"timezone_offset":-60}},"challenge_notification_url":"https://agent.example/back"`
	wholeCompletion = `{"fingerprint_completion":"Y"}`
)

// payWith is the request that pays with a card, with further members.
func payWith(card, more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"merchant_id":"order-7","payment_method":{"type":"card","number":"` + card + `","exp_month":"12","exp_year":"2030",` +
		`"name":"Ann Example"},"amount":{"value":1250,"currency":"EUR"}` + more + `}`
}

// runMethod plays the 3DS Method of a session.
func (a *agent) runMethod(s *agentSession) {
	a.t.Helper()
	data, _ := json.Marshal(map[string]string{"threeDSServerTransID": s.ID, "threeDSMethodNotificationURL": "https://agent.example/method"})
	res, err := http.PostForm(s.Action.Fingerprint.URL, url.Values{"threeDSMethodData": {base64.RawURLEncoding.EncodeToString(data)}})
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
}

// passChallenge plays the issuer's page of a session, which ends by itself.
func (a *agent) passChallenge(s *agentSession) {
	a.t.Helper()
	c := s.Action.Challenge
	creq, _ := json.Marshal(map[string]string{
		"messageType": "CReq", "messageVersion": c.Version, "challengeWindowSize": "05", "threeDSServerTransID": c.ID, "acsTransID": c.ACSID,
	})
	res, err := http.PostForm(c.URL, url.Values{"creq": {base64.RawURLEncoding.EncodeToString(creq)}})
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Contains(page, []byte("cres")) {
		a.t.Fatalf("%v %d %.200s", err, res.StatusCode, page)
	}
}

// pressAtBank plays the issuer's page of a session with a shopper who enters the code and presses a button.
func (a *agent) pressAtBank(s *agentSession, button string) {
	a.t.Helper()
	c := s.Action.Challenge
	creq, _ := json.Marshal(map[string]string{
		"messageType": "CReq", "messageVersion": c.Version, "challengeWindowSize": "05", "threeDSServerTransID": c.ID, "acsTransID": c.ACSID,
	})
	page, action := a.postForm(c.URL, url.Values{"creq": {base64.RawURLEncoding.EncodeToString(creq)}})
	step := regexp.MustCompile(`name="step" value="([^"]*)"`).FindStringSubmatch(page)
	if step == nil || action == "" {
		a.t.Fatalf("no page for a code: %s", page)
	}
	page, _ = a.postForm(action, url.Values{"step": {step[1]}, "code": {"123456"}, "action": {button}})
	if !strings.Contains(page, `name="cres"`) {
		a.t.Fatalf("no page that leaves the bank: %s", page)
	}
}

// postForm returns the page that answers a form, and where its own form goes.
func (a *agent) postForm(address string, values url.Values) (page, action string) {
	a.t.Helper()
	res, err := http.PostForm(address, values)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		a.t.Fatalf("%s: %s, %v", address, res.Status, err)
	}
	if m := regexp.MustCompile(`<form method="post" action="([^"]*)"`).FindSubmatch(text); m != nil {
		next, err := res.Request.URL.Parse(html.UnescapeString(string(m[1])))
		if err != nil {
			a.t.Fatal(err)
		}
		action = next.String()
	}
	return string(text), action
}

// countAReqs returns how many AReqs the sandbox has got of a session.
func countAReqs(server *threedstest.Server, id string) (n int) {
	for _, e := range server.Sandbox.Received(id) {
		if e.Type == "AReq" {
			n++
		}
	}
	return n
}

// TestD54AgentsEndings: an agent takes the three calls to each ending that the sandbox plays.
func TestD54AgentsEndings(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	in := func(t *testing.T) *agent { return &agent{t, server, server.Key} }

	t.Run("frictionless, with 3DS Method", func(t *testing.T) {
		a := in(t)
		s := a.create(payWith("4000000000000003", agentChannel), "action_required")
		if s.Action.Type != "fingerprint" || s.Action.Fingerprint.URL == "" {
			t.Fatalf("%s", s.content)
		}
		a.get(s.ID, "action_required", "")
		a.runMethod(s)
		a.authenticate(s.ID, wholeCompletion, "authenticated")
		got := a.get(s.ID, "authenticated", "Y")
		if got.Result.ECI != "05" || got.Result.Cryptogram == "" || got.Result.DSID == "" || got.Result.ID != s.ID {
			t.Errorf("%s", got.content)
		}
		if n := countAReqs(server, s.ID); n != 1 {
			t.Errorf("%d AReqs", n)
		}
	})
	t.Run("frictionless, with the channel told late", func(t *testing.T) {
		a := in(t)
		s := a.create(payWith("4000000000000103", ""), "pending")
		for _, tt := range []struct{ body, param string }{
			{wholeCompletion, "$.channel"},
			{`{"fingerprint_completion":"U",` + strings.Replace(agentChannel, `"challenge_notification_url":"https://agent.example/back"`,
				`"checkout_session_id":"c"`, 1) + `}`, "$.challenge_notification_url"},
			{`{"fingerprint_completion":"X"}`, "$.fingerprint_completion"},
		} {
			if s := a.call("POST", "/"+s.ID+"/authenticate", tt.body); s.http.StatusCode != 400 || s.Param != tt.param {
				t.Errorf("%d %s, want %s", s.http.StatusCode, s.content, tt.param)
			}
		}
		a.authenticate(s.ID, `{"fingerprint_completion":"U",`+agentChannel+`}`, "authenticated")
		a.get(s.ID, "authenticated", "Y")
	})
	t.Run("challenge", func(t *testing.T) {
		a := in(t)
		s := a.create(payWith("4000000000000170", agentChannel), "pending")
		s = a.authenticate(s.ID, wholeCompletion, "action_required")
		a.get(s.ID, "action_required", "")
		a.passChallenge(s)
		if got := a.get(s.ID, "authenticated", "Y"); got.Result.Cryptogram == "" {
			t.Errorf("%s", got.content)
		}
		if again := a.call("POST", "/"+s.ID+"/authenticate", wholeCompletion); again.http.StatusCode != 409 || again.Code != "duplicate_request" {
			t.Errorf("%d %s", again.http.StatusCode, again.content)
		}
	})
	for name, tt := range map[string]struct{ card, status, transStatus string }{
		"attempted": {"4000000000000123", "attempted", "A"}, "decline": {"4000000000000113", "not_authenticated", "N"},
		"rejected": {"4000000000000133", "rejected", "R"}, "unavailable": {"4000000000000153", "unavailable", "U"},
		"informational": {"4000000000000143", "unavailable", "I"},
		"error":         {"4000000000000199", "unavailable", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := in(t)
			s := a.create(payWith(tt.card, agentChannel), "pending")
			a.authenticate(s.ID, wholeCompletion, tt.status)
			a.get(s.ID, tt.status, tt.transStatus)
		})
	}
	t.Run("challenge that fails", func(t *testing.T) {
		a := in(t)
		s := a.create(payWith("4000000000000171", agentChannel), "pending")
		s = a.authenticate(s.ID, wholeCompletion, "action_required")
		a.passChallenge(s)
		a.get(s.ID, "not_authenticated", "N")
	})
	t.Run("not enrolled", func(t *testing.T) {
		a := in(t)
		s := a.create(payWith("9000100111111111", agentChannel), "not_supported")
		a.get(s.ID, "not_supported", "")
		a.authenticate(s.ID, wholeCompletion, "not_supported")
	})
	t.Run("abandoned", func(t *testing.T) {
		a := in(t)
		s := a.create(payWith("4000000000000172", agentChannel), "pending")
		s = a.authenticate(s.ID, wholeCompletion, "action_required")
		if _, err := server.Client().Cancel(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		a.get(s.ID, "challenge_abandoned", "")
		s = a.create(payWith("4000000000000103", agentChannel), "pending")
		if _, err := server.Client().Cancel(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		a.get(s.ID, "expired", "")
		if again := a.call("POST", "/"+s.ID+"/authenticate", wholeCompletion); again.http.StatusCode != 409 {
			t.Errorf("%d %s", again.http.StatusCode, again.content)
		}
	})
	t.Run("challengeCancel", func(t *testing.T) {
		a := in(t)
		for button, want := range map[string]struct{ status, transStatus string }{
			"cancel": {"challenge_abandoned", "N"}, "submit": {"authenticated", "Y"},
		} {
			s := a.create(payWith("4000000000000172", agentChannel), "pending")
			s = a.authenticate(s.ID, wholeCompletion, "action_required")
			a.pressAtBank(s, button)
			got := a.get(s.ID, want.status, want.transStatus)
			if isCanceled := got.Result.Cryptogram == "" && got.Result.ECI == "07"; isCanceled != (button == "cancel") {
				t.Errorf("%s: %s", button, got.content)
			}
			rreq := ""
			for _, e := range server.Sandbox.Received(s.ID) {
				if e.Type == "RReq" {
					rreq = e.Body
				}
			}
			if strings.Contains(rreq, `"challengeCancel":"01"`) != (button == "cancel") {
				t.Errorf("%s: the RReq is %s", button, rreq)
			}
			if again := a.call("POST", "/"+s.ID+"/authenticate", wholeCompletion); again.http.StatusCode != 409 {
				t.Errorf("%s: %d %s", button, again.http.StatusCode, again.content)
			}
			recorded := map[string]string{"cancel": "abandoned", "submit": "authenticated"}[button]
			search := api.AuthenticationSearch{Last4: "0172", Status: "completed", Result: api.Result(recorded), Reference: "order-7"}
			page := searchUntil(t, server.Client(), search, 1) // the journal
			if one := page.Data[0]; one.ID != s.ID || !one.Outcome.Challenged ||
				string(one.Outcome.TransStatus) != want.transStatus || strings.Contains(string(page.Answer.Raw), "4000000000000172") {
				t.Errorf("%s: the journal says %s", button, page.Answer.Raw)
			}
		}
	})
	t.Run("the object of the Authentications API", func(t *testing.T) {
		a := in(t)
		s := a.create(payWith("4000000000000103", agentChannel), "pending")
		got, err := server.Client().Authentication(t.Context(), s.ID, 0)
		if err != nil || got.Status != "requires_browser" || strings.Contains(string(got.Answer.Raw), `"browser":`) ||
			!strings.Contains(string(got.Answer.Raw), `"reference":"order-7"`) {
			t.Errorf("%v %s", err, got.Answer.Raw)
		}
	})
}

// TestD53AgentsValuesReachTheAReq: what an agent sends goes into the AReq, before the merchant's profile.
func TestD53AgentsValuesReachTheAReq(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	a := &agent{t, server, server.Key}
	more := agentChannel + `,"acquirer_details":{"acquirer_bin":"412345","acquirer_country":"FR","acquirer_merchant_id":"ACQ-9",` +
		`"merchant_name":"Acquired Shop","requestor_id":"REQ-9"},"flow_preference":{"type":"challenge","challenge":{"type":"mandated"}},` +
		`"shopper_details":{"email":"ann@example.org","phone_number":"4512345678","address":{"name":"Ann","line_one":"Road 1",` +
		`"city":"Copenhagen","state":"Hovedstaden","country":"DK","postal_code":"1000"}}`
	s := a.create(payWith("4000000000000103", more), "pending")
	a.authenticate(s.ID, wholeCompletion, "authenticated")
	sent := server.Sandbox.Received(s.ID)[0].Body
	for _, want := range []string{
		`"acquirerBIN":"412345"`, `"acquirerMerchantID":"ACQ-9"`, `"merchantName":"Acquired Shop"`, `"threeDSRequestorID":"REQ-9"`,
		`"acquirerCountryCode":"250"`, `"purchaseAmount":"1250"`, `"purchaseExponent":"2"`, `"notificationURL":"https://agent.example/back"`,
		`"threeDSCompInd":"U"`, `"threeDSRequestorChallengeInd":["04"]`, `"billAddrCountry":"208"`, `"mcc":"5411"`,
	} {
		if !strings.Contains(sent, want) {
			t.Errorf("the AReq lacks %s: %s", want, sent)
		}
	}
	if strings.Contains(sent, "billAddrState") {
		t.Errorf("a state that is written out was sent: %s", sent)
	}
}

// TestD52AgentsRequestsTakeEffectOnce: a request made again has the same answer, and no AReq leaves twice.
func TestD52AgentsRequestsTakeEffectOnce(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	a := &agent{t, server, server.Key}
	body := payWith("4000000000000103", agentChannel)
	first := a.create(body, "pending", "Idempotency-Key", "order-7", "Request-Id", "r-1")
	again := a.create(body, "pending", "Idempotency-Key", "order-7", "Request-Id", "r-2")
	if again.content != first.content || again.http.Header.Get("Request-Id") != "r-2" || again.http.Header.Get("Idempotency-Key") != "order-7" ||
		again.http.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%v %s, first %s", again.http.Header, again.content, first.content)
	}
	if s := a.call("POST", "", payWith("4000000000000113", agentChannel), "Idempotency-Key",
		"order-7"); s.http.StatusCode != 409 || s.Code != "idempotency_conflict" {
		t.Errorf("%d %s", s.http.StatusCode, s.content)
	}
	path := "/" + first.ID + "/authenticate"
	one := a.call("POST", path, wholeCompletion, "Idempotency-Key", "send-7")
	two := a.call("POST", path, wholeCompletion, "Idempotency-Key", "send-7")
	if one.http.StatusCode != 200 || two.content != one.content {
		t.Errorf("%s, then %d %s", one.content, two.http.StatusCode, two.content)
	}
	if s := a.call("POST", path, wholeCompletion, "Idempotency-Key", "send-8"); s.http.StatusCode != 409 || s.Code != "duplicate_request" {
		t.Errorf("%d %s", s.http.StatusCode, s.content)
	}

	race := a.create(body, "pending")
	var all sync.WaitGroup
	var mu sync.Mutex
	counts := map[int]int{}
	for range 8 {
		all.Go(func() {
			s := a.call("POST", "/"+race.ID+"/authenticate", wholeCompletion)
			mu.Lock()
			defer mu.Unlock()
			counts[s.http.StatusCode]++
		})
	}
	all.Wait()
	if counts[200] != 1 || counts[409] != 7 {
		t.Errorf("of 8 at once: %v", counts)
	}
	if n := countAReqs(server, race.ID); n != 1 {
		t.Errorf("%d AReqs", n)
	}
}

// TestD50AgentsAreChecked: the key and the version come before all else.
func TestD50AgentsAreChecked(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	a := &agent{t, server, server.Key}
	for _, tt := range []struct {
		header []string
		status int
	}{
		{[]string{"Authorization", ""}, 401},
		{[]string{"Authorization", "Bearer 00000000-0000-4000-8000-000000000000"}, 401},
		{[]string{"Authorization", "Basic " + server.Key}, 401},
		{[]string{"Authorization", "", "APIKey", server.Key}, 401},
		{[]string{"API-Version", ""}, 400},
		{[]string{"API-Version", "2026-04-18"}, 400},
		{[]string{"Authorization", "bearer " + strings.ToUpper(server.Key)}, 201},
	} {
		s := a.call("POST", "", payWith("4000000000000103", ""), append(tt.header, "Request-Id", "r-9")...)
		if s.http.StatusCode != tt.status || s.http.Header.Get("Request-Id") != "r-9" || tt.status != 201 && s.Type != "invalid_request" {
			t.Errorf("%v: %d %v %s", tt.header, s.http.StatusCode, s.http.Header, s.content)
		}
	}
}

// TestF4NoAgentLearnsOfAnotherMerchant: a session of another merchant is answered as one that never was, byte for byte,
// and so are authentications that no agent began.
func TestF4NoAgentLearnsOfAnotherMerchant(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	owner, other := &agent{t, server, server.Key}, &agent{t, server, server.OtherKey}
	waiting := owner.create(payWith("4000000000000103", agentChannel), "pending").ID
	challenge := owner.create(payWith("4000000000000170", agentChannel), "pending").ID
	owner.authenticate(challenge, wholeCompletion, "action_required")
	ended := owner.create(payWith("4000000000000103", agentChannel), "pending").ID
	owner.authenticate(ended, wholeCompletion, "authenticated")
	notForAgents := authenticate(t, server.Client(), "4000000000000103").ThreeDSServerTransID
	ask := func(a *agent, method, path, body string) string {
		s := a.call(method, path, body)
		s.http.Header.Del("Date")
		s.http.Header.Del("X-Request-Id")
		var b strings.Builder
		_ = s.http.Header.Write(&b)
		return s.http.Status + b.String() + s.content
	}
	before := ask(owner, "GET", "/"+waiting, "") + ask(owner, "GET", "/"+challenge, "") + ask(owner, "GET", "/"+ended, "")
	for _, route := range []struct{ method, end, body string }{
		{"GET", "", ""}, {"POST", "/authenticate", wholeCompletion}, {"POST", "/authenticate", `{}`}, {"POST", "/authenticate", ``},
	} {
		want := ask(other, route.method, "/00000000-0000-4000-8000-000000000000"+route.end, route.body)
		if !strings.HasPrefix(want, "404") {
			t.Errorf("%s %s: %s", route.method, route.end, want)
		}
		for _, id := range []string{waiting, strings.ToUpper(waiting), challenge, ended, notForAgents, "x"} {
			if got := ask(other, route.method, "/"+id+route.end, route.body); got != want {
				t.Errorf("%s %s%s: %s, want %s", route.method, id, route.end, got, want)
			}
		}
		if got := ask(owner, route.method, "/"+notForAgents+route.end, route.body); got != want {
			t.Errorf("an authentication of /auth: %s, want %s", got, want)
		}
	}
	if after := ask(owner, "GET", "/"+waiting, "") + ask(owner, "GET", "/"+challenge, "") + ask(owner, "GET", "/"+ended, ""); after != before {
		t.Errorf("what the owner sees was\n%s\nand is\n%s", before, after)
	}
	if _, err := client.New(server.URL, server.OtherKey).Cancel(context.Background(), waiting); err == nil {
		t.Error("another merchant cancelled the session")
	}
}
