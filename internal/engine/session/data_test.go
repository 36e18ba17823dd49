package session_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/acp"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// onlyVersion is a range whose issuer and directory speak one version.
func onlyVersion(v message.Version, method string) *ranges.Info {
	return &ranges.Info{
		ACSStart: v.String(), ACSEnd: v.String(), DSStart: v.String(), DSEnd: v.String(), DSVersions: []string{v.String()},
		ACS: []ranges.ACSVersion{{Version: v.String(), MethodURL: method, InfoInd: []string{"01"}}},
	}
}

// measured is what a browser tells that has none of the values by which a request is checked before.
var measured = session.BrowserData{
	"browserJavascriptEnabled": "true", "browserJavaEnabled": "true", "browserLanguage": "fi-FI", "browserColorDepth": "32",
	"browserScreenHeight": "901", "browserScreenWidth": "1441", "browserTZ": "-120", "browserUserAgent": "Mozilla/5.0",
	"browserAcceptHeader": "text/html", "browserIP": "198.51.100.7", "acceptLanguage": "fi-FI,sv;q=0.5",
}

// browserMembersOf returns the members of an AReq that a browser tells, as texts.
func browserMembersOf(areq authtest.Object) map[string]string {
	told := map[string]string{}
	for name, value := range areq {
		if strings.HasPrefix(name, "browser") || name == "acceptLanguage" {
			told[name] = fmt.Sprint(value)
		}
	}
	return told
}

// toldBy runs a browser that tells data to its end, and returns what the merchant sees and the AReq; nil if none left.
func toldBy(w *authtest.World, t *testing.T, request authtest.Object, data session.BrowserData) (*auth.Authentication, authtest.Object) {
	t.Helper()
	var sent authtest.Object
	w.Sent = func(areq []byte) { sent = authtest.Parse(t, areq) }
	e := w.NewBrowserEngine()
	a, access, err := e.Create(t.Context(), authtest.Profiled, request.JSON())
	if err != nil {
		t.Fatal(authtest.Told(err))
	}
	p := &authtest.Page{World: w, Engine: e, T: t, ID: a.ID, Token: access.Token}
	if _, p.Binding, err = p.BeginBrowser(t.Context(), p.Token, "", data); err != nil {
		t.Fatal(err)
	}
	if v := p.Await(session.StepEnd); v.End != "completed" {
		t.Errorf("the browser sees %q", v.End)
	}
	if a, err = e.Authentication(t.Context(), authtest.Profiled, a.ID); err != nil {
		t.Fatal(err)
	}
	return a, sent
}

// isUnavailable reports whether an authentication ended without an AReq because of what the browser did not tell.
func isUnavailable(a *auth.Authentication) bool {
	o := a.Outcome
	return a.Status == api.StatusCompleted && o != nil && o.Result == api.ResultUnavailable && o.TransStatus == "" && o.Authorisation == nil &&
		o.Liability.Shifts == api.ShiftsNo && o.Next.Action == api.ActionAuthoriseWithoutAuthentication && strings.Contains(o.Next.Because, "browser")
}

// TestC21WhatNobodyMeasuredIsNeverSent leaves each member out, alone and with others, in each version. An AReq has what
// the browser sent, or what HTTP says about a missing header. Otherwise there is no AReq.
func TestC21WhatNobodyMeasuredIsNeverSent(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(maps.Keys(measured))
	names = slices.DeleteFunc(names, func(name string) bool { return name == "browserJavascriptEnabled" })
	lists := [][]string{{"browserLanguage", "acceptLanguage"}, {"browserAcceptHeader", "acceptLanguage", "browserIP"}, names}
	for _, name := range names {
		lists = append(lists, []string{name})
	}
	withoutAReq := 0
	for _, v := range message.Versions() {
		for _, script := range []string{"true", "false"} {
			for _, missing := range lists {
				w := authtest.NewWorld()
				w.Hits[0].Info = onlyVersion(v, "")
				data := maps.Clone(measured)
				data["browserJavascriptEnabled"] = script
				for _, name := range missing {
					delete(data, name)
				}
				a, sent := toldBy(w, t, authtest.Four(), data)
				if sent == nil {
					withoutAReq++
					if !isUnavailable(a) {
						t.Errorf("%s, script %s, without %q: %+v", v, script, missing, a.Outcome)
					}
					continue
				}
				good := maps.Clone(data)
				good["acceptLanguage"] = "[fi-FI sv]"
				for name, value := range browserMembersOf(sent) {
					isGood := value == good[name] || name == "browserAcceptHeader" && value == "*/*" ||
						name == "browserLanguage" && (value == "fi-FI" && data["acceptLanguage"] != "" || value == "und") ||
						name == "acceptLanguage" && (value == "[fi-FI]" && data["browserLanguage"] != "" || value == "[*]")
					if !isGood {
						t.Errorf("%s, script %s, without %q: %s is %s, which nobody has told", v, script, missing, name, value)
					}
				}
			}
		}
	}
	if withoutAReq < 20 {
		t.Errorf("%d authentications without an AReq: this shows little", withoutAReq)
	}
}

