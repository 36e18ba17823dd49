package browser

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/base/porttest"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/sandbox"
	"github.com/openthreeds/threeds/testing/browsertest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// A shopper is a real browser at the demo shop of a running sandbox.
type shopper struct {
	t   *testing.T
	ctx context.Context
}

func testID(name string) chromedp.CSS { return chromedp.CSS(`[data-testid="` + name + `"]`) }

func (s *shopper) do(steps ...chromedp.Action[chromedp.Void]) {
	s.t.Helper()
	if err := chromedp.Do(s.ctx, steps...); err != nil {
		browsertest.Screenshot(s.t, s.ctx, "flow-failed-"+strings.ReplaceAll(s.t.Name(), "/", "-"))
		s.t.Fatal(err)
	}
}

func (s *shopper) text(name string) string {
	s.t.Helper()
	text, err := chromedp.Run(s.ctx, chromedp.TextContent(testID(name)))
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(text)
}

// issuer waits until the issuer's page in the dialog shows a control, and
// returns the frame.
func (s *shopper) issuer(control string) *chromedp.Node {
	s.t.Helper()
	frame := browsertest.IssuerFrame(s.t, s.ctx, `[data-testid="challenge-frame"]`)
	s.do(browsertest.WaitVisible(testID(control), chromedp.FromNode(frame)))
	return frame
}

// methodTries is how often a payment is made until its 3DS Method has answered within the protocol's 10 s. A busy
// machine may take longer for the two pages, and N is right then.
const methodTries = 5

// TestBrowserFlow pays in the shop in a real Chromium: 3DS Method there, not
// there and silent; challenge passed, failed, answered by a person, cancelled.
// Everything is real but the money: the page, the shop's back end, the server,
// mutual TLS to the directory server, the issuer's pages, the RReq. In a short walk each ending comes after one kind of
// 3DS Method at least; TestCardGrid has every pair, without a browser.
func TestBrowserFlow(t *testing.T) {
	t.Parallel()
	for m, method := range []struct{ name, digit, state string }{
		{"method", "0", "answered (Y)"},
		{"no method", "1", "none (U)"},
		{"method silent", "2", "silent (N)"},
	} {
		t.Run(method.name, func(t *testing.T) {
			t.Parallel() // there is much to be waited for
			w := rig.StartSandbox(t)
			s := &shopper{t, openTab(t)}
			s.do(browsertest.View(1280, 900, "light"))
			for e, end := range []struct{ name, digits, word, status string }{
				{"pass", "70", "authenticated", "Y"},
				{"fail", "71", "failed", "N"},
				{"person", "72", "authenticated", "Y"},
				{"cancel", "72", "cancelled", "N"},
			} {
				if m > 0 && e != m && !browsertest.HasLongWalks() {
					continue
				}
				t.Run(end.name, func(t *testing.T) {
					s := &shopper{t, s.ctx}
					state := ""
					isAsWanted := func() bool { return strings.HasSuffix(state, method.state[strings.Index(method.state, "("):]) }
					for try := 0; try < methodTries && !isAsWanted(); try++ {
						s.pay(w.Shop+"/steps", "4000000000000"+method.digit+end.digits, end.name)
						s.do(browsertest.WaitVisible(testID("result-word")))
						state = s.text("method-state")
					}
					if word, status := s.text("result-word"), s.text("result-status"); word != end.word || status != end.status {
						t.Errorf("result %q %q, want %q %q", word, status, end.word, end.status)
					}
					if !isAsWanted() {
						t.Errorf("method-state %q, want %q", state, method.state)
					}
					browsertest.Screenshot(t, s.ctx, "flow-"+strings.ReplaceAll(method.name, " ", "-")+"-"+end.name)
				})
			}
		})
	}
}

// pay buys with a card in 2.3.1, where the 3DS Method has 5 s, and does what
// the cardholder does.
func (s *shopper) pay(shop, pan, deed string) {
	s.t.Helper()
	s.do(
		chromedp.Navigate(shop),
		browsertest.WaitVisible(testID("pay")),
		chromedp.SetValue(testID("card-number"), pan),
		chromedp.SetValue(testID("version"), "2.3.1"),
		chromedp.Click(testID("pay")),
	)
	switch deed {
	case "person":
		frame := s.issuer("challenge-code")
		browsertest.Screenshot(s.t, s.ctx, "flow-one-time-code-"+pan[len(pan)-3:])
		s.do(
			chromedp.SendKeys(testID("challenge-code"), "123456", chromedp.FromNode(frame)),
			chromedp.Click(testID("challenge-submit"), chromedp.FromNode(frame)),
		)
	case "cancel":
		s.do(chromedp.Click(testID("challenge-cancel"), chromedp.FromNode(s.issuer("challenge-cancel"))))
	}
}

