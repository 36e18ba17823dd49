package console

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// addAuthenticator gives the browser an authenticator of its own, which knows a PIN of its user or does not.
func addAuthenticator(t *testing.T, ctx context.Context, isVerified bool) webauthn.AuthenticatorID {
	t.Helper()
	made, err := chromedp.Call(ctx, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{
		Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: "ctap2", Transport: "internal", HasResidentKey: true, HasUserVerification: true,
			AutomaticPresenceSimulation: true, IsUserVerified: isVerified,
		},
	})
	must(t, err)
	return made.AuthenticatorID
}

// pictures takes screenshots of a page, and checks that it does not scroll sideways.
func pictures(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	type pageView struct {
		width  int64
		scheme string
	}
	views := []pageView{{1280, "light"}, {320, "dark"}}
	if browsertest.HasLongWalks() {
		views = append(views, pageView{1280, "dark"}, pageView{375, "light"}, pageView{320, "light"})
	}
	for _, view := range views {
		must(t, chromedp.Do(ctx, browsertest.View(view.width, 720, view.scheme)))
		wide, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`document.documentElement.scrollWidth > document.documentElement.clientWidth`))
		must(t, err)
		if wide {
			t.Errorf("%s scrolls sideways at %d", name, view.width)
		}
		browsertest.Screenshot(t, ctx, fmt.Sprintf("login-%s-%s-%d", name, view.scheme, view.width))
	}
	must(t, chromedp.Do(ctx, browsertest.View(1280, 720, "light")))
}

// logInButton and the like are buttons of the pages.
const (
	logInButton    = chromedp.CSS(`[data-action="login-passkey"]`)
	registerButton = chromedp.CSS(`[data-action="register-passkey"]`)
	logoutButton   = chromedp.CSS(`[data-action="logout"]`)
	eraseButton    = chromedp.CSS(`[data-action="erase"]`)
	confirmButton  = chromedp.CSS(`[data-action="confirm-passkey"]`)
	faultShown     = chromedp.CSS(`[data-fault]:not([hidden])`)
)

// TestK2PasskeyInChromium registers by the link of an invitation, logs out and logs in again, with Chromium's own
// authenticator. Whoever does not prove who they are stays outside.
func TestK2PasskeyInChromium(t *testing.T) { walkLogin(t, pictures) }

// TestK2AxeFindsNothingAtTheLogin: each page of the login, in its states.
func TestK2AxeFindsNothingAtTheLogin(t *testing.T) {
	axe := browsertest.NewAxe(t)
	walkLogin(t, func(_ *testing.T, ctx context.Context, name string) { axe.CheckViews(ctx, name) })
}

// walkLogin is the way of TestK2PasskeyInChromium. It calls show for each page.
func walkLogin(t *testing.T, show func(t *testing.T, ctx context.Context, name string)) {
	t.Helper()
	s := newLoginSite(t)
	ctx := browsertest.NewBrowser(t)
	do := func(actions ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, actions...); err != nil {
			browsertest.FailureScreenshot(t, ctx, "login-failed")
			t.Fatal(err)
		}
	}
	if _, err := chromedp.Call(ctx, webauthn.Enable, webauthn.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	key := addAuthenticator(t, ctx, true)
	verify := func(is bool) {
		_, err := chromedp.Call(ctx, webauthn.SetUserVerified, webauthn.SetUserVerifiedParams{AuthenticatorID: key, IsUserVerified: is})
		must(t, err)
	}
	do(browsertest.View(1280, 720, "light"), chromedp.Navigate(s.URL+"/whoami"), browsertest.WaitVisible(logInButton))
	show(t, ctx, "login")
	s.settings.Passkeys = false
	do(chromedp.Navigate(s.URL+"/login"), browsertest.WaitVisible(chromedp.CSS(".note.warn")))
	show(t, ctx, "closed")
	s.settings.Passkeys = true
	s.useIssuer()
	do(chromedp.Navigate(s.URL+"/login?next=/whoami"), browsertest.WaitVisible(chromedp.CSS(`[data-action="login-oidc"]`)))
	show(t, ctx, "both")
	do(chromedp.Click(logInButton), browsertest.WaitVisible(faultShown)) // there is no passkey yet
	show(t, ctx, "fault")

	invitation := s.invite(operator.Invitation{Name: "jo", Role: operator.Admin})
	do(chromedp.Navigate(s.URL+invitation), browsertest.WaitVisible(registerButton))
	show(t, ctx, "invitation")
	verify(false)
	do(chromedp.Click(registerButton), browsertest.WaitVisible(faultShown))
	verify(true)
	do(chromedp.Click(registerButton), browsertest.WaitVisible(logoutButton))
	do(chromedp.Navigate(s.URL+invitation), browsertest.WaitVisible(chromedp.CSS("h1")))
	show(t, ctx, "used")

	do(chromedp.Navigate(s.URL), chromedp.Click(logoutButton), browsertest.WaitVisible(logInButton),
		chromedp.Navigate(s.URL+"/whoami"), browsertest.WaitVisible(logInButton))
	verify(false)
	do(chromedp.Click(logInButton), browsertest.WaitVisible(faultShown))
	verify(true)
	do(chromedp.Click(logInButton), browsertest.WaitVisible(chromedp.CSS("pre")))
	if shown, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("pre"))); err != nil || !strings.Contains(shown, `"passkey:jo"`) {
		t.Errorf("the page that was asked for first shows %q, %v", shown, err)
	}
	do(chromedp.Navigate(s.URL), chromedp.Click(eraseButton), browsertest.WaitVisible(confirmButton))
	show(t, ctx, "confirm")
	do(chromedp.Click(confirmButton), browsertest.WaitVisible(chromedp.CSS("pre")))
	if shown, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("pre"))); err != nil || !strings.Contains(shown, "of the form") {
		t.Errorf("the confirmed form shows %q, %v", shown, err)
	}
}
