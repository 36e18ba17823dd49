package console

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/edge/pages/consoletest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// formFaces are what the console shows after a form was sent.
var formFaces = map[string]struct {
	at   string
	form url.Values
}{
	"cards":            {"/authentications/search", url.Values{"card": {consoletest.Card}}},
	"no card":          {"/authentications/search", url.Values{"card": {"12"}}},
	"new key":          {"/keys", url.Values{"merchant": {consoletest.Shop}, "label": {"till 5"}}},
	"no new key":       {"/keys", url.Values{"merchant": {consoletest.Shop}, "expires": {"soon"}}},
	"new token":        {"/tokens", url.Values{"name": {"nightly"}, "role": {"viewer"}}},
	"no new token":     {"/tokens", url.Values{"name": {"nightly"}, "role": {"viewer"}, "expires": {"soon"}}},
	"no merchant":      {"/merchants", url.Values{"name": {""}}},
	"unsaved merchant": {"/merchants/Fjord%20Audio", url.Values{"version": {"1"}, "mcc": {"57"}}},
	"explained":        {"/explain", url.Values{"text": {"{}"}}},
	"not explained":    {"/explain", url.Values{"text": {"nothing"}}},
	"new webhook":      {"/webhooks", url.Values{"merchant": {consoletest.Shop}, "url": {"https://shop.example/h"}, "type": {"authentication.failed"}}},
	"no new webhook":   {"/webhooks", url.Values{"merchant": {consoletest.Shop}, "url": {"http://10.0.0.1/"}}},
	"new secret":       {"/webhooks/" + consoletest.HookID, url.Values{"do": {"rotate"}}},
	"webhook tested":   {"/webhooks/" + consoletest.HookID, url.Values{"do": {"test"}}},
	"invited":          {"/operators", url.Values{"name": {"jo"}, "role": {"viewer"}}},
	"not invited":      {"/operators", url.Values{"name": {"a b"}, "role": {"viewer"}}},
	"to erase a card":  {"/erase", url.Values{"card": {consoletest.Card}}},
	"to erase a shop":  {"/erase", url.Values{"merchant": {consoletest.Shop}}},
	"nothing to erase": {"/erase", url.Values{"merchant": {"Nobody"}}},
	"not to erase":     {"/erase", url.Values{"card": {"12"}}},
	"erased":           {"/erase", url.Values{"merchant": {"Nobody"}, "proof": {"Nobody"}, "do": {"erase"}}},
	"without csrf":     {"/keys", nil},
}

// furtherFaces are pages that look otherwise for want of something, or for what is in an address.
var furtherFaces = map[string]string{
	"search by all": "/authentications?time=all&status=completed&result=authenticated", "search refused": "/authentications?from=never",
	"lost": "/authentications/" + consoletest.LostID, "refused": "/authentications/" + consoletest.RefusedID,
	"denied": "/authentications/" + consoletest.ForeignID, "merchant of the console": "/merchants/Fjord%20Audio",
	"ranges refused": "/ranges?prefix=40x", "no range": "/ranges?prefix=4111",
	"reports by reason": "/reports?by=reason&time=all",
}

// openDetails shows all that a page keeps closed.
const openDetails = `for (const d of document.querySelectorAll("details")) d.open = true`

// submit is the expression that sends a form from a page of the console.
func submit(at string, form url.Values) string {
	script := fmt.Sprintf(`{ const f = document.createElement("form"); f.method = "post"; f.action = %q
		const add = (n, v) => f.append(Object.assign(document.createElement("input"), { type: "hidden", name: n, value: v }))`, at)
	if form != nil {
		script += fmt.Sprintf("\nadd(\"csrf\", %q)", consoletest.FormToken())
	}
	for _, name := range slices.Sorted(maps.Keys(form)) {
		for _, value := range form[name] {
			script += fmt.Sprintf("\nadd(%q, %q)", name, value)
		}
	}
	return script + "\ndocument.body.append(f); f.submit() }"
}

// TestK1AxeFindsNothingInTheConsole: each page of the console, in its states, closed and with all details open.
func TestK1AxeFindsNothingInTheConsole(t *testing.T) {
	axe := browsertest.NewAxe(t)
	s := consoletest.New(t)
	s.Fill()
	s.Post("operator", "/merchants", url.Values{"name": {"Fjord Audio"}})
	s.Post("admin", "/tokens", url.Values{"name": {"reports"}, "role": {"viewer"}})
	must(t, s.Admin.Operators.AddUser(t.Context(), &operator.User{Name: "kim", Role: operator.Admin}))
	base := s.ServeAs("admin")
	tab := browsertest.NewBrowser(t)
	faces := maps.Clone(consoletest.Faces)
	maps.Copy(faces, furtherFaces)
	for _, name := range slices.Sorted(maps.Keys(faces)) {
		must(t, chromedp.Do(tab, browsertest.View(1280, 900, "light"), chromedp.Navigate(base+faces[name])))
		checkFace(t, axe, tab, name)
	}
	for _, name := range slices.Sorted(maps.Keys(formFaces)) {
		f := formFaces[name]
		sendForm(s, tab, base, f.at, f.form, browsertest.View(1280, 900, "light"))
		checkFace(t, axe, tab, name)
	}
	t.Logf("%d faces", len(faces)+len(formFaces))
}

// sendForm sends a form from a page of the console, and waits for what comes of it.
func sendForm(s *consoletest.Site, tab context.Context, base, at string, form url.Values, view chromedp.Action[chromedp.Void]) {
	s.Helper()
	must(s.TB, chromedp.Do(tab, view, chromedp.Navigate(base+"/reports")))
	must(s.TB, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](`document.title = "before"; `+submit(at, form))))
	must(s.TB, browsertest.Wait(tab, func() (bool, error) {
		return chromedp.Run(tab, chromedp.Evaluate[bool](`document.readyState === "complete" && document.title !== "before"`))
	}))
}

// checkFace checks a page as it came, and with all details open.
func checkFace(t *testing.T, axe *browsertest.Axe, tab context.Context, name string) {
	t.Helper()
	axe.Check(tab, name)
	must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](openDetails)))
	axe.CheckViews(tab, name+", opened")
}
