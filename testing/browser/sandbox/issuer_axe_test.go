package sandbox

import (
	"encoding/base64"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	gojose "github.com/go-jose/go-jose/v4"

	"github.com/openthreeds/threeds/sandbox"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// toForm goes to an issuer in the same window.
var toForm = template.Must(template.New("").Parse(`<!doctype html><html lang=en><meta charset=utf-8><title>Shop</title>
<form method=post action="{{.Action}}">{{range $n, $v := .Fields}}<input type=hidden name="{{$n}}" value="{{$v}}">{{end}}</form>
<script>document.forms[0].submit()</script>`))

// TestB9AxeFindsNothingOnTheIssuersPages: the pages of both versions, in their states, as they are in a window of their
// own and, as narrow as frames are, on a phone.
func TestB9AxeFindsNothingOnTheIssuersPages(t *testing.T) {
	axe := browsertest.NewAxe(t)
	ctx := browsertest.NewBrowser(t)
	box := start(t, func(s *sandbox.Sandbox) { s.PageDelay, s.AppDelay = time.Hour, time.Hour })
	s := newServer(t, box)
	go func() { // nobody wants the results
		for {
			select {
			case <-s.got:
			case <-t.Context().Done():
				return
			}
		}
	}()
	var form browserForm
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = toForm.Execute(w, form)
	}))
	t.Cleanup(shop.Close)
	// show waits for the page of an issuer, then checks it.
	show := func(name string) {
		t.Helper()
		err := browsertest.Wait(ctx, func() (bool, error) {
			return chromedp.Run(ctx, chromedp.Evaluate[bool](
				`document.readyState === "complete" && document.title !== "Shop" && document.title !== "before" && !!document.querySelector("h1")`))
		})
		if err != nil {
			browsertest.FailureScreenshot(t, ctx, "sandbox-failed-axe")
			t.Fatalf("%s: %v", name, err)
		}
		axe.CheckViews(ctx, name)
	}
	open := func(name, action string, fields map[string]string) {
		t.Helper()
		form = browserForm{action, fields}
		_ = chromedp.Do(ctx, browsertest.View(1280, 800, "light"), chromedp.Navigate(shop.URL)) // which goes on by itself
		show(name)
	}
	press := func(name, button string) {
		t.Helper()
		click := `document.title = "before"; document.querySelector('button[value="` + button + `"]').click()`
		if err := chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](click)); err != nil {
			t.Fatal(err)
		}
		show(name)
	}
	challenge := func(name, version, pan, size string) {
		t.Helper()
		ares := s.ask(s.areq(version, "02", pan).with(members{"notificationURL": shop.URL + "/back"}))
		m := creq(ares).with(members{"challengeWindowSize": size})
		open(name, ares["acsURL"].(string), map[string]string{"creq": base64.RawURLEncoding.EncodeToString(m.json(t))})
	}
	challenge("code", "2.2.0", "4000000000000172", "02")
	press("wrong code", "submit")
	press("code again", "resend")
	press("cancelled", "cancel")
	challenge("code with terms", "2.2.0", "4000000000000175", "05")
	challenge("fails", "2.2.0", "4000000000000171", "02")
	challenge("outside", "2.2.0", "4000000000000174", "02")
	press("outside, too early", "submit")
	press("outside, declined", "decline")
	challenge("outside 2.3.1", "2.3.1", "4000000000000174", "03")
	press("outside, confirmed", "approve")
	open("no CReq", box.ACSURL()+"/challenge", map[string]string{"creq": "none"})

	ares := s.ask(s.areq("2.2.0", "01", "4000000000000172"))
	if err := chromedp.Do(ctx, chromedp.Navigate(box.ControlURL()+"/app?transID="+ares["acsTransID"].(string))); err != nil {
		t.Fatal(err)
	}
	show("in the place of an app")
	for _, button := range []string{"approve", "decline"} {
		k := newSDK(t, s, "2.2.0", "4000000000000174", gojose.A128CBC_HS256, showing("01", "04"))
		k.send(members{"threeDSRequestorAppURL": "shop-app://pay?transID=1"})
		if err := chromedp.Do(ctx, chromedp.Navigate(box.ACSURL()+"/bank/"+k.ares["acsTransID"].(string))); err != nil {
			t.Fatal(err)
		}
		show("app of the bank")
		press("app of the bank, "+button, button)
	}

	p := newPlugIn(t, box, "visa")
	for name, pan := range map[string]string{"1.0.2": "4000000000000000", "1.0.2 denied": "4000000000000002"} {
		ve := p.enrolled("id", pan)
		open(name, ve.URL, map[string]string{"PaReq": pack(t, p.paReq("id", ve.AcctID)), "TermUrl": shop.URL + "/back", "MD": "m"})
	}
	open("1.0.2, no PaReq", p.enrolled("id", "4000000000000000").URL, map[string]string{"PaReq": "none", "TermUrl": shop.URL, "MD": url.QueryEscape("m")})
}
