package pages_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/admin"
	"github.com/openthreeds/threeds/internal/browsertest"
	"github.com/openthreeds/threeds/internal/journal"
	"github.com/openthreeds/threeds/internal/operator"
)

// consoleFaces are the addresses of the pages of the console, by a name for each. fillConsole makes what they show.
var consoleFaces = map[string]string{
	"search": "/authentications", "empty": "/authentications?q=9999", "card": "/authentications/search", "authentication": "/authentications/" + passedID,
	"beside": "/authentications/" + passedID + "?step=ares&beside=areq", "reports": "/reports?by=merchant", "billing": "/billing", "mandates": "/reports?by=mandates", "merchants": "/merchants",
	"merchants-found": "/merchants?name=shop", "keys-found": "/keys?name=till", "merchant": "/merchants/Corner%20Shop", "keys": "/keys", "tokens": "/tokens", "audit": "/audit", "gone": "/nowhere", "webhooks": "/webhooks", "webhook": "/webhooks/" + hookID, "operators": "/operators", "explain": "/explain", "overview": "/", "erase": "/erase",
	"personal":    "/authentications/" + personalID + "?step=areq",
	"directories": "/directories", "ranges": "/ranges?prefix=4000", "rangediff": "/ranges/visa/diff",
	"certificates": "/certificates", "certificate": "/certificates/visa?done=request", "nocertificate": "/certificates/mastercard",
}

// fillConsole gives a console a key, directories and card ranges, with something that needs attention.
func (s *site) fillConsole() {
	s.Helper()
	s.post("operator", "/keys", map[string][]string{"merchant": {shop}, "label": {"till 4"}})
	s.addUnkept()
	s.addPersonal()
	s.addWaiting()
	n := s.addNode()
	s.twoRanges()
	n.directories[0].Breaker = admin.Breaker{State: admin.BreakerOpen, Since: &s.now, Fault: "Connection refused", Refused: 1234}
	n.endings["directories[1].client_cert.cert"] = s.now.AddDate(0, 0, 13)
	ca := newTestCA(s)
	s.installCertificate(ca, "first.example", "")
	s.want(s.post("operator", "/certificates/visa", url.Values{"do": {"activate"}}), 303)
	s.installCertificate(ca, "a-name-that-is-quite-long-and-has-no-end.department.example", "2028-01-31T03:00")
	s.want(s.post("operator", "/certificates/visa", url.Values{"do": {"request"}, "key": {"p256"}, "subject": {"CN=third.example,O=Example Payments,C=NL"}}), 303)
}

// serveAs serves the console to a browser that is logged in as a caller, and returns its address.
func (s *site) serveAs(caller string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session := &operator.Session{Actor: actor(caller), CSRF: csrf}
		s.pages.ServeHTTP(w, r.WithContext(operator.WithSession(r.Context(), session)))
	}))
	s.Cleanup(server.Close)
	return server.URL
}

// addWaiting adds an authentication whose state, amount and card take much room.
func (s *site) addWaiting() {
	s.Helper()
	r := recordOf("70000000-0000-4000-8000-000000000001")
	r.Created, r.Merchant, r.Status, r.Result, r.TransStatus, r.Card.Scheme = s.now.Add(-time.Hour), shop, "challenge", "", "C", "amex"
	r.Amount, r.Currency, r.Challenged = "123456789012", "360", true
	s.add(journal.Answered, r, stepOf("areq", r.Created))
}

// overflowing are the texts of tables that are wider than their place, so that they are cut or lie on others.
const overflowing = `[...document.querySelectorAll("main td, main th, .barcell span")].filter((c) => c.offsetParent && c.scrollWidth > c.clientWidth + 1)
	.map((c) => c.textContent).join(" | ")`

