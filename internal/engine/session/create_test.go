package session_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
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
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/account"
)

// TestF1FourMembersAreEnough: the server fills in the rest, says what it was, and waits for the browser.
func TestF1FourMembersAreEnough(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	a, access, err := w.NewBrowserEngine().Create(t.Context(), authtest.Profiled, authtest.Four().JSON())
	if err != nil {
		t.Fatal(authtest.Told(err))
	}
	if a.Status != api.StatusRequiresBrowser || access == nil || a.BrowserExpires.Sub(w.Clock()) != 30*time.Minute || len(w.Sends) != 0 {
		t.Errorf("%+v, %+v, %d AReqs", a, access, len(w.Sends))
	}
	if len(access.Token) < 43 || access.URL != "https://3ds.example/a/"+access.Token {
		t.Errorf("token %q, URL %q", access.Token, access.URL)
	}
	want := []string{
		"deviceChannel", "messageCategory", "threeDSRequestorAuthenticationInd", "purchaseExponent", "purchaseDate", "messageVersion",
		"acquirerBIN", "acquirerMerchantID", "threeDSRequestorID", "threeDSRequestorName", "threeDSRequestorURL", "merchantName",
		"mcc", "merchantCountryCode",
	}
	if !slices.Equal(a.Defaulted, want) {
		t.Errorf("defaulted %q", a.Defaulted)
	}
}

// TestD14NormalisedHasFoundAndSent: for members that are not personal, the object of a new authentication says what was
// found and what is sent, now and later. For other members, and for long values, it says neither.
func TestD14NormalisedHasFoundAndSent(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	e := w.NewBrowserEngine()
	o := authtest.Four()
	maps.Copy(o, authtest.Object{
		"purchaseCurrency": "EUR", "merchantCountryCode": "DK", "billAddrState": "oh", "billAddrCountry": "840", "browserLanguage": "en_GB",
		"messageVersion": "2.3.1", "colour": "red", "reference": "order-17",
		"mobilePhone": authtest.Object{"cc": "+45", "subscriber": "12345678"},
	})
	a, _, err := e.Create(t.Context(), authtest.Profiled, o.JSON())
	if err != nil {
		var refused *session.RefusedError
		errors.As(err, &refused)
		t.Fatalf("%v %+v", err, refused)
	}
	later, err := e.Authentication(t.Context(), authtest.Profiled, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string][]api.Correction{"201": a.Normalised, "GET": later.Normalised} {
		got := map[string][2]string{}
		for _, c := range list {
			got[c.Pointer] = [2]string{string(c.Found), string(c.Sent)}
		}
		for pointer, want := range map[string][2]string{
			"/purchaseCurrency": {`"EUR"`, `"978"`}, "/merchantCountryCode": {`"DK"`, `"208"`}, "/browserLanguage": {`"en_GB"`, `"en-GB"`},
			"/mobilePhone/cc": {`"+45"`, `"45"`}, "/billAddrState": {"null", "null"}, "/colour": {"null", "null"},
		} {
			if values, ok := got[pointer]; !ok || values != want {
				t.Errorf("%s: %s is %q, want %q", name, pointer, values, want)
			}
		}
		if _, ok := got["/reference"]; ok {
			t.Errorf("%s: a member of this API is named: %q", name, got)
		}
	}
	o = authtest.Four()
	o["messageVersion"] = "2.2.0"
	long := bytes.Replace(o.JSON(), []byte(`"978"`), []byte(`[`+strings.Repeat(" ", 200)+`"978"]`), 1)
	if a, _, err = e.Create(t.Context(), authtest.Profiled, long); err != nil {
		t.Fatal(authtest.Told(err))
	}
	i := slices.IndexFunc(a.Normalised, func(c api.Correction) bool { return c.Pointer == "/purchaseCurrency" })
	if i < 0 || string(a.Normalised[i].Found) != "null" || string(a.Normalised[i].Sent) != `"978"` {
		t.Errorf("a long value: %+v", a.Normalised)
	}
}

// TestF2RequestGoesBeforeProfile: what the request says is not replaced by a default.
func TestF2RequestGoesBeforeProfile(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	var sent authtest.Object
	w.Sent = func(areq []byte) { sent = authtest.Parse(t, areq) }
	o := authtest.Four()
	maps.Copy(o, authtest.Object{"deviceChannel": "03", "threeRIInd": "03", "mcc": "5999", "purchaseExponent": "3", "acquirerCountryCode": "208"})
	a, access, err := w.NewEngine(0).Create(t.Context(), authtest.Profiled, o.JSON())
	if err != nil || access != nil || a.Status != api.StatusCompleted {
		t.Fatal(authtest.Told(err), a, access)
	}
	for name, want := range map[string]string{
		"mcc": "5999", "purchaseExponent": "3", "merchantName": "The Shop", "acquirerBIN": "400551", "threeDSRequestorID": "V-1",
	} {
		if sent.Text(name) != want {
			t.Errorf("%s is %q, want %q", name, sent.Text(name), want)
		}
	}
	if slices.Contains(a.Defaulted, "mcc") || slices.Contains(a.Defaulted, "purchaseExponent") {
		t.Errorf("defaulted %q", a.Defaulted)
	}
}

