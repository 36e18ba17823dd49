package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/testing/browsertest"
)

// TestB9AttacksOnTheDemoShopAreText: no text of the server, of a bank or of an address runs on the
// pages of the demo shop.
func TestB9AttacksOnTheDemoShopAreText(t *testing.T) {
	tab := browsertest.NewBrowser(t)
	trap := browsertest.NewTrap(t, tab)
	do := func(steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(tab, steps...); err != nil {
			browsertest.FailureScreenshot(t, tab, "shop-attacks-failed")
			t.Fatal(err)
		}
	}
	joined := strings.Join(browsertest.Attacks, " ")
	inputs := 0
	check := func(where string, texts int) {
		t.Helper()
		inputs += texts * len(browsertest.Attacks)
		trap.Check(where)
	}
	ares := object{"messageType": "ARes", "messageVersion": joined, "transStatus": "N", "eci": joined, "transStatusReason": joined,
		"authenticationValue": joined, "cardholderInfo": joined, joined: joined, "scheme": joined}
	for name, c := range map[string]struct {
		path   string
		answer object
		with   object
	}{
		"CRD":               {"/preauth", ares, object{"messageType": "CRD"}},
		"type of the CRD":   {"/preauth", ares, object{"messageType": joined}},
		"Erro of /preauth":  {"/preauth", problem(joined, joined, joined, joined), nil},
		"ARes":              {"/auth", ares, nil},
		"ARes with D":       {"/auth", ares, object{"transStatus": "D"}},
		"transStatus":       {"/auth", ares, object{"transStatus": joined}},
		"type of the ARes":  {"/auth", ares, object{"messageType": joined}},
		"Erro of /auth":     {"/auth", problem(joined, joined, joined, joined), nil},
		"answer of /lookup": {"/enrolled", object{"enrolled": nil, "error": object{"message": joined, "detail": joined}}, nil},
	} {
		bank := newBank(t)
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != c.path {
				bank.API.Config.Handler.ServeHTTP(w, r)
				return
			}
			answer := maps.Clone(c.answer)
			maps.Copy(answer, c.with)
			bank.mu.Lock()
			for id := range bank.trans {
				answer["threeDSServerTransID"] = id
			}
			bank.mu.Unlock()
			if answer["messageType"] == "Erro" {
				w.WriteHeader(http.StatusBadRequest)
			}
			w.Header().Set("X-Normalised", url.QueryEscape(joined))
			_, _ = w.Write(marshal(answer))
		}))
		s := bank.shop()
		s.API = front.URL
		base, err := s.Start("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		card := "4000000000000103"
		if c.path == "/enrolled" {
			card = "9000100111111111"
		}
		do(chromedp.Navigate(base+"/steps"), browsertest.WaitVisible(testID("pay")), chromedp.SetValue(testID("card-number"), card), chromedp.Click(testID("pay")))
		if name != "ARes with D" { // whose result never comes
			do(browsertest.WaitVisible(testID("result-word")))
		}
		do(browsertest.Poll(`document.getElementById("wire-list").textContent.includes("onerror=xss()")`),
			chromedp.Evaluate[chromedp.Void](`for (const d of document.querySelectorAll("details")) d.open = true`))
		check(name, len(c.answer))
		front.Close()
		_ = s.Close()
	}

	// The order, and the documents around the bank.
	bank := newBank(t)
	acsURL := ""
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/auth":
			answer := httptest.NewRecorder()
			bank.API.Config.Handler.ServeHTTP(answer, r)
			var ares object
			_ = json.Unmarshal(answer.Body.Bytes(), &ares)
			ares["acsURL"] = acsURL
			_, _ = w.Write(marshal(ares))
			return
		case !strings.HasPrefix(r.URL.Path, "/authentications/"):
			bank.API.Config.Handler.ServeHTTP(w, r)
			return
		}
		_, _ = w.Write(marshal(object{"id": joined, "status": joined, "card": object{"last4": joined, "scheme": joined}, "outcome": object{
			"result": joined, "transStatus": joined, "cardholderInfo": joined, "next": object{"action": joined, "because": joined},
		}}))
	}))
	defer front.Close()
	s := bank.shop()
	s.API = front.URL
	frames := "<!doctype html>"
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/frames" { // only pages of the shop may frame its documents
			s.Handler().ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(frames))
	}))
	defer own.Close()
	base := own.URL
	do(chromedp.Navigate(base+"/order?authentication="+url.QueryEscape(joined)), browsertest.WaitVisible(chromedp.CSS("#ending")))
	check("the order", 8)
	for i, attack := range browsertest.SomeAttacks() {
		for _, address := range []string{attack, base + "/bank?" + attack} { // The shop opens no frame for what is no address.
			acsURL = address
			id := payUntilAuth(t, base)
			frames += fmt.Sprintf(`<iframe name="f%d" src="%s/frame/%s/challenge?%s"></iframe>`, i, base, id, url.QueryEscape(attack))
		}
	}
	do(chromedp.Navigate(base+"/frames"), browsertest.Poll(`document.readyState === "complete"`))
	check("acsURL", 2)
	for _, path := range []string{"/frame/" + url.PathEscape(joined) + "/challenge",
		"/frame/" + url.PathEscape(joined) + "/method", "/static/" + url.PathEscape(joined)} {
		do(chromedp.Navigate(base + path))
		check("a path such as "+path[:8], 1)
	}
	t.Logf("%d inputs", inputs)
}

// payUntilAuth pays in the shop with a card of which the bank wants a challenge, up to the answer to the AReq, and
// returns the id of the checkout.
func payUntilAuth(t *testing.T, base string) string {
	t.Helper()
	var checkout struct{ ID, State string }
	post := func(path string, body any) {
		t.Helper()
		answer, err := http.Post(base+path, "application/json", bytes.NewReader(marshal(body)))
		must(t, err)
		defer answer.Body.Close()
		must(t, json.NewDecoder(answer.Body).Decode(&checkout))
	}
	post("/checkout", object{"card": "4000000000000172", "expiry": "12/29", "name": "Alex Example", "plan": "once", "window": "03", "browser": object{
		"language": "en-GB", "colorDepth": 24, "screenHeight": 800, "screenWidth": 1280, "tz": -60, "userAgent": "Test/1",
	}})
	post("/checkout/"+checkout.ID+"/auth", nil)
	if checkout.ID == "" || checkout.State != "challenge" && checkout.State != "done" {
		t.Fatalf("the checkout is %+v", checkout)
	}
	return checkout.ID
}
