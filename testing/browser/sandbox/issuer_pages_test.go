package sandbox

import (
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
	gojose "github.com/go-jose/go-jose/v4"

	"github.com/openthreeds/threeds/testing/browsertest"
)

var framesIssuer = template.Must(template.New("").Parse(`<!doctype html><meta charset=utf-8><title>Shop</title>
<iframe name=bank width=390 height=400></iframe>
<form method=post action="{{.ACS}}" target=bank><input type=hidden name=creq value="{{.CReq}}"></form>
<script>document.forms[0].submit()</script>`))

// newShop is a shop with a page that goes to the issuer, and one to come back to; what
// comes back there, the channel has.
func newShop(t *testing.T, page *template.Template, fields any) (*httptest.Server, <-chan url.Values) {
	came := make(chan url.Values, 1)
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/back" {
			_ = page.Execute(w, fields)
			return
		}
		_ = r.ParseForm()
		fmt.Fprint(w, "<!doctype html><title>Back</title><p data-testid=back>Back")
		came <- r.PostForm
	}))
	t.Cleanup(shop.Close)
	return shop, came
}

// TestCodePage is a person at the page for the code, in the frame of a shop of
// another origin: after a wrong code the keyboard is where it was, going back
// does not break the page, and the right code passes.
func TestCodePage(t *testing.T) {
	ctx := browsertest.NewBrowser(t)
	s := newServer(t, start(t, nil))
	var fields struct{ ACS, CReq string }
	shop, came := newShop(t, framesIssuer, &fields)
	areq := s.areq("2.2.0", "02", "4000000000000172").with(members{"notificationURL": shop.URL + "/back"})
	ares := s.ask(areq)
	fields.ACS, fields.CReq = ares["acsURL"].(string), s.form(creq(ares), "").Get("creq")

	do := func(steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, steps...); err != nil {
			browsertest.FailureScreenshot(t, ctx, "sandbox-failed-"+t.Name())
			t.Fatal(err)
		}
	}
	do(browsertest.View(1280, 800, "light"), chromedp.Navigate(shop.URL))
	const ready, field = `document.readyState === "complete" && document.body.className === ""`, ` && document.querySelector("#otp")`
	browsertest.InFrame(t, ctx, ready+field+` !== null`)
	do(chromedp.KeyEvent("\t"))
	browsertest.InFrame(t, ctx, ready+field+`.matches(":focus")`)
	do(chromedp.KeyEvent("1\r"))
	browsertest.InFrame(t, ctx, ready+field+`.matches("[aria-invalid]:focus")`)
	browsertest.InFrame(t, ctx, `(document.body.className = "before") !== ""`)
	do(chromedp.Evaluate[chromedp.Void](`history.back()`))
	browsertest.InFrame(t, ctx, ready+field+`.matches("[aria-invalid]:focus")`)
	do(chromedp.KeyEvent("123456\r"))
	select {
	case form := <-came:
		if got := read(t, unpad(t, form.Get("cres"))); got["transStatus"] != "Y" {
			t.Errorf("CRes %v", got)
		}
	case <-ctx.Done():
		t.Fatal("nothing has come to the shop")
	}

	_, ares = s.challenged("2.2.0", "4000000000000172")
	send(t, ares["acsURL"].(string), s.form(creq(ares), ""))
	do(chromedp.Navigate(ares["acsURL"].(string)+"/"+ares["acsTransID"].(string)), browsertest.WaitVisible(chromedp.CSS("#otp")))
	fits, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`document.documentElement.scrollHeight <= innerHeight`))
	if err != nil || !fits {
		t.Errorf("the page fits a large window: %t, %v", fits, err)
	}
}

// TestT6BankApp is a person in the app of the bank: it fits the windows of phones, the keyboard reaches what is needed,
// and the way back is a link to the app of the shop.
func TestT6BankApp(t *testing.T) {
	ctx := browsertest.NewBrowser(t)
	s := newServer(t, start(t, nil))
	do := func(steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, steps...); err != nil {
			browsertest.FailureScreenshot(t, ctx, "sandbox-failed-"+t.Name())
			t.Fatal(err)
		}
	}
	const back = "shop-app://pay?transID=1"
	for _, press := range []string{"approve", "decline"} {
		k := newSDK(t, s, "2.2.0", "4000000000000174", gojose.A128CBC_HS256, showing("01", "04"))
		k.send(members{"threeDSRequestorAppURL": back})
		do(chromedp.Navigate(s.box.ACSURL() + "/bank/" + k.ares["acsTransID"].(string)))
		show := func(name string) {
			t.Helper()
			for _, look := range views([]view{{1280, 700, "light"}, {1280, 700, "dark"}, {375, 700, "light"}, {375, 700, "dark"},
				{320, 700, "light"}, {320, 700, "dark"}}) {
				do(browsertest.View(look.width, look.height, look.scheme))
				browsertest.Screenshot(t, ctx, fmt.Sprintf("sandbox-bank-%s-%d-%s", name, look.width, look.scheme))
				fits, err := chromedp.Run(ctx, chromedp.Evaluate[bool](
					`document.documentElement.scrollWidth <= innerWidth && document.documentElement.scrollHeight <= innerHeight`))
				if err != nil || !fits {
					t.Errorf("%s fits %d px: %t, %v", name, look.width, fits, err)
				}
			}
		}
		if press == "approve" {
			show("asks")
		}
		do(chromedp.Click(chromedp.CSS(`[data-testid="`+press+`"]`)), browsertest.WaitVisible(chromedp.CSS(`[data-testid="back"]`)))
		show(press)
		do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`), chromedp.KeyEvent("\t"))
		focused, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.activeElement.getAttribute("href")`))
		if err != nil || focused != back {
			t.Errorf("the first stop of the keyboard after %s is %q, %v", press, focused, err)
		}
		k.result()
	}
}