// TestD7SilentDirectoryIsAFailedAuthentication: problems are for requests, not for ends.
func TestD7SilentDirectoryIsAFailedAuthentication(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	w.Reply = func(string, authtest.Object) ([]byte, error) { return nil, errors.New("silent") }
	a, _, err := w.NewEngine(0).Create(t.Context(), authtest.Profiled, authtest.ThreeRI().JSON())
	if err != nil || a.Status != api.StatusFailed || a.Outcome.Result != api.ResultError || a.Outcome.Next.Action != api.ActionRetryLater {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestF9CardInNoRangeIsNotEnrolled: a card in no range is no error, and nothing is sent.
func TestF9CardInNoRangeIsNotEnrolled(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	w.Hits = nil
	e := w.NewBrowserEngine()
	a, access, err := e.Create(t.Context(), authtest.Profiled, authtest.Four().JSON())
	if err != nil {
		t.Fatal(authtest.Told(err))
	}
	again, err := e.Authentication(t.Context(), authtest.Profiled, a.ID)
	if err != nil || access != nil || again.Status != api.StatusCompleted || again.Outcome.Result != api.ResultNotEnrolled ||
		a.Scheme != "" || len(a.Schemes) != 0 || a.MessageVersion != "" || a.ARes != nil {
		t.Errorf("%+v, %+v, %v", a, access, err)
	}
}

// TestF8FaultsComeAllAtOnce: the faults of our own members come together with those of EMV 3DS, and nothing is stored.
func TestF8FaultsComeAllAtOnce(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	o := authtest.Four()
	maps.Copy(o, authtest.Object{
		"returnUrl": "http://shop.example", "reference": strings.Repeat("x", 65), "purchaseAmount": "12,50", "purchaseCurrency": "XYZ",
	})
	delete(o, "acctNumber")
	_, _, err := w.NewBrowserEngine().Create(t.Context(), authtest.Profiled, o.JSON())
	refused, ok := errors.AsType[*session.RefusedError](err)
	if !ok {
		t.Fatal(err)
	}
	var names []string
	for _, f := range refused.Faults {
		names = append(names, *f.Pointer)
	}
	slices.Sort(names)
	if want := []string{"/acctNumber", "/purchaseAmount", "/purchaseCurrency", "/reference", "/returnUrl"}; !slices.Equal(names, want) {
		t.Errorf("faults of %q, want %q", names, want)
	}
	if len(w.Txns) != 0 {
		t.Errorf("%d rows", len(w.Txns))
	}
}

// TestCase29ReturnURLMayHaveAFragment: the address of a shop with hash routes is taken; one with a user is not.
func TestCase29ReturnURLMayHaveAFragment(t *testing.T) {
	t.Parallel()
	e := authtest.NewWorld().NewBrowserEngine()
	for text, isTaken := range map[string]bool{
		"https://shop.example/#/done": true, "https://shop.example/?a=1#/done": true, "https://shop.example/#": true,
		"https://shop.example/#a#b": false, "https://jo@shop.example/#/done": false, "http://shop.example/#/done": false,
	} {
		o := authtest.Four()
		o["returnUrl"] = text
		if _, _, err := e.Create(t.Context(), authtest.Profiled, o.JSON()); (err == nil) != isTaken {
			t.Errorf("%s: %v, taken should be %t", text, err, isTaken)
		}
	}
}

// TestReturnURLByHTTPInASandbox: a sandbox takes http to the browser's own machine and to itself. It refuses http to
// any other host. A live server refuses http everywhere.
func TestReturnURLByHTTPInASandbox(t *testing.T) {
	t.Parallel()
	for text, isTaken := range map[string]bool{
		"http://127.0.0.1:3000/done": true, "http://localhost:3000/done": true, "http://shop.localhost/done": true, "http://[::1]/": true,
		"http://lab.example:8080/order": true, "http://lab.example:8080.shop.example/": false, "http://shop.example/done": false, "HTTP://127.0.0.1/": false,
	} {
		for _, isLab := range []bool{true, false} {
			w := authtest.NewWorld()
			e := w.NewBrowserEngine()
			e.BrowserURL, e.Loopback = "http://lab.example:8080", isLab
			o := authtest.Four()
			o["returnUrl"], o["messageVersion"] = text, "2.2.0" // 2.3.1 has no http for the server's own pages either
			if _, _, err := e.Create(t.Context(), authtest.Profiled, o.JSON()); (err == nil) != (isTaken && isLab) {
				t.Errorf("%s, sandbox %t: %v", text, isLab, err)
			}
		}
	}
}

// TestF8OnlyWhatTheCallerSentIsAtFault: no fault names a member that the server would have filled in itself. A fault of
// a value with a wrong type names that type, and faults say what a code, an amount, a time and a country look like.
func TestF8OnlyWhatTheCallerSentIsAtFault(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	e := w.NewBrowserEngine()
	for name, tt := range map[string]struct {
		change authtest.Object
		want   []string // pointer, rule and what the cure has
	}{
		"no amount":          {authtest.Object{"purchaseAmount": nil}, []string{"/purchaseAmount required purchaseAmount"}},
		"no currency":        {authtest.Object{"purchaseCurrency": nil}, []string{"/purchaseCurrency required purchaseCurrency"}},
		"a fraction":         {authtest.Object{"purchaseAmount": 10.99}, []string{"/purchaseAmount type minor units"}},
		"a decimal point":    {authtest.Object{"purchaseAmount": "10.99"}, []string{"/purchaseAmount pattern minor units"}},
		"no such country":    {authtest.Object{"merchantCountryCode": "UK", "messageVersion": "2.3.1"}, []string{"/merchantCountryCode unknown-code ISO 3166-1"}},
		"no such currency":   {authtest.Object{"purchaseCurrency": "ZZZ"}, []string{"/purchaseCurrency pattern ISO 4217"}},
		"a time of ISO 8601": {authtest.Object{"purchaseDate": "2026-04-01T12:00:00Z"}, []string{"/purchaseDate length YYYYMMDDHHMMSS"}},
		"a word for a code":  {authtest.Object{"deviceChannel": "browser"}, []string{"/deviceChannel unknown-code codes"}},
		"reference a number": {authtest.Object{"reference": 17}, []string{"/reference type as a string"}},
		"reference a list":   {authtest.Object{"reference": []string{"a"}}, []string{"/reference type as a string"}},
		"reference in lines": {authtest.Object{"reference": "a\nb"}, []string{"/reference control-character printable"}},
		"reference too long": {authtest.Object{"reference": strings.Repeat("x", 65)}, []string{"/reference length 1 to 64"}},
		"a payment of 3RI in 2.1.0": {
			authtest.Object{"deviceChannel": "03", "threeRIInd": "04", "messageVersion": "2.1.0"}, []string{"/messageCategory condition 2.2.0 or later"},
		},
		"a week in seconds": {
			authtest.Object{"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "604800"},
			[]string{"/threeDSRequestorDecMaxTime length 5 digits with zeros in front, from 00001 to 10080"},
		},
		"returnUrl a number":  {authtest.Object{"returnUrl": 5}, []string{"/returnUrl type as a string"}},
		"returnUrl is a path": {authtest.Object{"returnUrl": "/done"}, []string{"/returnUrl address https://"}},
	} {
		o := authtest.Four()
		for member, value := range tt.change {
			if o[member] = value; value == nil {
				delete(o, member)
			}
		}
		_, _, err := e.Create(t.Context(), authtest.Profiled, o.JSON())
		refused, ok := errors.AsType[*session.RefusedError](err)
		if !ok || len(refused.Faults) != len(tt.want) {
			t.Errorf("%s: %v %+v, want the faults %q", name, err, refused, tt.want)
			continue
		}
		for i, f := range refused.Faults {
			want := strings.SplitN(tt.want[i], " ", 3)
			if *f.Pointer != want[0] || f.Rule != want[1] || !strings.Contains(f.Cure, want[2]) {
				t.Errorf("%s: %s %s %q, want %q", name, *f.Pointer, f.Rule, f.Cure, tt.want[i])
			}
			if f.Rule == "type" && (f.Found == nil || f.Found.Type == "" || f.Found.Type == "string") {
				t.Errorf("%s: the type that was found is not told: %+v", name, f.Found)
			}
			if f.Rule == "length" && f.Limit == nil {
				t.Errorf("%s: the limit is not told", name)
			}
		}
	}
}

// TestBrowserNotConfigured: without pages for browsers no authentication waits for one.
func TestBrowserNotConfigured(t *testing.T) {
	t.Parallel()
	_, _, err := authtest.NewWorld().NewEngine(0).Create(t.Context(), authtest.Profiled, authtest.Four().JSON())
	if refused, ok := errors.AsType[*session.RefusedError](err); !ok || !refused.NoBrowser {
		t.Error(err)
	}
}

// TestF10RowDoesNotShowTheCard: an attacker who can read the row and open its outer seal gets no card number, in any
// encoding. The seal of these tests hides nothing, so the test sees what database and key file give together.
func TestF10RowDoesNotShowTheCard(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	o := authtest.Four()
	o["cardSecurityCode"] = "737"
	a, _, err := w.NewBrowserEngine().Create(t.Context(), authtest.Profiled, o.JSON())
	if err != nil {
		t.Fatal(authtest.Told(err))
	}
	data := w.Txns[a.ID].Data
	for name, form := range map[string]string{
		"plain": authtest.PAN, "hexadecimal": hex.EncodeToString([]byte(authtest.PAN)), "most of it": authtest.PAN[8:], "code": `"737"`,
	} {
		if bytes.Contains(data, []byte(form)) {
			t.Errorf("%s: %s", name, data)
		}
	}
	for i := range 3 {
		b := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", i) + authtest.PAN))[4:16]
		if bytes.Contains(data, []byte(b)) {
			t.Errorf("base64: %s", data)
		}
	}
}

// TestF1FrictionlessInABrowser: the page's members go into the AReq, and the AReq leaves once.
func TestF1FrictionlessInABrowser(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	var sent authtest.Object
	w.Sent = func(areq []byte) { sent = authtest.Parse(t, areq) }
	p := w.NewPage(t)
	p.Start()
	if v := p.Await(session.StepEnd); v.End != "completed" {
		t.Errorf("%+v", v)
	}
	for name, want := range map[string]string{
		"browserIP": "198.51.100.7", "browserLanguage": "da-DK", "browserScreenWidth": "1440", "browserTZ": "-60",
		"threeDSCompInd": "U", "acctNumber": authtest.PAN, "threeDSServerTransID": p.ID,
	} {
		if sent.Text(name) != want {
			t.Errorf("%s is %q, want %q", name, sent.Text(name), want)
		}
	}
	a, err := p.Authentication(t.Context(), authtest.Profiled, p.ID)
	if err != nil || a.Outcome.Result != api.ResultAuthenticated || w.Sends[p.ID] != 1 {
		t.Errorf("%+v, %v, %d AReqs", a, err, w.Sends[p.ID])
	}
}

// TestF10CardGoesWithTheAReq: after that the row has nothing of it.
func TestF10CardGoesWithTheAReq(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	p := w.NewPage(t)
	if !bytes.Contains(w.Txns[p.ID].Data, []byte(`"Card"`)) {
		t.Fatal("the row has no card before the AReq")
	}
	p.Start()
	p.Await(session.StepEnd)
	if data := w.Txns[p.ID].Data; bytes.Contains(data, []byte(`"Card"`)) {
		t.Errorf("%s", data)
	}
}

// TestI5OneAReqHoweverOftenBrowsersBegin: browsers begin on two nodes, many times at once, and one AReq leaves.
func TestI5OneAReqHoweverOftenBrowsersBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := authtest.NewWorld()
		p := w.NewPage(t)
		p.Start()
		other := w.NewBrowserEngine()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				e := []*session.Engine{p.Engine, other}[i%2]
				if _, _, err := e.BeginBrowser(t.Context(), p.Token, p.Binding, authtest.Seen); err != nil {
					t.Error(err)
				}
				if _, err := e.ViewBrowser(t.Context(), p.Token, p.Binding, -1); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		p.Await(session.StepEnd)
		synctest.Wait() // until all tasks have ended, or wait
		w.Mu.Lock()
		defer w.Mu.Unlock()
		if w.Sends[p.ID] != 1 {
			t.Errorf("%d AReqs", w.Sends[p.ID])
		}
	})
}