// TestBrowserFrictionless pays without a question asked, in every version.
func TestBrowserFrictionless(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	s := &shopper{t, openTab(t)}
	s.do(browsertest.View(390, 844, "dark"))
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		s.do(
			chromedp.Navigate(w.Shop+"/steps"),
			browsertest.WaitVisible(testID("pay")),
			chromedp.SetValue(testID("card-number"), "4000000000000003"),
			chromedp.SetValue(testID("version"), version),
			chromedp.Click(testID("pay")),
			browsertest.WaitVisible(testID("result-word")),
		)
		if word, eci := s.text("result-word"), s.text("result-eci"); word != "authenticated" || eci != "05" {
			t.Errorf("%s: %s %s, want authenticated 05", version, word, eci)
		}
	}
	browsertest.FullScreenshot(t, s.ctx, "flow-frictionless-phone")
}

// TestBrowserTroubles has go wrong what the shop offers: all of it is in the sandbox's
// table, and of some of each kind the shop knows the ending, and never believes the browser.
func TestBrowserTroubles(t *testing.T) {
	t.Parallel() // there is much to be waited for
	w := rig.StartSandbox(t)
	s := &shopper{t, openTab(t)}
	s.do(browsertest.View(1280, 900, "light"), chromedp.Navigate(w.Shop+"/steps"), browsertest.WaitVisible(testID("pay")))
	offered, err := chromedp.Run(s.ctx, chromedp.Evaluate[[]string](`[...document.querySelectorAll("#trouble option")].map(o => o.value).filter(v => v)`))
	if err != nil {
		t.Fatal(err)
	}
	for _, trouble := range offered {
		line := regexp.MustCompile(`^REASON-\d\d$`).ReplaceAllString(trouble, "REASON-..")
		if !strings.Contains(sandbox.MerchantTable(), "\nmerchant "+line+" ") {
			t.Errorf("the sandbox knows no %s", trouble)
		}
	}
	for _, end := range []struct{ trouble, digits, word string }{
		{"CANCEL", "170", "cancelled"},
		{"FAULT-UNFRAMED", "172", "cancelled"}, // nobody sees the page, and closes the window
		{"FAULT-STUCK", "170", "authenticated"},
		{"FAULT-FORGED", "171", "failed"},
		{"FAULT-LATE", "170", "authenticated"},
		{"FAULT-HTTP500", "103", "error"},
		{"REASON-10", "113", "failed"},
	} {
		s.do(
			chromedp.Navigate(w.Shop+"/steps"),
			browsertest.WaitVisible(testID("pay")),
			chromedp.SetValue(testID("card-number"), "4000000000000"+end.digits),
			chromedp.SetValue(testID("trouble-kind"), end.trouble),
			chromedp.Click(testID("pay")),
		)
		if end.trouble == "FAULT-UNFRAMED" {
			s.do(browsertest.WaitVisible(testID("challenge-frame")), chromedp.Click(testID("challenge-cancel")))
		}
		s.do(browsertest.WaitVisible(testID("result-word")))
		if word := s.text("result-word"); word != end.word {
			t.Errorf("%s: the shop says %q, want %q", end.trouble, word, end.word)
		}
		if end.trouble == "REASON-10" && s.text("result-reason") != "10, stolen card" {
			t.Errorf("the shop says %q", s.text("result-reason"))
		}
	}
}

