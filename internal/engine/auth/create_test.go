package auth_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// profiled has a profile that makes four members enough.
var profiled = &account.Account{Merchant: &account.Merchant{
	Name: "Shop", MerchantName: "The Shop", MCC: "5411", MerchantCountry: "208", RequestorURL: "https://shop.example",
	PerDirectory: map[string]account.Requestor{"visa": {ID: "V-1", Name: "Shop at Visa", AcquirerBIN: "400551", AcquirerMerchantID: "M-1"}},
}}

// four is the smallest request there is.
func four() object {
	return object{"acctNumber": pan, "cardExpiryDate": "3012", "purchaseAmount": "1250", "purchaseCurrency": "978"}
}

// browserEngine returns an engine that has pages for browsers.
func (w *world) browserEngine() *auth.Engine {
	e := w.engine(0)
	e.BrowserURL = "https://3ds.example"
	if w.onStore != nil {
		w.onStore(e)
	}
	return e
}

// TestF1FourMembersAreEnough: the server fills in the rest, says what it was, and waits for the browser.
func TestF1FourMembersAreEnough(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a, access, err := w.browserEngine().Create(t.Context(), profiled, four().json())
	if err != nil {
		t.Fatal(told(err))
	}
	if a.Status != api.StatusRequiresBrowser || access == nil || a.BrowserExpires.Sub(w.clock()) != 30*time.Minute || len(w.sends) != 0 {
		t.Errorf("%+v, %+v, %d AReqs", a, access, len(w.sends))
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

// TestD14NormalisedHasFoundAndSent: the object of a new authentication says what was found and what is sent of members
// that say nothing of a person, now and later; of others, and of values that are long, it has neither.
func TestD14NormalisedHasFoundAndSent(t *testing.T) {
	t.Parallel()
	w := newWorld()
	e := w.browserEngine()
	o := four()
	maps.Copy(o, object{
		"purchaseCurrency": "EUR", "merchantCountryCode": "DK", "billAddrState": "oh", "billAddrCountry": "840", "browserLanguage": "en_GB",
		"messageVersion": "2.3.1", "colour": "red", "reference": "order-17",
		"mobilePhone": object{"cc": "+45", "subscriber": "12345678"},
	})
	a, _, err := e.Create(t.Context(), profiled, o.json())
	if err != nil {
		var refused *auth.RefusedError
		errors.As(err, &refused)
		t.Fatalf("%v %+v", err, refused)
	}
	later, err := e.Authentication(t.Context(), profiled, a.ID)
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
	o = four()
	o["messageVersion"] = "2.2.0"
	long := bytes.Replace(o.json(), []byte(`"978"`), []byte(`[`+strings.Repeat(" ", 200)+`"978"]`), 1)
	if a, _, err = e.Create(t.Context(), profiled, long); err != nil {
		t.Fatal(told(err))
	}
	i := slices.IndexFunc(a.Normalised, func(c api.Correction) bool { return c.Pointer == "/purchaseCurrency" })
	if i < 0 || string(a.Normalised[i].Found) != "null" || string(a.Normalised[i].Sent) != `"978"` {
		t.Errorf("a long value: %+v", a.Normalised)
	}
}

// TestF2RequestGoesBeforeProfile: what the request says is not replaced by a default.
func TestF2RequestGoesBeforeProfile(t *testing.T) {
	t.Parallel()
	w := newWorld()
	var sent object
	w.sent = func(areq []byte) { sent = parse(t, areq) }
	o := four()
	maps.Copy(o, object{"deviceChannel": "03", "threeRIInd": "03", "mcc": "5999", "purchaseExponent": "3", "acquirerCountryCode": "208"})
	a, access, err := w.engine(0).Create(t.Context(), profiled, o.json())
	if err != nil || access != nil || a.Status != api.StatusCompleted {
		t.Fatal(told(err), a, access)
	}
	for name, want := range map[string]string{
		"mcc": "5999", "purchaseExponent": "3", "merchantName": "The Shop", "acquirerBIN": "400551", "threeDSRequestorID": "V-1",
	} {
		if sent.text(name) != want {
			t.Errorf("%s is %q, want %q", name, sent.text(name), want)
		}
	}
	if slices.Contains(a.Defaulted, "mcc") || slices.Contains(a.Defaulted, "purchaseExponent") {
		t.Errorf("defaulted %q", a.Defaulted)
	}
}

// threeRI is a request that needs no browser.
func threeRI() object {
	o := four()
	maps.Copy(o, object{"deviceChannel": "03", "threeRIInd": "03", "acquirerCountryCode": "208"})
	return o
}

// TestD7SilentDirectoryIsAFailedAuthentication: problems are for requests, not for ends.
func TestD7SilentDirectoryIsAFailedAuthentication(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.reply = func(string, object) ([]byte, error) { return nil, errors.New("silent") }
	a, _, err := w.engine(0).Create(t.Context(), profiled, threeRI().json())
	if err != nil || a.Status != api.StatusFailed || a.Outcome.Result != api.ResultError || a.Outcome.Next.Action != api.ActionRetryLater {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestF9CardInNoRangeIsNotEnrolled: it is no error, and nothing is sent.
func TestF9CardInNoRangeIsNotEnrolled(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.hits = nil
	e := w.browserEngine()
	a, access, err := e.Create(t.Context(), profiled, four().json())
	if err != nil {
		t.Fatal(told(err))
	}
	again, err := e.Authentication(t.Context(), profiled, a.ID)
	if err != nil || access != nil || again.Status != api.StatusCompleted || again.Outcome.Result != api.ResultNotEnrolled ||
		a.Scheme != "" || len(a.Schemes) != 0 || a.MessageVersion != "" || a.ARes != nil {
		t.Errorf("%+v, %+v, %v", a, access, err)
	}
}

// TestF8FaultsComeAllAtOnce: those of our own members beside those of EMV 3DS; nothing is stored.
func TestF8FaultsComeAllAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld()
	o := four()
	maps.Copy(o, object{
		"returnUrl": "http://shop.example", "reference": strings.Repeat("x", 65), "purchaseAmount": "12,50", "purchaseCurrency": "XYZ",
	})
	delete(o, "acctNumber")
	_, _, err := w.browserEngine().Create(t.Context(), profiled, o.json())
	refused, ok := errors.AsType[*auth.RefusedError](err)
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
	if len(w.txns) != 0 {
		t.Errorf("%d rows", len(w.txns))
	}
}

// TestCase29ReturnURLMayHaveAFragment: the address of a shop with hash routes is taken; one with a user is not.
func TestCase29ReturnURLMayHaveAFragment(t *testing.T) {
	t.Parallel()
	e := newWorld().browserEngine()
	for text, isTaken := range map[string]bool{
		"https://shop.example/#/done": true, "https://shop.example/?a=1#/done": true, "https://shop.example/#": true,
		"https://shop.example/#a#b": false, "https://jo@shop.example/#/done": false, "http://shop.example/#/done": false,
	} {
		o := four()
		o["returnUrl"] = text
		if _, _, err := e.Create(t.Context(), profiled, o.json()); (err == nil) != isTaken {
			t.Errorf("%s: %v, taken should be %t", text, err, isTaken)
		}
	}
}

// TestReturnURLByHTTPInASandbox: a sandbox takes http to the browser's own machine and to itself. Elsewhere it refuses that, as
// a live server does, which takes neither.
func TestReturnURLByHTTPInASandbox(t *testing.T) {
	t.Parallel()
	for text, isTaken := range map[string]bool{
		"http://127.0.0.1:3000/done": true, "http://localhost:3000/done": true, "http://shop.localhost/done": true, "http://[::1]/": true,
		"http://lab.example:8080/order": true, "http://lab.example:8080.shop.example/": false, "http://shop.example/done": false, "HTTP://127.0.0.1/": false,
	} {
		for _, isLab := range []bool{true, false} {
			w := newWorld()
			e := w.browserEngine()
			e.BrowserURL, e.Loopback = "http://lab.example:8080", isLab
			o := four()
			o["returnUrl"], o["messageVersion"] = text, "2.2.0" // 2.3.1 has no http for the server's own pages either
			if _, _, err := e.Create(t.Context(), profiled, o.json()); (err == nil) != (isTaken && isLab) {
				t.Errorf("%s, sandbox %t: %v", text, isLab, err)
			}
		}
	}
}

// TestF8OnlyWhatTheCallerSentIsAtFault: a fault names no member that the server would have filled in itself, says of a value
// of another type that it is of that type, and says what a code, an amount, a time and a country look like.
func TestF8OnlyWhatTheCallerSentIsAtFault(t *testing.T) {
	t.Parallel()
	w := newWorld()
	e := w.browserEngine()
	for name, tt := range map[string]struct {
		change object
		want   []string // pointer, rule and what the cure has
	}{
		"no amount":          {object{"purchaseAmount": nil}, []string{"/purchaseAmount required purchaseAmount"}},
		"no currency":        {object{"purchaseCurrency": nil}, []string{"/purchaseCurrency required purchaseCurrency"}},
		"a fraction":         {object{"purchaseAmount": 10.99}, []string{"/purchaseAmount type minor units"}},
		"a decimal point":    {object{"purchaseAmount": "10.99"}, []string{"/purchaseAmount pattern minor units"}},
		"no such country":    {object{"merchantCountryCode": "UK", "messageVersion": "2.3.1"}, []string{"/merchantCountryCode unknown-code ISO 3166-1"}},
		"no such currency":   {object{"purchaseCurrency": "ZZZ"}, []string{"/purchaseCurrency pattern ISO 4217"}},
		"a time of ISO 8601": {object{"purchaseDate": "2026-04-01T12:00:00Z"}, []string{"/purchaseDate length YYYYMMDDHHMMSS"}},
		"a word for a code":  {object{"deviceChannel": "browser"}, []string{"/deviceChannel unknown-code codes"}},
		"reference a number": {object{"reference": 17}, []string{"/reference type as a string"}},
		"reference a list":   {object{"reference": []string{"a"}}, []string{"/reference type as a string"}},
		"reference in lines": {object{"reference": "a\nb"}, []string{"/reference control-character printable"}},
		"reference too long": {object{"reference": strings.Repeat("x", 65)}, []string{"/reference length 1 to 64"}},
		"a payment of 3RI in 2.1.0": {
			object{"deviceChannel": "03", "threeRIInd": "04", "messageVersion": "2.1.0"}, []string{"/messageCategory condition 2.2.0 or later"},
		},
		"a week in seconds": {
			object{"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "604800"},
			[]string{"/threeDSRequestorDecMaxTime length 5 digits with zeros in front, from 00001 to 10080"},
		},
		"returnUrl a number":  {object{"returnUrl": 5}, []string{"/returnUrl type as a string"}},
		"returnUrl is a path": {object{"returnUrl": "/done"}, []string{"/returnUrl address https://"}},
	} {
		o := four()
		for member, value := range tt.change {
			if o[member] = value; value == nil {
				delete(o, member)
			}
		}
		_, _, err := e.Create(t.Context(), profiled, o.json())
		refused, ok := errors.AsType[*auth.RefusedError](err)
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
	_, _, err := newWorld().engine(0).Create(t.Context(), profiled, four().json())
	if refused, ok := errors.AsType[*auth.RefusedError](err); !ok || !refused.NoBrowser {
		t.Error(err)
	}
}

// TestE3CreateAndExplainAgree: exactly those bodies are refused that an explanation calls invalid.
func TestE3CreateAndExplainAgree(t *testing.T) {
	t.Parallel()
	random, w := rand.New(rand.NewPCG(31, 4)), newWorld()
	e := w.browserEngine()
	verdicts := map[bool]int{}
	for n := range 1500 {
		acc := explainable[random.IntN(len(explainable))]
		body := randomBody(random, e, acc)
		x := e.Explain(acc, slices.Clone(body), check.ExplainOptions{IsCreation: true})
		_, _, err := e.Create(t.Context(), acc, slices.Clone(body))
		refused, isRefused := errors.AsType[*auth.RefusedError](err)
		if isRefused && len(refused.Faults) == 1 && refused.Faults[0].Code == message.BadTransactionData.String() {
			continue // what the store has of a first authentication does not count
		}
		if err != nil && !isRefused {
			t.Fatalf("body %d: %v: %s", n, err, body)
		}
		if x.IsValid == isRefused {
			t.Fatalf("body %d: refused %t for %v; explained %+v: %s", n, isRefused, err, x.Faults, body)
		}
		verdicts[x.IsValid]++
	}
	if verdicts[true] < 150 || verdicts[false] < 150 {
		t.Errorf("%v: this shows little", verdicts)
	}
}

// TestF10RowDoesNotShowTheCard: whoever can read the row and open its outer seal has no card number, in any encoding. The
// seal of these tests hides nothing, so what is looked at here is what database and key file give together.
func TestF10RowDoesNotShowTheCard(t *testing.T) {
	t.Parallel()
	w := newWorld()
	o := four()
	o["cardSecurityCode"] = "737"
	a, _, err := w.browserEngine().Create(t.Context(), profiled, o.json())
	if err != nil {
		t.Fatal(told(err))
	}
	data := w.txns[a.ID].Data
	for name, form := range map[string]string{
		"plain": pan, "hexadecimal": hex.EncodeToString([]byte(pan)), "most of it": pan[8:], "code": `"737"`,
	} {
		if bytes.Contains(data, []byte(form)) {
			t.Errorf("%s: %s", name, data)
		}
	}
	for i := range 3 {
		b := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", i) + pan))[4:16]
		if bytes.Contains(data, []byte(b)) {
			t.Errorf("base64: %s", data)
		}
	}
}

// A pageTest is an authentication and the browser that carries it out.
type pageTest struct {
	*world
	*auth.Engine
	t       *testing.T
	id      string
	token   string
	binding string
}

func (w *world) newPage(t *testing.T) *pageTest {
	t.Helper()
	e := w.browserEngine()
	a, access, err := e.Create(t.Context(), profiled, four().json())
	if err != nil {
		t.Fatal(told(err))
	}
	return &pageTest{world: w, Engine: e, t: t, id: a.ID, token: access.Token}
}

// seen is what a real browser tells.
var seen = auth.BrowserData{
	"browserJavascriptEnabled": "true", "browserJavaEnabled": "false", "browserLanguage": "da-DK", "browserColorDepth": "24",
	"browserScreenHeight": "900", "browserScreenWidth": "1440", "browserTZ": "-60", "browserUserAgent": "Mozilla/5.0",
	"browserAcceptHeader": "text/html", "browserIP": "198.51.100.7", "challengeWindowSize": "02", "acceptLanguage": "da-DK,en",
}

func (p *pageTest) startBrowser() *auth.BrowserView {
	p.t.Helper()
	v, binding, err := p.BeginBrowser(p.t.Context(), p.token, p.binding, seen)
	if err != nil {
		p.t.Fatal(err)
	}
	p.binding = binding
	return v
}

// await waits until the browser is told of a step.
func (p *pageTest) await(step auth.BrowserStep) *auth.BrowserView {
	p.t.Helper()
	var v *auth.BrowserView
	waittest.Until(p.t, fmt.Sprintf("the step %s", step), func() bool {
		var err error
		if v, err = p.ViewBrowser(p.t.Context(), p.token, p.binding, -1); err != nil {
			p.t.Fatal(err)
		}
		return v.Step == step
	})
	return v
}

// TestF1FrictionlessInABrowser: the page's members go into the AReq, and the AReq leaves once.
func TestF1FrictionlessInABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld()
	var sent object
	w.sent = func(areq []byte) { sent = parse(t, areq) }
	p := w.newPage(t)
	p.startBrowser()
	if v := p.await(auth.StepEnd); v.End != "completed" {
		t.Errorf("%+v", v)
	}
	for name, want := range map[string]string{
		"browserIP": "198.51.100.7", "browserLanguage": "da-DK", "browserScreenWidth": "1440", "browserTZ": "-60",
		"threeDSCompInd": "U", "acctNumber": pan, "threeDSServerTransID": p.id,
	} {
		if sent.text(name) != want {
			t.Errorf("%s is %q, want %q", name, sent.text(name), want)
		}
	}
	a, err := p.Authentication(t.Context(), profiled, p.id)
	if err != nil || a.Outcome.Result != api.ResultAuthenticated || w.sends[p.id] != 1 {
		t.Errorf("%+v, %v, %d AReqs", a, err, w.sends[p.id])
	}
}

// TestF10CardGoesWithTheAReq: after that the row has nothing of it.
func TestF10CardGoesWithTheAReq(t *testing.T) {
	t.Parallel()
	w := newWorld()
	p := w.newPage(t)
	if !bytes.Contains(w.txns[p.id].Data, []byte(`"Card"`)) {
		t.Fatal("the row has no card before the AReq")
	}
	p.startBrowser()
	p.await(auth.StepEnd)
	if data := w.txns[p.id].Data; bytes.Contains(data, []byte(`"Card"`)) {
		t.Errorf("%s", data)
	}
}

// TestI5OneAReqHoweverOftenBrowsersBegin: on two nodes, many times at once.
func TestI5OneAReqHoweverOftenBrowsersBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.newPage(t)
		p.startBrowser()
		other := w.browserEngine()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				e := []*auth.Engine{p.Engine, other}[i%2]
				if _, _, err := e.BeginBrowser(t.Context(), p.token, p.binding, seen); err != nil {
					t.Error(err)
				}
				if _, err := e.ViewBrowser(t.Context(), p.token, p.binding, -1); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		p.await(auth.StepEnd)
		synctest.Wait() // until all tasks have ended, or wait
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.sends[p.id] != 1 {
			t.Errorf("%d AReqs", w.sends[p.id])
		}
	})
}

// TestD69MethodDecidesThreeDSCompInd: Y when its notification came, N when its time is over.
func TestD69MethodDecidesThreeDSCompInd(t *testing.T) {
	t.Parallel()
	for want, notice := range map[string]bool{"Y": true, "N": false} {
		w := newWorld()
		w.hits[0].Info = allVersions("https://acs.example/method")
		sent := make(chan object, 1)
		w.sent = func(areq []byte) { sent <- parse(t, areq) }
		p := w.newPage(t)
		v := p.startBrowser()
		if v.Step != auth.StepMethod || v.Method == nil || v.Method.URL != "https://acs.example/method" {
			t.Fatalf("%+v", v)
		}
		text, err := base64.RawURLEncoding.DecodeString(v.Method.Data)
		if err != nil {
			t.Fatal(err)
		}
		data := parse(t, text)
		tag := strings.Split(data.text("threeDSMethodNotificationURL"), "/")[4]
		if err := p.EndBrowserMethod(t.Context(), tag, base64.RawURLEncoding.EncodeToString([]byte(`{"threeDSServerTransID":"`+pan+`"}`))); err == nil {
			t.Error("a notification about another authentication counts")
		}
		if notice {
			reply := object{"threeDSServerTransID": p.id}
			if err := p.EndBrowserMethod(t.Context(), tag, base64.RawURLEncoding.EncodeToString(reply.json())); err != nil {
				t.Fatal(err)
			}
		} else {
			w.pass(5 * time.Second) // of 2.3.1
		}
		if got := (<-sent).text("threeDSCompInd"); got != want {
			t.Errorf("threeDSCompInd %s, want %s", got, want)
		}
	}
}

// TestD62SecondBrowserIsTurnedAway: with the stolen token, at every step, and nothing changes.
func TestD62SecondBrowserIsTurnedAway(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.reply = func(_ string, areq object) ([]byte, error) { return ares(areq, "C"), nil }
	p := w.newPage(t)
	p.startBrowser()
	creq := p.await(auth.StepChallenge).Challenge.CReq
	for _, binding := range []string{"", "x", strings.Repeat("A", 43), p.token, p.binding[1:] + "A"} {
		if _, _, err := p.BeginBrowser(t.Context(), p.token, binding, seen); !errors.Is(err, auth.ErrOtherBrowser) {
			t.Errorf("begin: %v", err)
		}
		if _, err := p.ViewBrowser(t.Context(), p.token, binding, -1); !errors.Is(err, auth.ErrOtherBrowser) {
			t.Errorf("view: %v", err)
		}
		if _, err := p.CancelBrowser(t.Context(), p.token, binding); !errors.Is(err, auth.ErrOtherBrowser) {
			t.Errorf("cancel: %v", err)
		}
		if _, err := p.ConfirmBrowser(t.Context(), p.token, binding); !errors.Is(err, auth.ErrOtherBrowser) {
			t.Errorf("confirm: %v", err)
		}
	}
	if v, err := p.OpenBrowser(t.Context(), p.token); err != nil || v.Challenge != nil || v.Amount != "" {
		t.Errorf("a stranger is shown %+v, %v", v, err)
	}
	for _, token := range []string{"", "x", p.token[1:], p.token + "A", strings.Repeat("A", 64), p.token[:60] + "AAAA"} {
		if _, err := p.OpenBrowser(t.Context(), token); !errors.Is(err, auth.ErrNoAuthentication) {
			t.Errorf("token %q: %v", token, err)
		}
	}
	if again := p.await(auth.StepChallenge).Challenge.CReq; again != creq {
		t.Error("the CReq changes from call to call")
	}
}

// TestB7ReturnFromTheBankIsNoResult: it ends nothing, and without the RReq the browser hears pending.
func TestB7ReturnFromTheBankIsNoResult(t *testing.T) {
	t.Parallel()
	w := newWorld()
	var asked object
	w.reply = func(_ string, areq object) ([]byte, error) { asked = areq; return ares(areq, "C"), nil }
	p := w.newPage(t)
	p.startBrowser()
	p.await(auth.StepChallenge)
	tag := strings.Split(asked.text("notificationURL"), "/")[4]
	for range 2 {
		if v, err := p.EndBrowserChallenge(t.Context(), tag); err != nil || v.Step != auth.StepResult {
			t.Errorf("%+v, %v", v, err)
		}
	}
	w.pass(30 * time.Second)
	if v := p.await(auth.StepEnd); v.End != "pending" {
		t.Errorf("%+v", v)
	}
	if got := p.Receive(t.Context(), []string{"visa"}, rreq(asked, "Y", 1).json()); got.Refused != nil {
		t.Fatalf("%+v", got.Refused)
	}
	if v := p.await(auth.StepEnd); v.End != "completed" {
		t.Errorf("%+v", v)
	}
}

// TestD5LateMessagesAfterCancel: an RReq is acknowledged as usual and changes nothing.
func TestD5LateMessagesAfterCancel(t *testing.T) {
	t.Parallel()
	w := newWorld()
	var asked object
	w.reply = func(_ string, areq object) ([]byte, error) { asked = areq; return ares(areq, "C"), nil }
	p := w.newPage(t)
	p.startBrowser()
	p.await(auth.StepChallenge)
	a, err := p.Cancel(t.Context(), profiled, p.id)
	if err != nil || a.Status != api.StatusCancelled || a.Outcome.Result != api.ResultAbandoned || a.Outcome.Next.Action != api.ActionDoNotAuthorise {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err := p.Cancel(t.Context(), profiled, p.id); !errors.Is(err, auth.ErrFinal) {
		t.Errorf("a second cancel: %v", err)
	}
	got := p.Receive(t.Context(), []string{"visa"}, rreq(asked, "Y", 1).json())
	if got.Refused != nil || parse(t, got.Body).text("resultsStatus") != "01" {
		t.Errorf("%s", got.Body)
	}
	if a, err := p.Authentication(t.Context(), profiled, p.id); err != nil || a.Status != api.StatusCancelled {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestF6CancelBeforeTheBrowserComes: no AReq leaves afterwards, and other merchants find nothing.
func TestF6CancelBeforeTheBrowserComes(t *testing.T) {
	t.Parallel()
	w := newWorld()
	p := w.newPage(t)
	stranger := &account.Account{Merchant: &account.Merchant{Name: "Stranger"}}
	if _, err := p.Cancel(t.Context(), stranger, p.id); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Errorf("a stranger: %v", err)
	}
	if a, err := p.Cancel(t.Context(), profiled, p.id); err != nil || a.Status != api.StatusCancelled {
		t.Fatal(a, err)
	}
	if _, _, err := p.BeginBrowser(t.Context(), p.token, "", seen); err == nil {
		t.Error("a browser begins what was cancelled")
	}
	if len(w.sends) != 0 {
		t.Errorf("%d AReqs", len(w.sends))
	}
}

// TestD64ABrowserThatCancelsAtOnceHearsOfIt: the browser that cancels before it has begun hears of that end later, too, and no
// other one does. Where the merchant cancels before any browser comes, nobody else has the payment open: it is over.
func TestD64ABrowserThatCancelsAtOnceHearsOfIt(t *testing.T) {
	t.Parallel()
	w := newWorld()
	p := w.newPage(t)
	mine, other := strings.Repeat("A", 43), strings.Repeat("B", 42)+"A"
	if v, err := p.CancelBrowser(t.Context(), p.token, mine); err != nil || v.End != "cancelled" {
		t.Fatalf("%+v, %v", v, err)
	}
	if v, err := p.ViewBrowser(t.Context(), p.token, mine, -1); err != nil || v.End != "cancelled" {
		t.Errorf("a reload: %+v, %v", v, err)
	}
	if v, _, err := p.BeginBrowser(t.Context(), p.token, mine, seen); err != nil || v.End != "cancelled" {
		t.Errorf("begun again: %+v, %v", v, err)
	}
	if _, err := p.ViewBrowser(t.Context(), p.token, other, -1); !errors.Is(err, auth.ErrOtherBrowser) {
		t.Errorf("another browser: %v", err)
	}

	p = w.newPage(t)
	if _, err := p.Cancel(t.Context(), profiled, p.id); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ViewBrowser(t.Context(), p.token, mine, -1); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Errorf("cancelled by the merchant, view: %v", err)
	}
	if _, _, err := p.BeginBrowser(t.Context(), p.token, mine, seen); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Errorf("cancelled by the merchant, begin: %v", err)
	}
	if len(w.sends) != 0 {
		t.Errorf("%d AReqs", len(w.sends))
	}
}

// TestB4PageThatNeverComes: after its time the authentication is expired, and no browser can begin it.
func TestB4PageThatNeverComes(t *testing.T) {
	t.Parallel()
	w := newWorld()
	p := w.newPage(t)
	w.pass(30*time.Minute + time.Second)
	a, err := p.Authentication(t.Context(), profiled, p.id)
	if err != nil || a.Status != api.StatusExpired || a.Outcome.Result != api.ResultAbandoned {
		t.Errorf("%+v, %v", a, err)
	}
	if _, _, err := p.BeginBrowser(t.Context(), p.token, "", seen); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Error(err)
	}
}