// TestD69MethodDecidesThreeDSCompInd: Y when its notification came, N when its time is over.
func TestD69MethodDecidesThreeDSCompInd(t *testing.T) {
	t.Parallel()
	for want, notice := range map[string]bool{"Y": true, "N": false} {
		w := authtest.NewWorld()
		w.Hits[0].Info = authtest.AllVersions("https://acs.example/method")
		sent := make(chan authtest.Object, 1)
		w.Sent = func(areq []byte) { sent <- authtest.Parse(t, areq) }
		p := w.NewPage(t)
		v := p.Start()
		if v.Step != session.StepMethod || v.Method == nil || v.Method.URL != "https://acs.example/method" {
			t.Fatalf("%+v", v)
		}
		text, err := base64.RawURLEncoding.DecodeString(v.Method.Data)
		if err != nil {
			t.Fatal(err)
		}
		data := authtest.Parse(t, text)
		tag := strings.Split(data.Text("threeDSMethodNotificationURL"), "/")[4]
		if err := p.EndBrowserMethod(t.Context(), tag, base64.RawURLEncoding.EncodeToString([]byte(`{"threeDSServerTransID":"`+authtest.PAN+`"}`))); err == nil {
			t.Error("a notification about another authentication counts")
		}
		if notice {
			reply := authtest.Object{"threeDSServerTransID": p.ID}
			if err := p.EndBrowserMethod(t.Context(), tag, base64.RawURLEncoding.EncodeToString(reply.JSON())); err != nil {
				t.Fatal(err)
			}
		} else {
			w.Pass(5 * time.Second) // of 2.3.1
		}
		if got := (<-sent).Text("threeDSCompInd"); got != want {
			t.Errorf("threeDSCompInd %s, want %s", got, want)
		}
	}
}

