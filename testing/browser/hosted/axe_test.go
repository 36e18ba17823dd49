package hosted

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/edge/browser"
	"github.com/openthreeds/threeds/internal/edge/browser/enginetest"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// TestB6AxeFindsNothingOnTheHostedPage: each face of the hosted page, with JavaScript and without, in both
// directions of writing.
func TestB6AxeFindsNothingOnTheHostedPage(t *testing.T) {
	axe := browsertest.NewAxe(t)
	w := newWorld(t)
	w.walkHosted(func(face string) { axe.CheckViews(w.ctx, face) })
}

// landmarkShop is the page of a merchant with landmarks and headings of its own, as most have it.
const landmarkShop = `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>Shop</title>
<style>body{color:#000;background:#fff}</style>
<header>Fjord Audio</header><main><h1>Checkout</h1><h2>Your card</h2><button id="pay">Pay</button><div id="inline"></div></main><footer>About us</footer>
<script type="module">
import { authenticate } from %q
window.steps = []
window.authenticate = (o) => {
  return authenticate({ onStep: (s) => steps.push(s), ...o }).then((end) => (window.end = end))
}
window.isReady = true
</script>`

// TestB6AxeFindsNothingInTheDialog: each face of threeds.js as a dialog and inside the page of a merchant.
func TestB6AxeFindsNothingInTheDialog(t *testing.T) {
	axe := browsertest.NewAxe(t)
	w := newWorld(t)
	w.looks.Store("plum", browser.Looks{Name: "Plum", Colour: "#7a4379", Accent: "#ffb000"})
	w.echo.Store("/landmarks", fmt.Sprintf(landmarkShop, w.base+"/threeds.js"))
	for place, options := range map[string]string{
		"dialog": "", "full": "size: '05'", "arabic": "locale: 'ar'", "inside": "container: document.querySelector('#inline')",
	} {
		for _, face := range []struct {
			name string
			row  enginetest.Row
			at   string // what is there when the face is
			do   chromedp.Action[chromedp.Void]
		}{
			{"waiting", enginetest.Row{IsSlow: true}, mark("spinner"), nil},
			{"bank", enginetest.Row{ACSURL: w.bank + "/challenge"}, mark("challenge"), nil},
			{"cancel", enginetest.Row{ACSURL: w.bank + "/challenge"}, mark("challenge"), chromedp.Evaluate[chromedp.Void](mark("cancel") + `.click()`)},
			{"bank window", enginetest.Row{ACSURL: w.bank + "/challenge"}, mark("open-bank"), nil},
			{"information", enginetest.Row{Info: "Please call the number on the back of your card."}, mark("continue"), nil},
		} {
			w.do(browsertest.View(1280, 800, "light"), chromedp.Navigate(w.shop+"/landmarks"))
			w.until(`window.isReady === true`)
			if place == "full" {
				face.row.View.Merchant = "plum"
			}
			w.start(w.engine.Add(face.row), options)
			w.until("!!" + face.at)
			if face.do != nil {
				w.do(face.do)
			}
			axe.CheckViews(w.ctx, place+", "+face.name)
		}
	}
}