// TestD72BrowserWithoutJavaScript: its 3DS Method does not run, and the AReq has no size of a screen.
func TestD72BrowserWithoutJavaScript(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.hits[0].Info = allVersions("https://acs.example/method")
	var sent object
	w.sent = func(areq []byte) { sent = parse(t, areq) }
	p := w.newPage(t)
	_, binding, err := p.BeginBrowser(t.Context(), p.token, "", auth.BrowserData{
		"browserJavascriptEnabled": "false", "browserUserAgent": "w3m", "browserAcceptHeader": "text/html", "browserIP": "198.51.100.7",
	})
	if err != nil {
		t.Fatal(err)
	}
	p.binding = binding
	p.await(auth.StepEnd)
	if sent.text("threeDSCompInd") != "N" || sent["browserJavascriptEnabled"] != false || sent["browserScreenWidth"] != nil {
		t.Errorf("%s", sent.json())
	}
}

// TestBadBrowserDataDoesNotStopAPayment: what no browser should tell is replaced.
func TestBadBrowserDataDoesNotStopAPayment(t *testing.T) {
	t.Parallel()
	w := newWorld()
	p := w.newPage(t)
	bad := maps.Clone(seen)
	maps.Copy(bad, auth.BrowserData{"browserTZ": "many", "browserIP": "<script>", "browserColorDepth": "blue", "mcc": "1", "browserLanguage": "??"})
	_, binding, err := p.BeginBrowser(t.Context(), p.token, "", bad)
	if err != nil {
		t.Fatal(err)
	}
	p.binding = binding
	if v := p.await(auth.StepEnd); v.End != "completed" {
		t.Errorf("%+v", v)
	}
}