// TestC21WithoutScriptIsFrom220On is also D72: in 2.1.0 the issuer is not asked, for a browser without scripts cannot
// find out what the issuer must know. The 3DS Method does not run in any version.
func TestC21WithoutScriptIsFrom220On(t *testing.T) {
	t.Parallel()
	headers := session.BrowserData{
		"browserJavascriptEnabled": "false", "browserUserAgent": "w3m", "browserAcceptHeader": "text/html", "browserIP": "198.51.100.7",
		"acceptLanguage": "fi",
	}
	for _, v := range message.Versions() {
		w := authtest.NewWorld()
		w.Hits[0].Info = onlyVersion(v, "https://acs.example/method")
		a, sent := toldBy(w, t, authtest.Four(), headers)
		if hasAReq := v >= message.V220; (sent != nil) != hasAReq || isUnavailable(a) == hasAReq || a.MessageVersion != v.String() {
			t.Errorf("%s: %+v, AReq %s", v, a.Outcome, sent.JSON())
		}

		agent := authtest.AgentBrowser()
		for _, name := range []string{"browserColorDepth", "browserJavaEnabled", "browserScreenHeight", "browserScreenWidth", "browserTZ"} {
			delete(agent, name)
		}
		agent["browserJavascriptEnabled"], agent["acceptLanguage"] = false, []string{"en"}
		for _, isAtOnce := range []bool{true, false} {
			w := authtest.NewWorld()
			w.Hits[0].Info = onlyVersion(v, "https://acs.example/method")
			sent := authtest.Object(nil)
			w.Sent = func(areq []byte) { sent = authtest.Parse(t, areq) }
			e, d := w.NewEngine(0), session.Delegation{APIKey: authtest.AgentKey, AgentSteps: check.AgentSteps{NotificationURL: "https://agent.example/back"}}
			first, later := authtest.Four(), authtest.Object{}
			first["deviceChannel"] = "02"
			if isAtOnce {
				maps.Copy(first, agent)
			} else {
				later = agent
			}
			a, err := e.CreateForAgent(t.Context(), authtest.Profiled, d, first.JSON())
			if err != nil || isAtOnce && a.MethodURL != "" {
				t.Fatalf("%s: %s, 3DS Method %q", v, authtest.Told(err), a.MethodURL)
			}
			d.Completion = "N"
			for range 2 { // a second call finds the end as it stands, or that the AReq has left
				a, err = e.AuthenticateForAgent(t.Context(), authtest.Profiled, d, a.ID, later.JSON())
				if v >= message.V220 {
					break
				}
			}
			if err != nil {
				t.Fatalf("%s: %s", v, authtest.Told(err))
			}
			s, err := acp.SessionOf(&acp.Authentication{ID: a.ID, Status: a.Status, Outcome: a.Outcome, ARes: a.ARes}, true)
			if want := v >= message.V220; err != nil || (sent != nil) != want || isUnavailable(a) == want ||
				(s.Status == acp.Unavailable) == want || (s.Result != nil) != want {
				t.Errorf("%s, all at once %t: %+v, %+v, AReq %s", v, isAtOnce, a.Outcome, s, sent.JSON())
			}
			if strings.Contains(string(w.Txns[a.ID].Data), `"Request"`) {
				t.Errorf("%s: the card stays", v)
			}
		}
	}
}

// TestC21AgentThatTellsEmptyTexts: an empty text counts as not sent, and no other value is put in its place.
func TestC21AgentThatTellsEmptyTexts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"browserUserAgent", "browserIP", "browserLanguage"} {
		w := authtest.NewWorld()
		var sent authtest.Object
		w.Sent = func(areq []byte) { sent = authtest.Parse(t, areq) }
		e, d, a := w.NewAgent(t)
		b := authtest.AgentBrowser()
		b[name] = ""
		a, err := e.AuthenticateForAgent(t.Context(), authtest.Profiled, d, a.ID, b.JSON())
		if err != nil || isUnavailable(a) != (sent == nil) || sent != nil && sent[name] != nil {
			t.Errorf("%s: %s, %+v, AReq %s", name, authtest.Told(err), a, sent.JSON())
		}
	}
}

// ruleOf returns what was normalised in an element.
func ruleOf(a *auth.Authentication, name string) (rules []string) {
	for _, c := range a.Normalised {
		if c.Pointer == "/"+name {
			rules = append(rules, c.Rule)
		}
	}
	return rules
}