// TestD62SecondBrowserIsTurnedAway: with the stolen token, at every step, and nothing changes.
func TestD62SecondBrowserIsTurnedAway(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) { return authtest.ARes(areq, "C"), nil }
	p := w.NewPage(t)
	p.Start()
	creq := p.Await(session.StepChallenge).Challenge.CReq
	for _, binding := range []string{"", "x", strings.Repeat("A", 43), p.Token, p.Binding[1:] + "A"} {
		if _, _, err := p.BeginBrowser(t.Context(), p.Token, binding, authtest.Seen); !errors.Is(err, session.ErrOtherBrowser) {
			t.Errorf("begin: %v", err)
		}
		if _, err := p.ViewBrowser(t.Context(), p.Token, binding, -1); !errors.Is(err, session.ErrOtherBrowser) {
			t.Errorf("view: %v", err)
		}
		if _, err := p.CancelBrowser(t.Context(), p.Token, binding); !errors.Is(err, session.ErrOtherBrowser) {
			t.Errorf("cancel: %v", err)
		}
		if _, err := p.ConfirmBrowser(t.Context(), p.Token, binding); !errors.Is(err, session.ErrOtherBrowser) {
			t.Errorf("confirm: %v", err)
		}
	}
	if v, err := p.OpenBrowser(t.Context(), p.Token); err != nil || v.Challenge != nil || v.Amount != "" {
		t.Errorf("a stranger is shown %+v, %v", v, err)
	}
	for _, token := range []string{"", "x", p.Token[1:], p.Token + "A", strings.Repeat("A", 64), p.Token[:60] + "AAAA"} {
		if _, err := p.OpenBrowser(t.Context(), token); !errors.Is(err, auth.ErrNoAuthentication) {
			t.Errorf("token %q: %v", token, err)
		}
	}
	if again := p.Await(session.StepChallenge).Challenge.CReq; again != creq {
		t.Error("the CReq changes from call to call")
	}
}