// TestConfirmShowsTheTextOfTheIssuer: the browser ends after it was shown.
func TestConfirmShowsTheTextOfTheIssuer(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.reply = func(_ string, areq object) ([]byte, error) {
		o := aresObject(areq, "N")
		o["cardholderInfo"] = object{"text": "Call your bank"}
		return o.json(), nil
	}
	p := w.newPage(t)
	p.startBrowser()
	if v := p.await(auth.StepConfirm); v.CardholderInfo != "Call your bank" || v.End != "" {
		t.Errorf("%+v", v)
	}
	if v, err := p.ConfirmBrowser(t.Context(), p.token, p.binding); err != nil || v.Step != auth.StepEnd || v.End != "completed" {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestVersionOnlyOfAnotherRange: a version that the card cannot be used in is a fault that lists the others.
func TestVersionOnlyOfAnotherRange(t *testing.T) {
	t.Parallel()
	w := newWorld()
	older := ranges.Info{DSVersions: []string{"2.2.0"}, ACS: []ranges.ACSVersion{{Version: "2.2.0"}}}
	w.hits = []ranges.Hit{{Scheme: "visa", Info: &older}}
	o := four()
	o["messageVersion"] = "2.3.1"
	_, _, err := w.browserEngine().Create(t.Context(), profiled, o.json())
	refused, ok := errors.AsType[*auth.RefusedError](err)
	if !ok || len(refused.Faults) != 1 || refused.Faults[0].Rule != "version" {
		t.Errorf("%v %+v", err, refused)
	}
}

// TestD17RepeatedCreationIsTheSameAuthentication: an attempt that follows one whose node died has its authentication,
// with the same token for the browser, and sends no second AReq.
func TestD17RepeatedCreationIsTheSameAuthentication(t *testing.T) {
	t.Parallel()
	for name, channel := range map[string]object{"browser": {}, "3RI": {"deviceChannel": "03", "threeRIInd": "03"}, "not enrolled": {"acctNumber": "9000100111111111"}} {
		w := newWorld()
		e := w.browserEngine()
		once := auth.Once{Secret: [32]byte{1, 2, 3}}
		once.Note = func(_ context.Context, id string) error { once.ID = id; return nil }
		body := four()
		maps.Copy(body, channel)
		first, access, err := e.Create(auth.WithOnce(t.Context(), once), profiled, body.json())
		if err != nil || once.ID != first.ID {
			t.Fatalf("%s: %s, %+v, noted %q", name, told(err), first, once.ID)
		}
		again, accessAgain, err := e.Create(auth.WithOnce(t.Context(), once), profiled, body.json())
		if err != nil || again.ID != first.ID || again.Status != first.Status || len(w.sends) > 1 {
			t.Errorf("%s: %s, %+v, want %+v; %d AReqs", name, told(err), again, first, len(w.sends))
		}
		if (access == nil) != (accessAgain == nil) || access != nil && *access != *accessAgain {
			t.Errorf("%s: access %+v, want %+v", name, accessAgain, access)
		}
		// An id that cannot be noted makes nothing. One that was noted, and has nothing under it, is used by the next attempt.
		sends, noted := len(w.sends), ""
		once.ID, once.Note = "", func(_ context.Context, id string) error { noted = id; return errors.New("no store") }
		if _, _, err := e.Create(auth.WithOnce(t.Context(), once), profiled, body.json()); !errors.Is(err, txn.ErrStoreUnreachable) || len(w.sends) != sends {
			t.Errorf("%s: %v, %d AReqs more", name, err, len(w.sends)-sends)
		}
		once.ID, once.Note = noted, func(context.Context, string) error { return nil }
		if a, _, err := e.Create(auth.WithOnce(t.Context(), once), profiled, body.json()); err != nil || a.ID != noted {
			t.Errorf("%s: %v, %+v", name, err, a)
		}
	}
}

// agentKey is the API key of an agent.
const agentKey = "5a5a5a5a-0000-4000-8000-00000000000a"

// agentBrowser is what an agent tells of its browser.
func agentBrowser() object {
	return object{
		"browserAcceptHeader": "*/*", "browserIP": "192.0.2.1", "browserJavascriptEnabled": true, "browserLanguage": "en",
		"browserUserAgent": "Agent/1", "browserColorDepth": "24", "browserJavaEnabled": false, "browserScreenHeight": "800",
		"browserScreenWidth": "600", "browserTZ": "0",
	}
}

// newAgent creates an authentication for an agent, which is to tell of its browser later.
func (w *world) newAgent(t *testing.T) (*auth.Engine, auth.Delegation, *auth.Authentication) {
	t.Helper()
	e, d := w.engine(0), auth.Delegation{APIKey: agentKey, AgentSteps: check.AgentSteps{NotificationURL: "https://agent.example/back"}}
	o := four()
	o["deviceChannel"] = "02"
	a, err := e.CreateForAgent(t.Context(), profiled, d, o.json())
	if err != nil || a.Status != api.StatusRequiresBrowser || len(w.sends) != 0 {
		t.Fatal(told(err), a)
	}
	d.Completion = "Y"
	return e, d, a
}

// TestD54AgentThatNeverComesBack: after 30 minutes the authentication has expired, and no AReq leaves any more.
func TestD54AgentThatNeverComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld()
	e, d, a := w.newAgent(t)
	w.pass(30*time.Minute - time.Second)
	if got, err := e.AgentAuthentication(t.Context(), profiled, a.ID); err != nil || got.Status != api.StatusRequiresBrowser {
		t.Errorf("%+v, %v", got, err)
	}
	w.pass(2 * time.Second)
	for range 2 {
		got, err := e.AuthenticateForAgent(t.Context(), profiled, d, a.ID, agentBrowser().json())
		if err != nil || got.Status != api.StatusExpired || len(w.sends) != 0 {
			t.Errorf("%+v, %v, %d AReqs", got, err, len(w.sends))
		}
	}
}

// TestD52CardWaitsUnderTheKey: the row does not show the card, another key of the merchant does not open it, and nothing is
// left of it once the AReq has gone. What was refused before does not use the authentication up.
func TestD52CardWaitsUnderTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld()
	e, d, a := w.newAgent(t)
	data := w.txns[a.ID].Data
	for i := range 3 {
		b := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", i) + pan))[4:16]
		if bytes.Contains(data, []byte(b)) || bytes.Contains(data, []byte(pan)) {
			t.Errorf("the row shows the card: %s", data)
		}
	}
	other := d
	other.APIKey = "5a5a5a5a-0000-4000-8000-00000000000b"
	if _, err := e.AuthenticateForAgent(t.Context(), profiled, other, a.ID, agentBrowser().json()); !errors.Is(err, auth.ErrOtherKey) {
		t.Errorf("with another key: %v", err)
	}
	stranger := &account.Account{Merchant: &account.Merchant{Name: "Other"}}
	if _, err := e.AuthenticateForAgent(t.Context(), stranger, d, a.ID, agentBrowser().json()); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Errorf("another merchant: %v", err)
	}
	if _, err := e.AuthenticateForAgent(t.Context(), profiled, d, a.ID, []byte("{}")); err == nil {
		t.Error("an AReq left without a browser")
	}
	bad := agentBrowser()
	bad["browserIP"] = "nowhere"
	if _, err := e.AuthenticateForAgent(t.Context(), profiled, d, a.ID, bad.json()); err == nil || len(w.sends) != 0 {
		t.Errorf("%v, %d AReqs", err, len(w.sends))
	}
	d.APIKey = strings.ToUpper(d.APIKey) // capital letters make no other key
	got, err := e.AuthenticateForAgent(t.Context(), profiled, d, a.ID, agentBrowser().json())
	if err != nil || got.Status != api.StatusCompleted || len(w.sends) != 1 {
		t.Fatal(told(err), got, len(w.sends))
	}
	if bytes.Contains(w.txns[a.ID].Data, []byte(`"Request"`)) {
		t.Errorf("the sealed request stays: %s", w.txns[a.ID].Data)
	}
	if _, err := e.AuthenticateForAgent(t.Context(), profiled, d, a.ID, agentBrowser().json()); !errors.Is(err, auth.ErrAlreadySent) {
		t.Errorf("a second time: %v", err)
	}
}

