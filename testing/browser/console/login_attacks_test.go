package console

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// TestK2AttacksInChromium: names of invitations and merchants, the address after the login, and what an address says,
// run nothing on the pages of the login.
func TestK2AttacksInChromium(t *testing.T) {
	s := newLoginSite(t)
	tab := browsertest.NewBrowser(t)
	trap := browsertest.NewTrap(t, tab)
	joined := strings.Join(browsertest.Attacks, " ")
	query := url.QueryEscape(joined)
	invitation := s.invite(operator.Invitation{Name: joined, Role: operator.Viewer, Merchant: joined})
	inputs := 0
	check := func(at string, texts int) {
		t.Helper()
		if err := chromedp.Do(tab, chromedp.Navigate(s.URL+at)); err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		inputs += texts * len(browsertest.Attacks)
		trap.Check(at)
	}
	check(invitation, 2)
	is, err := chromedp.Run(tab, chromedp.Evaluate[bool](`document.body.innerText.includes("onerror=xss()")`))
	if err != nil || !is {
		t.Errorf("the invitation does not show its name: %v", err)
	}
	for path, texts := range map[string]int{
		"/login/oidc/callback?state=" + query + "&code=" + query + "&error=" + query + "&error_description=" + query: 4,
		"/invite/" + url.PathEscape(joined): 1, "/login?fault=" + query: 1, "/" + url.PathEscape(joined): 1,
	} {
		check(path, texts)
	}
	for _, next := range append([]string{joined}, browsertest.SomeAttacks()...) {
		if err := chromedp.Do(tab, chromedp.Navigate(s.URL+"/login?next="+url.QueryEscape(next))); err != nil {
			t.Fatal(err)
		}
		inputs++
		trap.Check("next " + next)
		kept, err := chromedp.Run(tab, chromedp.Evaluate[string](`document.querySelector("[name=next]").value`))
		if err != nil || !strings.HasPrefix(kept, "/") || strings.HasPrefix(kept, "//") {
			t.Errorf("%q goes on to %q: %v", next, kept, err)
		}
	}
	t.Logf("%d inputs", inputs)
}