// TestB7ReturnFromTheBankIsNoResult: it ends nothing, and without the RReq the browser hears pending.
func TestB7ReturnFromTheBankIsNoResult(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	var asked authtest.Object
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
		asked = areq
		return authtest.ARes(areq, "C"), nil
	}
	p := w.NewPage(t)
	p.Start()
	p.Await(session.StepChallenge)
	tag := strings.Split(asked.Text("notificationURL"), "/")[4]
	for range 2 {
		if v, err := p.EndBrowserChallenge(t.Context(), tag); err != nil || v.Step != session.StepResult {
			t.Errorf("%+v, %v", v, err)
		}
	}
	w.Pass(30 * time.Second)
	if v := p.Await(session.StepEnd); v.End != "pending" {
		t.Errorf("%+v", v)
	}
	if got := p.Receive(t.Context(), []string{"visa"}, authtest.RReq(asked, "Y", 1).JSON()); got.Refused != nil {
		t.Fatalf("%+v", got.Refused)
	}
	if v := p.Await(session.StepEnd); v.End != "completed" {
		t.Errorf("%+v", v)
	}
}

// TestD5LateMessagesAfterCancel: an RReq is acknowledged as usual and changes nothing.
func TestD5LateMessagesAfterCancel(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	var asked authtest.Object
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
		asked = areq
		return authtest.ARes(areq, "C"), nil
	}
	p := w.NewPage(t)
	p.Start()
	p.Await(session.StepChallenge)
	a, err := p.Cancel(t.Context(), authtest.Profiled, p.ID)
	if err != nil || a.Status != api.StatusCancelled || a.Outcome.Result != api.ResultAbandoned || a.Outcome.Next.Action != api.ActionDoNotAuthorise {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err := p.Cancel(t.Context(), authtest.Profiled, p.ID); !errors.Is(err, session.ErrFinal) {
		t.Errorf("a second cancel: %v", err)
	}
	got := p.Receive(t.Context(), []string{"visa"}, authtest.RReq(asked, "Y", 1).JSON())
	if got.Refused != nil || authtest.Parse(t, got.Body).Text("resultsStatus") != "01" {
		t.Errorf("%s", got.Body)
	}
	if a, err := p.Authentication(t.Context(), authtest.Profiled, p.ID); err != nil || a.Status != api.StatusCancelled {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestF6CancelWhileTheAReqIsOnItsWay: the answer that comes later is kept, whatever it says, and the
// authentication stays cancelled.
func TestF6CancelWhileTheAReqIsOnItsWay(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"Y", "D"} {
		w := authtest.NewWorld()
		e := w.NewEngine(0)
		id := ""
		w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
			id = areq.Text("threeDSServerTransID")
			if _, err := e.Cancel(t.Context(), authtest.Profiled, id); err != nil {
				t.Errorf("ARes %s: Cancel: %v", status, err)
			}
			return authtest.ARes(areq, status), nil
		}
		asked := authtest.ThreeRI()
		asked["threeDSRequestorDecReqInd"], asked["threeDSRequestorDecMaxTime"] = "Y", "00010"
		a, _, err := e.Create(t.Context(), authtest.Profiled, asked.JSON())
		if err != nil || a.Status != api.StatusCancelled {
			t.Errorf("ARes %s: %+v, %v; want it cancelled", status, a, err)
			continue
		}
		if len(a.ARes) == 0 {
			t.Errorf("ARes %s: it is not kept", status)
		}
	}
}

// TestF6CancelBeforeTheBrowserComes: no AReq leaves afterwards, and other merchants find nothing.
func TestF6CancelBeforeTheBrowserComes(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	p := w.NewPage(t)
	stranger := &account.Account{Merchant: &account.Merchant{Name: "Stranger"}}
	if _, err := p.Cancel(t.Context(), stranger, p.ID); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Errorf("a stranger: %v", err)
	}
	if a, err := p.Cancel(t.Context(), authtest.Profiled, p.ID); err != nil || a.Status != api.StatusCancelled {
		t.Fatal(a, err)
	}
	if _, _, err := p.BeginBrowser(t.Context(), p.Token, "", authtest.Seen); err == nil {
		t.Error("a browser begins what was cancelled")
	}
	if len(w.Sends) != 0 {
		t.Errorf("%d AReqs", len(w.Sends))
	}
}

// TestD64ABrowserThatCancelsAtOnceHearsOfIt: the browser that cancels before it has begun can read of that end later,
// too, and no other browser can. If the merchant cancels before any browser comes, the payment is simply over.
func TestD64ABrowserThatCancelsAtOnceHearsOfIt(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	p := w.NewPage(t)
	mine, other := strings.Repeat("A", 43), strings.Repeat("B", 42)+"A"
	if v, err := p.CancelBrowser(t.Context(), p.Token, mine); err != nil || v.End != "cancelled" {
		t.Fatalf("%+v, %v", v, err)
	}
	if v, err := p.ViewBrowser(t.Context(), p.Token, mine, -1); err != nil || v.End != "cancelled" {
		t.Errorf("a reload: %+v, %v", v, err)
	}
	if v, _, err := p.BeginBrowser(t.Context(), p.Token, mine, authtest.Seen); err != nil || v.End != "cancelled" {
		t.Errorf("begun again: %+v, %v", v, err)
	}
	if _, err := p.ViewBrowser(t.Context(), p.Token, other, -1); !errors.Is(err, session.ErrOtherBrowser) {
		t.Errorf("another browser: %v", err)
	}

	p = w.NewPage(t)
	if _, err := p.Cancel(t.Context(), authtest.Profiled, p.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ViewBrowser(t.Context(), p.Token, mine, -1); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Errorf("cancelled by the merchant, view: %v", err)
	}
	if _, _, err := p.BeginBrowser(t.Context(), p.Token, mine, authtest.Seen); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Errorf("cancelled by the merchant, begin: %v", err)
	}
	if len(w.Sends) != 0 {
		t.Errorf("%d AReqs", len(w.Sends))
	}
}