// TestD52RepetitionOfAnAgentSendsNothing: a request that repeats one that may have sent the AReq is told how it is.
func TestD52RepetitionOfAnAgentSendsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld()
	e, d, a := w.newAgent(t)
	noted := ""
	once := auth.Once{Note: func(_ context.Context, id string) error { noted = id; return nil }}
	if _, err := e.AuthenticateForAgent(auth.WithOnce(t.Context(), once), profiled, d, a.ID, agentBrowser().json()); err != nil || noted != a.ID {
		t.Fatal(told(err), noted)
	}
	once.ID = noted
	got, err := e.AuthenticateForAgent(auth.WithOnce(t.Context(), once), profiled, d, a.ID, agentBrowser().json())
	if err != nil || got.Status != api.StatusCompleted || len(w.sends) != 1 {
		t.Errorf("%v %+v, %d AReqs", err, got, len(w.sends))
	}
}

// TestD52AgentOnTwoNodes: each of an agent's three calls may come to another node, while a new secret of the key file comes into
// use. One AReq leaves, whichever node is asked a second time; a stranger finds nothing on any.
func TestD52AgentOnTwoNodes(t *testing.T) {
	t.Parallel()
	w := newWorld()
	ring := newKeyRing(t)
	h, err := ring.NewHandover(nil)
	if err != nil {
		t.Fatal(err)
	}
	nodes := []*auth.Engine{w.engine(0), w.engine(0)}
	accepting, err := ring.Accept(&h)
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := ring.Follow(&h)
	if err != nil {
		t.Fatal(err)
	}
	nodes[0].Sealer, nodes[1].Sealer = accepting, rotated
	d := auth.Delegation{APIKey: agentKey, AgentSteps: check.AgentSteps{NotificationURL: "https://agent.example/back"}}
	o := four()
	o["deviceChannel"] = "02"
	a, err := nodes[0].CreateForAgent(t.Context(), profiled, d, o.json())
	if err != nil {
		t.Fatal(told(err))
	}
	if got, err := nodes[1].AgentAuthentication(t.Context(), profiled, a.ID); err != nil || got.Status != api.StatusRequiresBrowser {
		t.Errorf("the other node: %+v, %v", got, err)
	}
	d.Completion = "Y"
	if got, err := nodes[1].AuthenticateForAgent(t.Context(), profiled, d, a.ID, agentBrowser().json()); err != nil || got.Status != api.StatusCompleted {
		t.Fatal(told(err), got)
	}
	for i, e := range nodes {
		if _, err := e.AuthenticateForAgent(t.Context(), profiled, d, a.ID, agentBrowser().json()); !errors.Is(err, auth.ErrAlreadySent) {
			t.Errorf("node %d, a second time: %v", i, err)
		}
		if _, err := e.AgentAuthentication(t.Context(), other, a.ID); !errors.Is(err, auth.ErrNoAuthentication) {
			t.Errorf("node %d, another merchant: %v", i, err)
		}
	}
	if got, err := nodes[0].AgentAuthentication(t.Context(), profiled, a.ID); err != nil || got.Outcome == nil || got.Outcome.Result != api.ResultAuthenticated {
		t.Errorf("the first node: %+v, %v", got, err)
	}
	if len(w.sends) != 1 || w.sends[a.ID] != 1 {
		t.Errorf("AReqs that left: %v", w.sends)
	}
}