// TestK1PagesFitEveryScreen: in Chromium, at three widths, light and dark, no page is wider than its screen, and the
// script of the console has no error.
func TestK1PagesFitEveryScreen(t *testing.T) {
	s := newSite(t)
	base := s.serveAs("admin")
	s.fillConsole()
	tab := browsertest.NewBrowser(t)
	for name, at := range consoleFaces {
		for _, view := range []struct {
			width, height int64
			scheme, name  string
		}{{1280, 900, "light", "1280"}, {1280, 900, "dark", "1280-dark"}, {375, 800, "light", "375"}, {320, 700, "dark", "320-dark"}} {
			if err := chromedp.Do(tab, browsertest.View(view.width, view.height, view.scheme), chromedp.Navigate(base+at)); err != nil {
				t.Fatal(err)
			}
			wide, err := chromedp.Run(tab, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`))
			if err != nil || wide > view.width {
				t.Errorf("%s at %s is %d wide, %v", at, view.name, wide, err)
			}
			over, err := chromedp.Run(tab, chromedp.Evaluate[string](overflowing))
			if err != nil || over != "" {
				t.Errorf("%s at %s: text leaves its place: %s, %v", at, view.name, over, err)
			}
			browsertest.FullScreenshot(t, tab, "console-"+name+"-"+view.name)
		}
	}
	for _, name := range []string{"to erase a card", "to erase a shop", "not to erase", "erased"} {
		f := formFaces[name]
		for _, view := range []struct {
			width  int64
			scheme string
		}{{1280, "light"}, {1280, "dark"}, {375, "light"}, {375, "dark"}, {320, "light"}, {320, "dark"}} {
			s.sendForm(tab, base, f.at, f.form, browsertest.View(view.width, 800, view.scheme))
			wide, err := chromedp.Run(tab, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`))
			if err != nil || wide > view.width {
				t.Errorf("%s at %d %s is %d wide, %v", name, view.width, view.scheme, wide, err)
			}
			browsertest.FullScreenshot(t, tab, fmt.Sprintf("console-%s-%d-%s", strings.ReplaceAll(name, " ", "-"), view.width, view.scheme))
		}
	}
	if err := chromedp.Do(tab, browsertest.View(375, 800, "light"), chromedp.Navigate(base+"/authentications"),
		chromedp.Click(chromedp.CSS(".menu summary")), chromedp.WaitVisible(chromedp.CSS(".menu nav a"))); err != nil {
		t.Fatal(err)
	}
	browsertest.Screenshot(t, tab, "console-menu-375")
	body, err := chromedp.Run(tab, chromedp.Evaluate[string](`document.activeElement.tagName`))
	if err != nil || !strings.EqualFold(body, "summary") {
		t.Errorf("the focus is on %s, %v", body, err)
	}
}

// TestK1ReloadMakesNoSecondSecret: a page that shows a new secret once can be loaded again. It does not send its form
// again.
func TestK1ReloadMakesNoSecondSecret(t *testing.T) {
	s := newSite(t)
	base := s.serveAs("admin")
	tab := browsertest.NewBrowser(t)
	for _, test := range []struct{ face, home string }{
		{"new key", "/keys"}, {"new token", "/tokens"}, {"new webhook", "/webhooks"}, {"new secret", "/webhooks"}, {"invited", "/operators"},
	} {
		f := formFaces[test.face]
		s.sendForm(tab, base, f.at, f.form, browsertest.View(1280, 900, "light"))
		secret := `document.getElementById("secret")?.textContent ?? ""`
		if first, err := chromedp.Run(tab, chromedp.Evaluate[string](secret)); err != nil || first == "" {
			t.Errorf("%s: no secret is shown, %v", test.face, err)
			continue
		}
		must(t, chromedp.Do(tab, chromedp.Reload()))
		again, err := chromedp.Run(tab, chromedp.Evaluate[string](secret))
		if err != nil || again != "" {
			t.Errorf("%s: loaded again it shows a secret: %q, %v", test.face, again, err)
		}
		if at, err := chromedp.Run(tab, chromedp.Evaluate[string]("location.pathname")); err != nil || at != test.home {
			t.Errorf("%s: loaded again it is at %s, %v, want %s", test.face, at, err, test.home)
		}
	}
}