// TestB3HostedPageOfServeOverTLS: serve has a listener for browsers with a name, an address and a
// certificate of its own. A real browser walks the hosted page there from the redirect to the way back, with
// a bank that is of another origin.
func TestB3HostedPageOfServeOverTLS(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	ds := rig.NewWire(t, ca)
	pageCert, bankCert := ca.Issue("pay.example"), ca.Issue("acs.example")
	cert, key := ca.Write(t.TempDir(), pageCert, "pay")
	address := porttest.Addresses(t, 1)[0]
	_, port, _ := strings.Cut(address, ":")
	origin := "https://pay.example:" + port

	// The bank, which confirms by itself, and where the shop takes the browser back.
	var s *rig.Site
	var answered sync.Map // areq and ares by the id of the ACS
	bank := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.URL.Path == "/back" {
			_, _ = io.WriteString(w, "<!doctype html><title>Back</title><p id=back>Back in the shop")
			return
		}
		var creq rig.Object
		raw, _ := base64.RawURLEncoding.DecodeString(r.PostFormValue("creq"))
		_ = json.Unmarshal(raw, &creq)
		pair, known := answered.Load(creq.Text("acsTransID"))
		if !known {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		areq, ares := pair.([2]rig.Object)[0], pair.([2]rig.Object)[1]
		if status, rres, err := ds.Post(s.ResultsURL, rig.Marshal(rig.RReq(areq, ares, "Y"))); err != nil ||
			status != http.StatusOK || rres.Text("messageType") != "RRes" {
			t.Errorf("RReq: %d %v %v", status, rres, err)
		}
		_, _ = fmt.Fprintf(w, `<!doctype html><title>Bank</title><form method=post action="%s"><input type=hidden name=cres value=x>
<input type=hidden name=threeDSSessionData value="%s"></form><script>document.forms[0].submit()</script>`,
			html.EscapeString(areq.Text("notificationURL")), html.EscapeString(r.PostFormValue("threeDSSessionData")))
	}))
	bank.TLS = &tls.Config{Certificates: []tls.Certificate{bankCert}}
	bank.StartTLS()
	defer bank.Close()
	_, bankPort, _ := strings.Cut(bank.Listener.Addr().String(), ":")
	bankOrigin := "https://acs.example:" + bankPort

	s, _ = rig.SpawnSite(t, ca, ds, rig.Plan{Sections: fmt.Sprintf("browser: {listen: %q, url: %q, tls: {cert: %q, key: %q}}", address, origin, cert, key)})
	ds.SetAnswer(func(areq rig.Object) (int, []byte) {
		o := rig.AnswerTo(areq, "C").With(rig.Object{"acsURL": bankOrigin + "/challenge"})
		answered.Store(o.Text("acsTransID"), [2]rig.Object{areq, o})
		return http.StatusOK, rig.Marshal(o)
	})
	code, made := s.Post("/authentications", rig.Object{
		"acctNumber": "4000000000000103", "cardExpiryDate": "3012", "purchaseAmount": "12900", "purchaseCurrency": "978", "messageVersion": "2.2.0",
		"returnUrl": bankOrigin + "/back?order=17", "acquirerBIN": "400000", "acquirerMerchantID": "M1", "mcc": "5411", "merchantCountryCode": "208",
		"merchantName": "Fjord Audio", "threeDSRequestorURL": "https://shop.example",
	})
	page, _ := made["browser"].(map[string]any)
	at, _ := page["url"].(string)
	if code != http.StatusCreated || !strings.HasPrefix(at, origin+"/a/") || !strings.HasPrefix(page["script"].(string), origin+"/threeds.") {
		t.Fatalf("%d %v", code, made)
	}

	var pins []string // the browser trusts these two certificates, and no other
	for _, c := range []tls.Certificate{pageCert, bankCert} {
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		rig.Must(t, err)
		sum := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
		pins = append(pins, base64.StdEncoding.EncodeToString(sum[:]))
	}
	ctx := browsertest.NewBrowser(t, "--host-resolver-rules=MAP pay.example 127.0.0.1, MAP acs.example 127.0.0.1",
		"--ignore-certificate-errors-spki-list="+strings.Join(pins, ","))
	rig.Must(t, chromedp.Do(ctx, browsertest.View(1280, 900, "light"), chromedp.Navigate(at)))
	want := bankOrigin + "/back?order=17&authentication=" + made.Text("id")
	waittest.Until(t, "the way back to "+want, func() bool {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](fmt.Sprintf(`location.href === %q && !!document.getElementById("back")`, want)))
		return is && err == nil
	})
	cookies, err := chromedp.Call(ctx, network.GetCookies, network.GetCookiesParams{URLs: []string{origin + "/"}})
	if rig.Must(t, err); len(cookies.Cookies) != 1 || !strings.HasPrefix(cookies.Cookies[0].Name, "__Host-") ||
		!cookies.Cookies[0].Secure || !cookies.Cookies[0].HTTPOnly {
		t.Errorf("cookies %v", cookies.Cookies)
	}
	_, body := s.Call("GET", "/authentications/"+made.Text("id"), s.APIKey, nil)
	var got struct{ Outcome struct{ Result string } }
	if rig.Must(t, json.Unmarshal(body, &got)); got.Outcome.Result != "authenticated" {
		t.Errorf("result: %s", body)
	}
	if areq := ds.Sent(made.Text("id")); len(areq) != 1 ||
		!strings.HasPrefix(areq[0].Text("notificationURL"), origin+"/n/") || areq[0].Text("browserIP") != "127.0.0.1" {
		t.Errorf("AReq %v", areq)
	}
}