// TestCase23AnyBytesOfABrowserCanBegin: headers may have bytes that are no UTF-8.
func TestCase23AnyBytesOfABrowserCanBegin(t *testing.T) {
	t.Parallel()
	for _, v := range message.Versions() {
		for _, c := range []struct{ name, header, ascii, unicode string }{
			{"browserUserAgent", "Mozilla/5.0 \xfc", "Mozilla/5.0 u", "Mozilla/5.0 ü"},
			{"browserUserAgent", "Mozilla/5.0 \xa0x", "Mozilla/5.0  x", "Mozilla/5.0 \u00a0x"},
			{"browserUserAgent", "\xff\xfe", "yth", "ÿþ"},
			{"browserUserAgent", "Mozilla/5.0 \x80\tx", "Mozilla/5.0   x", "Mozilla/5.0   x"},
			{"browserUserAgent", "Mozilla/5.0 微\t", "Mozilla/5.0 ? ", "Mozilla/5.0 微 "},
			{"browserUserAgent", "Mozilla/5.0 ünï", "Mozilla/5.0 uni", "Mozilla/5.0 ünï"},
			{"browserAcceptHeader", "text/html\xfc", "text/htmlu", "text/htmlü"},
			{"browserAcceptHeader", "\xff\xfe", "yth", "ÿþ"},
			{"browserUserAgent", strings.Repeat("\xfc", 5000), strings.Repeat("u", 2048), strings.Repeat("ü", 2048)},
			{"browserAcceptHeader", strings.Repeat("a", 3000), strings.Repeat("a", 2048), strings.Repeat("a", 2048)},
			{"browserLanguage", "de_DE", "de-DE", "de-DE"},
			{"browserLanguage", "\xfc,fi", "fi", "fi"},
			{"browserTZ", "+060", "60", "60"},
			{"browserIP", "2001:db8::1", "2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1"},
		} {
			w := authtest.NewWorld()
			w.Hits[0].Info = onlyVersion(v, "")
			data := maps.Clone(authtest.Seen)
			data[c.name] = c.header
			a, sent := toldBy(w, t, authtest.Four(), data)
			want := c.ascii
			if v >= message.V231 {
				want = c.unicode
			}
			if sent.Text(c.name) != want || want != c.header && len(ruleOf(a, c.name)) == 0 {
				t.Errorf("%s: %s %q became %q, want %q; normalised %q", v, c.name, c.header, sent.Text(c.name), want, ruleOf(a, c.name))
			}
			for _, n := range a.Normalised {
				if strings.Contains(n.Pointer, "IP") && (len(n.Found) > 4 || len(n.Sent) > 4) {
					t.Errorf("the address of the shopper is told: %+v", n)
				}
			}
		}
	}
}

// TestCase23AcceptLanguageOfAnyBytes: the entries that are none do not count, and the others do.
func TestCase23AcceptLanguageOfAnyBytes(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	data := maps.Clone(measured)
	data["acceptLanguage"] = "\xfc\xff,de;q=0.5,\xa0," + strings.Repeat("a", 101) + ",fi"
	a, sent := toldBy(w, t, authtest.Four(), data)
	if got := fmt.Sprint(sent["acceptLanguage"]); got != "[fi de]" ||
		!slices.Contains(ruleOf(a, "acceptLanguage"), "without the entries that are no language tags") {
		t.Errorf("acceptLanguage %s, normalised %q", got, ruleOf(a, "acceptLanguage"))
	}
}

// TestCase27WholeAcceptLanguageIsSent is also MC-64.
func TestCase27WholeAcceptLanguageIsSent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ script, language, header, accept, own, rule string }{
		{"true", "de-DE", "de-DE,de;q=0.9,en;q=0.8", "[de-DE de en]", "de-DE", ""},
		{"true", "de-DE", "en;q=0.1,de", "[de en]", "de-DE", ""},
		{"true", "de-DE", "", "[de-DE]", "de-DE", "taken from browserLanguage"},
		{"true", "", "da, en;q=0.8", "[da en]", "da", ""},
		{"true", "??", "da", "[da]", "da", ""},
		{"true", "", "", "[*]", "und", "any, for the browser has sent no Accept-Language"},
		{"false", "", "de-DE,de;q=0.9,en;q=0.8", "[de-DE de en]", "", ""},
		{"false", "", "*", "[*]", "", ""},
		{"false", "", "", "[*]", "", "any, for the browser has sent no Accept-Language"},
	} {
		w := authtest.NewWorld()
		data := maps.Clone(measured)
		data["browserJavascriptEnabled"], data["browserLanguage"], data["acceptLanguage"] = c.script, c.language, c.header
		a, sent := toldBy(w, t, authtest.Four(), data)
		rule := strings.Join(ruleOf(a, "acceptLanguage"), " and ")
		if got := fmt.Sprint(sent["acceptLanguage"]); got != c.accept || sent.Text("browserLanguage") != c.own || rule != c.rule {
			t.Errorf("%+v: acceptLanguage %s, browserLanguage %q, normalised %q", c, got, sent.Text("browserLanguage"), rule)
		}
	}
}