// TestB4PageThatNeverComes: after its time the authentication is expired, and no browser can begin it.
func TestB4PageThatNeverComes(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	p := w.NewPage(t)
	w.Pass(30*time.Minute + time.Second)
	a, err := p.Authentication(t.Context(), authtest.Profiled, p.ID)
	if err != nil || a.Status != api.StatusExpired || a.Outcome.Result != api.ResultAbandoned {
		t.Errorf("%+v, %v", a, err)
	}
	if _, _, err := p.BeginBrowser(t.Context(), p.Token, "", authtest.Seen); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Error(err)
	}
}

// TestD72BrowserWithoutJavaScript: its 3DS Method does not run, and the AReq has no size of a screen.
func TestD72BrowserWithoutJavaScript(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	w.Hits[0].Info = authtest.AllVersions("https://acs.example/method")
	var sent authtest.Object
	w.Sent = func(areq []byte) { sent = authtest.Parse(t, areq) }
	p := w.NewPage(t)
	_, binding, err := p.BeginBrowser(t.Context(), p.Token, "", session.BrowserData{
		"browserJavascriptEnabled": "false", "browserUserAgent": "w3m", "browserAcceptHeader": "text/html", "browserIP": "198.51.100.7",
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Binding = binding
	p.Await(session.StepEnd)
	if sent.Text("threeDSCompInd") != "N" || sent["browserJavascriptEnabled"] != false || sent["browserScreenWidth"] != nil {
		t.Errorf("%s", sent.JSON())
	}
}

// TestBadBrowserDataDoesNotStopAPayment: what no browser should tell is replaced.
func TestBadBrowserDataDoesNotStopAPayment(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	p := w.NewPage(t)
	bad := maps.Clone(authtest.Seen)
	maps.Copy(bad, session.BrowserData{"browserTZ": "many", "browserIP": "<script>", "browserColorDepth": "blue", "mcc": "1", "browserLanguage": "??"})
	_, binding, err := p.BeginBrowser(t.Context(), p.Token, "", bad)
	if err != nil {
		t.Fatal(err)
	}
	p.Binding = binding
	if v := p.Await(session.StepEnd); v.End != "completed" {
		t.Errorf("%+v", v)
	}
}

// TestConfirmShowsTheTextOfTheIssuer: the browser ends after it was shown.
func TestConfirmShowsTheTextOfTheIssuer(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
		o := authtest.AResObject(areq, "N")
		o["cardholderInfo"] = authtest.Object{"text": "Call your bank"}
		return o.JSON(), nil
	}
	p := w.NewPage(t)
	p.Start()
	if v := p.Await(session.StepConfirm); v.CardholderInfo != "Call your bank" || v.End != "" {
		t.Errorf("%+v", v)
	}
	if v, err := p.ConfirmBrowser(t.Context(), p.Token, p.Binding); err != nil || v.Step != session.StepEnd || v.End != "completed" {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestVersionOnlyOfAnotherRange: a version that the card cannot be used in is a fault that lists the others.
func TestVersionOnlyOfAnotherRange(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	older := ranges.Info{DSVersions: []string{"2.2.0"}, ACS: []ranges.ACSVersion{{Version: "2.2.0"}}}
	w.Hits = []ranges.Hit{{Scheme: "visa", Info: &older}}
	o := authtest.Four()
	o["messageVersion"] = "2.3.1"
	_, _, err := w.NewBrowserEngine().Create(t.Context(), authtest.Profiled, o.JSON())
	refused, ok := errors.AsType[*session.RefusedError](err)
	if !ok || len(refused.Faults) != 1 || refused.Faults[0].Rule != "version" {
		t.Errorf("%v %+v", err, refused)
	}
}

// TestD17RepeatedCreationIsTheSameAuthentication: if the node of an attempt dies, the next attempt gets the same
// authentication, with the same token for the browser, and sends no second AReq.
func TestD17RepeatedCreationIsTheSameAuthentication(t *testing.T) {
	t.Parallel()
	for name, channel := range map[string]authtest.Object{
		"browser": {}, "3RI": {"deviceChannel": "03", "threeRIInd": "03"}, "not enrolled": {"acctNumber": "9000100111111111"},
	} {
		w := authtest.NewWorld()
		e := w.NewBrowserEngine()
		once := session.Once{Secret: [32]byte{1, 2, 3}}
		once.Note = func(_ context.Context, id string) error { once.ID = id; return nil }
		body := authtest.Four()
		maps.Copy(body, channel)
		first, access, err := e.Create(session.WithOnce(t.Context(), once), authtest.Profiled, body.JSON())
		if err != nil || once.ID != first.ID {
			t.Fatalf("%s: %s, %+v, noted %q", name, authtest.Told(err), first, once.ID)
		}
		again, accessAgain, err := e.Create(session.WithOnce(t.Context(), once), authtest.Profiled, body.JSON())
		if err != nil || again.ID != first.ID || again.Status != first.Status || len(w.Sends) > 1 {
			t.Errorf("%s: %s, %+v, want %+v; %d AReqs", name, authtest.Told(err), again, first, len(w.Sends))
		}
		if (access == nil) != (accessAgain == nil) || access != nil && *access != *accessAgain {
			t.Errorf("%s: access %+v, want %+v", name, accessAgain, access)
		}
		// An id that cannot be noted makes nothing. One that was noted, and has nothing under it, is used by the next
		// attempt.
		sends, noted := len(w.Sends), ""
		once.ID, once.Note = "", func(_ context.Context, id string) error { noted = id; return errors.New("no store") }
		if _, _, err := e.Create(session.WithOnce(t.Context(), once), authtest.Profiled,
			body.JSON()); !errors.Is(err, txn.ErrStoreUnreachable) || len(w.Sends) != sends {
			t.Errorf("%s: %v, %d AReqs more", name, err, len(w.Sends)-sends)
		}
		once.ID, once.Note = noted, func(context.Context, string) error { return nil }
		if a, _, err := e.Create(session.WithOnce(t.Context(), once), authtest.Profiled, body.JSON()); err != nil || a.ID != noted {
			t.Errorf("%s: %v, %+v", name, err, a)
		}
	}
}

// TestD54AgentThatNeverComesBack: after 30 minutes the authentication has expired, and no AReq leaves any more.
func TestD54AgentThatNeverComesBack(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	e, d, a := w.NewAgent(t)
	w.Pass(30*time.Minute - time.Second)
	if got, err := e.AgentAuthentication(t.Context(), authtest.Profiled, a.ID); err != nil || got.Status != api.StatusRequiresBrowser {
		t.Errorf("%+v, %v", got, err)
	}
	w.Pass(2 * time.Second)
	for range 2 {
		got, err := e.AuthenticateForAgent(t.Context(), authtest.Profiled, d, a.ID, authtest.AgentBrowser().JSON())
		if err != nil || got.Status != api.StatusExpired || len(w.Sends) != 0 {
			t.Errorf("%+v, %v, %d AReqs", got, err, len(w.Sends))
		}
	}
}

// TestD52CardWaitsUnderTheKey: the row does not show the card, another key of the merchant does not open it, and
// nothing of it is left once the AReq has been sent. A request that was refused before does not use the authentication
// up.
func TestD52CardWaitsUnderTheKey(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	e, d, a := w.NewAgent(t)
	data := w.Txns[a.ID].Data
	for i := range 3 {
		b := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", i) + authtest.PAN))[4:16]
		if bytes.Contains(data, []byte(b)) || bytes.Contains(data, []byte(authtest.PAN)) {
			t.Errorf("the row shows the card: %s", data)
		}
	}
	other := d
	other.APIKey = "5a5a5a5a-0000-4000-8000-00000000000b"
	if _, err := e.AuthenticateForAgent(t.Context(), authtest.Profiled, other, a.ID, authtest.AgentBrowser().JSON()); !errors.Is(err, session.ErrOtherKey) {
		t.Errorf("with another key: %v", err)
	}
	stranger := &account.Account{Merchant: &account.Merchant{Name: "Other"}}
	if _, err := e.AuthenticateForAgent(t.Context(), stranger, d, a.ID, authtest.AgentBrowser().JSON()); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Errorf("another merchant: %v", err)
	}
	if _, err := e.AuthenticateForAgent(t.Context(), authtest.Profiled, d, a.ID, []byte("{}")); err == nil {
		t.Error("an AReq left without a browser")
	}
	bad := authtest.AgentBrowser()
	bad["browserIP"] = "nowhere"
	if _, err := e.AuthenticateForAgent(t.Context(), authtest.Profiled, d, a.ID, bad.JSON()); err == nil || len(w.Sends) != 0 {
		t.Errorf("%v, %d AReqs", err, len(w.Sends))
	}
	d.APIKey = strings.ToUpper(d.APIKey) // capital letters make no other key
	got, err := e.AuthenticateForAgent(t.Context(), authtest.Profiled, d, a.ID, authtest.AgentBrowser().JSON())
	if err != nil || got.Status != api.StatusCompleted || len(w.Sends) != 1 {
		t.Fatal(authtest.Told(err), got, len(w.Sends))
	}
	if bytes.Contains(w.Txns[a.ID].Data, []byte(`"Request"`)) {
		t.Errorf("the sealed request stays: %s", w.Txns[a.ID].Data)
	}
	if _, err := e.AuthenticateForAgent(t.Context(), authtest.Profiled, d, a.ID, authtest.AgentBrowser().JSON()); !errors.Is(err, session.ErrAlreadySent) {
		t.Errorf("a second time: %v", err)
	}
}

// TestD52RepetitionOfAnAgentSendsNothing: a request that repeats one that may have sent the AReq gets the
// authentication as it is.
func TestD52RepetitionOfAnAgentSendsNothing(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	e, d, a := w.NewAgent(t)
	noted := ""
	once := session.Once{Note: func(_ context.Context, id string) error { noted = id; return nil }}
	if _, err := e.AuthenticateForAgent(session.WithOnce(t.Context(), once), authtest.Profiled, d, a.ID,
		authtest.AgentBrowser().JSON()); err != nil || noted != a.ID {
		t.Fatal(authtest.Told(err), noted)
	}
	once.ID = noted
	got, err := e.AuthenticateForAgent(session.WithOnce(t.Context(), once), authtest.Profiled, d, a.ID, authtest.AgentBrowser().JSON())
	if err != nil || got.Status != api.StatusCompleted || len(w.Sends) != 1 {
		t.Errorf("%v %+v, %d AReqs", err, got, len(w.Sends))
	}
}

// TestD52AgentOnTwoNodes: each of an agent's three calls may come to another node, while a new secret of the key file
// comes into use. One AReq is sent, whichever node gets the repetition, and another merchant finds nothing on any node.
func TestD52AgentOnTwoNodes(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	ring := authtest.NewKeyRing(t)
	h, err := ring.NewHandover(nil)
	if err != nil {
		t.Fatal(err)
	}
	nodes := []*session.Engine{w.NewEngine(0), w.NewEngine(0)}
	accepting, err := ring.Accept(&h)
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := ring.Follow(&h)
	if err != nil {
		t.Fatal(err)
	}
	nodes[0].Sealer, nodes[1].Sealer = accepting, rotated
	d := session.Delegation{APIKey: authtest.AgentKey, AgentSteps: check.AgentSteps{NotificationURL: "https://agent.example/back"}}
	o := authtest.Four()
	o["deviceChannel"] = "02"
	a, err := nodes[0].CreateForAgent(t.Context(), authtest.Profiled, d, o.JSON())
	if err != nil {
		t.Fatal(authtest.Told(err))
	}
	if got, err := nodes[1].AgentAuthentication(t.Context(), authtest.Profiled, a.ID); err != nil || got.Status != api.StatusRequiresBrowser {
		t.Errorf("the other node: %+v, %v", got, err)
	}
	d.Completion = "Y"
	if got, err := nodes[1].AuthenticateForAgent(t.Context(), authtest.Profiled, d, a.ID,
		authtest.AgentBrowser().JSON()); err != nil || got.Status != api.StatusCompleted {
		t.Fatal(authtest.Told(err), got)
	}
	for i, e := range nodes {
		if _, err := e.AuthenticateForAgent(t.Context(), authtest.Profiled, d, a.ID, authtest.AgentBrowser().JSON()); !errors.Is(err, session.ErrAlreadySent) {
			t.Errorf("node %d, a second time: %v", i, err)
		}
		if _, err := e.AgentAuthentication(t.Context(), authtest.Other, a.ID); !errors.Is(err, auth.ErrNoAuthentication) {
			t.Errorf("node %d, another merchant: %v", i, err)
		}
	}
	if got, err := nodes[0].AgentAuthentication(t.Context(), authtest.Profiled, a.ID); err != nil || got.Outcome == nil ||
		got.Outcome.Result != api.ResultAuthenticated {
		t.Errorf("the first node: %+v, %v", got, err)
	}
	if len(w.Sends) != 1 || w.Sends[a.ID] != 1 {
		t.Errorf("AReqs that left: %v", w.Sends)
	}
}

// TestD55StrictKeyOfAnAgent: the server writes the elements of the AReq, so a strict key changes nothing.
func TestD55StrictKeyOfAnAgent(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	strict := &account.Account{Merchant: authtest.Profiled.Merchant, Strict: true}
	d := session.Delegation{APIKey: authtest.AgentKey, AgentSteps: check.AgentSteps{NotificationURL: "https://agent.example/back"}}
	o := authtest.Four()
	maps.Copy(o, authtest.AgentBrowser())
	o["threeDSRequestorChallengeInd"] = "03"
	a, err := w.NewEngine(0).CreateForAgent(t.Context(), strict, d, o.JSON())
	if err != nil {
		t.Fatal(authtest.Told(err))
	}
	d.Completion = "N"
	if got, err := w.NewEngine(0).AuthenticateForAgent(t.Context(), strict, d, a.ID, []byte("{}")); err != nil || got.Status != api.StatusCompleted {
		t.Errorf("%v %+v", authtest.Told(err), got)
	}
}

// outcomes are what an engine has counted, without rules of schemes.
type outcomes struct {
	mu  sync.Mutex
	all []string
}

func (*outcomes) RulesChecked(string, string, []*scheme.Finding) {}

func (o *outcomes) Observe(name, scheme, outcome, component string, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, strings.TrimSpace(name+" "+scheme+" "+outcome+" "+component))
}

// TestG11AReqsOfBrowsersAreCountedAsThoseOfAuth: alerts and dashboards see them, those that fail above all.
func TestG11AReqsOfBrowsersAreCountedAsThoseOfAuth(t *testing.T) {
	t.Parallel()
	for want, failure := range map[string]error{"auth visa Y": nil, "auth visa 405 S": errors.New("nobody there")} {
		w := authtest.NewWorld()
		if failure != nil {
			w.Reply = func(string, authtest.Object) ([]byte, error) { return nil, failure }
		}
		p := w.NewPage(t)
		counted := new(outcomes)
		p.Engine.Observer = counted
		p.Start()
		p.Await(session.StepEnd)
		if err := p.Engine.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(counted.all, []string{want}) {
			t.Errorf("counted %q, want %q", counted.all, want)
		}
	}
}
