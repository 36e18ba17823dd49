package sandbox

import (
	"fmt"
	"html/template"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/sandbox"
	"github.com/openthreeds/threeds/testing/browsertest"
)

var toIssuer = template.Must(template.New("").Parse(`<!doctype html><meta charset=utf-8><title>Shop</title>
<form method=post action="{{.ACS}}"><input type=hidden name=PaReq value="{{.PaReq}}"><input type=hidden name=TermUrl value="{{.Back}}">
<input type=hidden name=MD value="{{.MD}}"></form><script>document.forms[0].submit()</script>`))

// TestV1Page goes to the issuer's page with a real browser, looks at it in
// several sizes, and comes back: by the button, then by itself. What arrives at
// the shop is what the page was given, to the byte.
func TestV1Page(t *testing.T) {
	const mark = `a+b "c" <d> & ü`
	ctx := browsertest.NewBrowser(t)
	var fields struct{ ACS, PaReq, Back, MD string }
	shop, came := newShop(t, toIssuer, &fields)
	id := func(name string) chromedp.CSS { return chromedp.CSS(`[data-testid="` + name + `"]`) }
	do := func(steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, steps...); err != nil {
			t.Fatal(err)
		}
	}
	for _, delay := range []time.Duration{time.Hour, time.Millisecond} {
		box := start(t, func(s *sandbox.Sandbox) { s.PageDelay = delay })
		p := newPlugIn(t, box, "mastercard") // whose PaRes has line breaks in it
		ve := p.enrolled("id", "5100001234560000")
		fields.ACS, fields.PaReq, fields.Back, fields.MD = ve.URL, pack(t, p.paReq("id", ve.AcctID)), shop.URL+"/back", mark
		do(browsertest.View(390, 400, "light"), chromedp.Navigate(shop.URL))
		if delay == time.Hour {
			do(browsertest.WaitVisible(id("continue")))
			for _, size := range [][2]int64{{250, 400}, {390, 400}, {500, 600}, {600, 400}, {1280, 800}} {
				do(browsertest.View(size[0], size[1], "light"))
				fits, err := chromedp.Run(ctx, chromedp.Evaluate[bool](
					`document.documentElement.scrollWidth <= innerWidth && document.querySelector("button").offsetHeight >= 40 && document.querySelector("button").getBoundingClientRect().bottom <= innerHeight`))
				if err != nil || !fits {
					t.Errorf("%d × %d: the page fits: %t, %v", size[0], size[1], fits, err)
				}
				browsertest.Screenshot(t, ctx, fmt.Sprintf("sandbox-v1-page-%d", size[0]))
			}
			do(chromedp.Focus(id("continue")), chromedp.KeyEvent("\r"))
		}
		do(browsertest.WaitVisible(id("back")))
		form := <-came
		if form.Get("MD") != mark {
			t.Errorf("MD %q, want %q", form.Get("MD"), mark)
		}
		if got := readAnswer(t, unpack(t, form.Get("PaRes"))).Message; len(got.PARes) != 1 || got.PARes[0].Status != "Y" {
			t.Errorf("PARes %+v", got)
		}
		if out, good := xmlsec(t, p.ds.RootsPEM(), unpack(t, form.Get("PaRes"))); !good {
			t.Error(out)
		}
	}
}