// TestCase25CureOfATextThatIsNotASCII: the cure names transliterate only where that helps. What a browser sends does
// not count as a fault of the requestor.
func TestCase25CureOfATextThatIsNotASCII(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	with := *authtest.Profiled.Merchant
	with.Transliterate = true
	strict := *authtest.Profiled
	strict.Strict = true
	for name, acc := range map[string]*account.Account{"without": authtest.Profiled, "with": {Merchant: &with}, "strict": &strict} {
		for member, value := range map[string]string{
			"email": "jürgen@example.com", "threeDSRequestorURL": "https://shop.example/ä", "acctID": "ä1", "cardholderName": "微微微",
			"browserUserAgent": "Mozilla/5.0 ünï", "browserAcceptHeader": "text/htmlü",
		} {
			o := authtest.AReq("2.2.0", "")
			delete(o, "threeDSServerTransID")
			o["cardholderName"] = "Ann Example"
			o[member] = value
			x := w.NewEngine(0).Explain(acc, o.JSON(), check.ExplainOptions{})
			cures := ""
			for _, f := range x.Faults {
				if *f.Pointer == "/"+member {
					cures += f.Cure
				}
			}
			want := "Send ASCII."
			switch {
			case name == "without" && member == "cardholderName":
				want = "Send ASCII, or have the merchant configured with transliterate."
			case name == "with" && member == "cardholderName", name != "strict" && strings.HasPrefix(member, "browser"):
				want = "" // an optional name is left out, and what a browser sends is written in ASCII
			}
			if cures != want {
				t.Errorf("%s transliterate, %s: cure %q, want %q", name, member, cures, want)
			}
		}
	}
	var sent authtest.Object
	w.Sent = func(areq []byte) { sent = authtest.Parse(t, areq) }
	w.Hits[0].Info = onlyVersion(message.V220, "")
	e, d, a := w.NewAgent(t)
	b := authtest.AgentBrowser()
	b["browserUserAgent"], b["browserAcceptHeader"] = "Mozilla/5.0 ünï", "text/htmlü"
	a, err := e.AuthenticateForAgent(t.Context(), authtest.Profiled, d, a.ID, b.JSON())
	if err != nil || sent.Text("browserUserAgent") != "Mozilla/5.0 uni" ||
		sent.Text("browserAcceptHeader") != "text/htmlu" || len(ruleOf(a, "browserUserAgent")) != 1 {
		t.Errorf("agent: %s, %s, %+v", authtest.Told(err), sent.JSON(), a)
	}
}

// TestD77LanguageOfTheRequestGoesFirst: it chooses the language of the page before and after the browser has begun.
func TestD77LanguageOfTheRequestGoesFirst(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	e := w.NewBrowserEngine()
	o := authtest.Four()
	o["browserLanguage"] = "fi-FI"
	_, access, err := e.Create(t.Context(), authtest.Profiled, o.JSON())
	if err != nil {
		t.Fatal(authtest.Told(err))
	}
	v, err := e.OpenBrowser(t.Context(), access.Token)
	if err != nil || v.Language != "fi-FI" {
		t.Errorf("%+v, %v", v, err)
	}
	if v, _, err = e.BeginBrowser(t.Context(), access.Token, "", authtest.Seen); err != nil || v.Language != "fi-FI" {
		t.Errorf("%+v, %v", v, err)
	}
	p := w.NewPage(t)
	if v, err := p.OpenBrowser(t.Context(), p.Token); err != nil || v.Language != "" {
		t.Errorf("a page that nobody has begun: %+v, %v", v, err)
	}
	if v := p.Start(); v.Language != "da-DK" {
		t.Errorf("%+v", v)
	}
}

// TestChangesOfABrowserAreToldWithTheirValues: as those of a request are.
func TestChangesOfABrowserAreToldWithTheirValues(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	w.Hits[0].Info = onlyVersion(message.V220, "")
	data := maps.Clone(authtest.Seen)
	data["browserUserAgent"] = "A/1 \xfc"
	a, _ := toldBy(w, t, authtest.Four(), data)
	i := slices.IndexFunc(a.Normalised, func(c api.Correction) bool { return c.Pointer == "/browserUserAgent" })
	if i < 0 || string(a.Normalised[i].Found) != `"A/1 ü"` || string(a.Normalised[i].Sent) != `"A/1 u"` {
		text, _ := json.Marshal(a.Normalised)
		t.Errorf("%s", text)
	}
}