// TestD55StrictKeyOfAnAgent: the server writes the elements of the AReq, so a strict key changes nothing.
func TestD55StrictKeyOfAnAgent(t *testing.T) {
	t.Parallel()
	w := newWorld()
	strict := &account.Account{Merchant: profiled.Merchant, Strict: true}
	d := auth.Delegation{APIKey: agentKey, AgentSteps: check.AgentSteps{NotificationURL: "https://agent.example/back"}}
	o := four()
	maps.Copy(o, agentBrowser())
	o["threeDSRequestorChallengeInd"] = "03"
	a, err := w.engine(0).CreateForAgent(t.Context(), strict, d, o.json())
	if err != nil {
		t.Fatal(told(err))
	}
	d.Completion = "N"
	if got, err := w.engine(0).AuthenticateForAgent(t.Context(), strict, d, a.ID, []byte("{}")); err != nil || got.Status != api.StatusCompleted {
		t.Errorf("%v %+v", told(err), got)
	}
}

// outcomes are what an engine has counted, without rules of schemes.
type outcomes struct {
	mu  sync.Mutex
	all []string
}

func (*outcomes) RulesChecked(string, string, []*scheme.Finding) {}

func (o *outcomes) Observe(name, scheme, outcome string, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, name+" "+scheme+" "+outcome)
}

// TestG11AReqsOfBrowsersAreCountedAsThoseOfAuth: alerts and dashboards see them, those that fail above all.
func TestG11AReqsOfBrowsersAreCountedAsThoseOfAuth(t *testing.T) {
	t.Parallel()
	for want, failure := range map[string]error{"auth visa Y": nil, "auth visa 405": errors.New("nobody there")} {
		w := newWorld()
		if failure != nil {
			w.reply = func(string, object) ([]byte, error) { return nil, failure }
		}
		p := w.newPage(t)
		counted := new(outcomes)
		p.Engine.Observer = counted
		p.startBrowser()
		p.await(auth.StepEnd)
		if err := p.Engine.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(counted.all, []string{want}) {
			t.Errorf("counted %q, want %q", counted.all, want)
		}
	}
}
