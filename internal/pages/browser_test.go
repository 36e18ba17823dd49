package pages_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/admin"
	"github.com/openthreeds/threeds/internal/browsertest"
	"github.com/openthreeds/threeds/internal/operator"
)

// consoleFaces are the addresses of the pages of the console, by a name for each. fillConsole makes what they show.
var consoleFaces = map[string]string{
	"search": "/authentications", "empty": "/authentications?q=9999", "card": "/authentications/search", "authentication": "/authentications/" + passedID,
	"beside": "/authentications/" + passedID + "?step=ares&beside=areq", "reports": "/reports?by=merchant", "merchants": "/merchants",
	"merchant": "/merchants/Corner%20Shop", "keys": "/keys", "tokens": "/tokens", "audit": "/audit", "gone": "/nowhere", "webhooks": "/webhooks", "webhook": "/webhooks/" + hookID, "operators": "/operators", "explain": "/explain", "overview": "/",
	"directories": "/directories", "ranges": "/ranges?prefix=4000", "rangediff": "/ranges/visa/diff",
	"certificates": "/certificates", "certificate": "/certificates/visa?done=request", "nocertificate": "/certificates/mastercard",
}

// fillConsole gives a console a key, directories and card ranges, with something that needs attention.
func (s *site) fillConsole() {
	s.Helper()
	s.post("operator", "/keys", map[string][]string{"merchant": {shop}, "label": {"till 4"}})
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
			browsertest.FullScreenshot(t, tab, "console-"+name+"-"+view.name)
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
