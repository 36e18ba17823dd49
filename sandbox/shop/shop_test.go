package shop

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/client"
)

func TestCheckoutsAreLimited(t *testing.T) {
	now := time.Now()
	s := newBank(t).shop()
	s.MaxCheckouts, s.CheckoutAge, s.Now = 3, time.Minute, func() time.Time { return now }
	p := &page{t: t, shop: s}
	begin := func() int {
		return p.do("POST", "/checkout", "application/json", string(marshal(testOrder("4000000000000003")))).StatusCode
	}
	for i, want := range []int{200, 200, 200, 503, 503} {
		if got := begin(); got != want {
			t.Errorf("checkout %d: status %d, want %d", i+1, got, want)
		}
	}
	now = now.Add(time.Minute - 1)
	if got := begin(); got != 503 {
		t.Errorf("just before the first is old: status %d, want 503", got)
	}
	now = now.Add(1)
	if got := begin(); got != 200 {
		t.Errorf("the first being old: status %d, want 200", got)
	}
	if n := len(s.checkouts.byID) + len(s.checkouts.alias); n != 3 {
		t.Errorf("%d entries after the sweep, want 3: the checkout, its session, its transaction", n)
	}
}

// TestEndedCheckoutsMakeRoom: checkouts that have ended make room, the oldest first.
func TestEndedCheckoutsMakeRoom(t *testing.T) {
	now := time.Now()
	s := newBank(t).shop()
	s.MaxCheckouts, s.Now = 3, func() time.Time { now = now.Add(time.Millisecond); return now }
	p := &page{t: t, shop: s}
	going := p.post("/checkout", testOrder("4000000000000072"))
	first, second := p.toAuth(testOrder("4000000000000103")), p.toAuth(testOrder("4000000000000103"))
	if res := p.do("GET", "/checkout/"+first.ID, "", ""); res.StatusCode != 200 {
		t.Errorf("ended, while there is room: status %d, want 200", res.StatusCode)
	}
	for i, gone := range []view{first, second} {
		p.post("/checkout", testOrder("4000000000000072"))
		if res := p.do("GET", "/checkout/"+gone.ID, "", ""); res.StatusCode != 404 {
			t.Errorf("ended checkout %d: status %d, want 404", i+1, res.StatusCode)
		}
	}
	if res := p.do("POST", "/checkout", "application/json", string(marshal(testOrder("4000000000000072")))); res.StatusCode != 503 {
		t.Errorf("none having ended: status %d, want 503", res.StatusCode)
	}
	if res := p.do("GET", "/checkout/"+going.ID, "", ""); res.StatusCode != 200 {
		t.Errorf("the one that goes on: status %d, want 200", res.StatusCode)
	}
	if n := len(s.checkouts.byID) + len(s.checkouts.alias); n != 9 {
		t.Errorf("%d entries, want 9: three checkouts, their sessions, their transactions", n)
	}
}

func TestCheckoutAge(t *testing.T) {
	now := time.Now()
	s := newBank(t).shop()
	s.Now = func() time.Time { return now }
	p := &page{t: t, shop: s}
	v := p.post("/checkout", testOrder("4000000000000003"))
	now = now.Add(30*time.Minute - 1)
	if res := p.do("GET", "/checkout/"+v.ID, "", ""); res.StatusCode != 200 {
		t.Errorf("just before 30 minutes: status %d, want 200", res.StatusCode)
	}
	now = now.Add(1)
	if res := p.do("GET", "/checkout/"+v.ID, "", ""); res.StatusCode != 404 {
		t.Errorf("after 30 minutes: status %d, want 404", res.StatusCode)
	}
}

func TestOrderFaults(t *testing.T) {
	good := testOrder("4000 0000-0000 0003")
	for _, test := range []struct {
		name string
		make func(*order)
		want string // field at fault, "" for none
	}{
		{"good", func(*order) {}, ""},
		{"card of 12", func(o *order) { o.Card = "400000000003" }, "card"},
		{"card of 13", func(o *order) { o.Card = "4000000000003" }, ""},
		{"card of 19", func(o *order) { o.Card = "4000000000000000003" }, ""},
		{"card of 20", func(o *order) { o.Card = "40000000000000000003" }, "card"},
		{"card as printed and pasted", func(o *order) { o.Card = "\t4000\u00a00000\u20110000\u20130003\n" }, ""},
		{"card in other digits", func(o *order) { o.Card = "٤000000000000003" }, "card"},
		{"card with a letter", func(o *order) { o.Card = "400000000000000x" }, "card"},
		{"no month 13", func(o *order) { o.Expiry = "13/29" }, "expiry"},
		{"expiry without slash", func(o *order) { o.Expiry = "1229" }, ""},
		{"name of 2", func(o *order) { o.Name = "Li" }, ""},
		{"name of 1", func(o *order) { o.Name = " A " }, "name"},
		{"name of 45", func(o *order) { o.Name = strings.Repeat("é", 45) }, ""},
		{"name of 46", func(o *order) { o.Name = strings.Repeat("é", 46) }, "name"},
		{"window 06", func(o *order) { o.Window = "06" }, "window"},
		{"monthly", func(o *order) { o.Plan = "monthly" }, ""},
		{"version 2.1.0", func(o *order) { o.Version = "2.1.0" }, ""},
		{"version 2.0.0", func(o *order) { o.Version = "2.0.0" }, "version"},
		{"plan", func(o *order) { o.Plan = "" }, "plan"},
		{"trouble", func(o *order) { o.Trouble = "FAULT-LATE" }, ""},
		{"no such trouble", func(o *order) { o.Trouble = "demo-merchant-2" }, "trouble"},
	} {
		o := good
		test.make(&o)
		bad := o.normalise()
		if _, named := bad[test.want]; test.want != "" && (!named || len(bad) > 1) || test.want == "" && len(bad) > 0 {
			t.Errorf("%s: faults %v, want %q", test.name, bad, test.want)
		}
	}
	if good.normalise(); good.Card != "4000000000000003" || good.Expiry != "2912" {
		t.Errorf("card %s, expiry %s, want digits and YYMM", good.Card, good.Expiry)
	}
}

func TestOnlyLoopbackHosts(t *testing.T) {
	s := newBank(t).shop()
	s.PublicURL = "https://shop.example/"
	for _, test := range []struct {
		host string
		want int
	}{
		{"127.0.0.1", 200},
		{"127.0.0.1:8082", 200},
		{"127.8.9.10:1", 200},
		{"[::1]:8082", 200},
		{"[::1]", 200},
		{"localhost:8082", 200},
		{"LOCALHOST", 200},
		{"localhost.:8082", 200},
		{"shop.localhost:8082", 200},
		{"shop.example", 200},
		{"shop.example:444", 421},
		{"", 421},
		{"evil.example:8082", 421},
		{"127.0.0.1.evil.example", 421},
		{"localhost.evil.example", 421},
		{"notlocalhost", 421},
		{"10.0.0.1", 421},
		{"0.0.0.0:8082", 421},
		{"2130706433", 421},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = test.host
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != test.want {
			t.Errorf("Host %q: status %d, want %d", test.host, w.Code, test.want)
		}
	}
}

// TestPublicURL: behind a proxy the shop gives everybody the address it has there.
func TestPublicURL(t *testing.T) {
	bank := newBank(t)
	s := bank.shop()
	s.PublicURL = "https://shop.example/demo/"
	const want = "https://shop.example/demo"
	if url, err := s.Start("127.0.0.1:0"); err != nil || url != want {
		t.Errorf("started at %s, %v; want %s", url, err, want)
	}
	defer s.Close()
	p := &page{t: t, shop: s}
	p.toAuth(testOrder("4000000000000103"))
	if areq, _ := bank.lastCall("/auth"); areq["notificationURL"] != want+"/notify/challenge" || areq["threeDSRequestorURL"] != want+"/" {
		t.Errorf("the AReq has %v and %v", areq["notificationURL"], areq["threeDSRequestorURL"])
	}
	local := bank.shop()
	if local.isOurHost("") {
		t.Error("a request without a host is taken for the shop's, which has no public one")
	}
}

// TestDefaults: the defaults of a shop that sets nothing, except the times that other tests try out.
func TestDefaults(t *testing.T) {
	var s Shop
	if s.Handler(); s.Processing != 2*time.Second || s.noticeWait != 5*time.Second || s.MaxCheckouts != 1000 {
		t.Errorf("%v, %v, %d", s.Processing, s.noticeWait, s.MaxCheckouts)
	}
}

// TestWebAddresses: where a browser may be sent to.
func TestWebAddresses(t *testing.T) {
	for address, want := range map[string]bool{
		"https://acs.example/method": true, "http://127.0.0.1:8083/": true, "": false, "acs.example": false, "//acs.example/": false,
		"javascript:alert(1)": false, "javascript://acs.example/%0aalert(1)": false, "https:///method": false, "https://%zz/": false,
	} {
		if got := isWeb(address); got != want {
			t.Errorf("isWeb(%q) = %t, want %t", address, got, want)
		}
	}
}

// TestOtherOrigins: a page elsewhere cannot use the checkout of this one, but
// the ACS may notify.
func TestOtherOrigins(t *testing.T) {
	s := newBank(t).shop()
	for _, test := range []struct {
		target string
		want   int
	}{{"/checkout", http.StatusForbidden}, {"/checkout/x/auth", http.StatusForbidden}, {"/notify/challenge", http.StatusNotFound}} {
		r := httptest.NewRequest("POST", "http://127.0.0.1"+test.target, strings.NewReader("{}"))
		r.Header.Set("Origin", "http://evil.example")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != test.want {
			t.Errorf("%s: status %d, want %d", test.target, w.Code, test.want)
		}
	}
}

// TestHeaders: every answer, of whatever status, carries the policy.
func TestHeaders(t *testing.T) {
	p := &page{t: t, shop: newBank(t).shop()}
	v := p.toAuth(testOrder("4000000000000072"))
	for _, test := range []struct {
		method, target string
		want           int
	}{
		{"GET", "/steps", 200},
		{"GET", "/pay", 303},
		{"GET", "/static/shop.css", 200},
		{"GET", "/static/shop.html", 404},
		{"GET", "/static/..%2fshop.go", 404},
		{"GET", "/nowhere", 404},
		{"DELETE", "/", 405},
		{"DELETE", "/steps", 405},
		{"POST", "/hooks", 401},
		{"GET", "/hooks", 405},
		{"GET", "/checkout/" + v.ID, 200},
		{"GET", "/checkout/unknown", 404},
		{"POST", "/checkout", 400},
		{"GET", "/frame/" + v.ID + "/challenge", 200},
		{"GET", "/frame/" + v.ID + "/method", 409},
		{"POST", "/notify/method", 400},
		{"POST", "/notify/challenge", 404},
	} {
		res := p.do(test.method, test.target, "application/x-www-form-urlencoded", "")
		if res.StatusCode != test.want {
			t.Errorf("%s %s: status %d, want %d", test.method, test.target, res.StatusCode, test.want)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": policy,
			"X-Content-Type-Options":  "nosniff",
			"Cache-Control":           "no-store",
			"Referrer-Policy":         "no-referrer",
		} {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%s %s: %s %q, want %q", test.method, test.target, name, got, want)
			}
		}
	}
}

// TestPayNeedsScript: without the script, or before it has loaded, the form would
// go to the page's own address, card number and all.
func TestPayNeedsScript(t *testing.T) {
	p := &page{t: t, shop: newBank(t).shop()}
	text, err := io.ReadAll(p.do("GET", "/steps", "", "").Body)
	if err != nil || !regexp.MustCompile(`<button id="pay"[^>]* disabled>`).Match(text) {
		t.Errorf("the button can be pressed: %v", err)
	}
	text, err = io.ReadAll(p.do("GET", "/", "", "").Body)
	if err != nil || strings.Count(string(text), "<button") != 1 || !regexp.MustCompile(`<button type="button" id="pay"`).Match(text) {
		t.Errorf("the short page has a button that sends its form: %v", err)
	}
}

// TestKeyStaysInside: nothing that reaches a browser has the API key or the
// card number in it, even when the 3DS server writes them into its errors.
func TestKeyStaysInside(t *testing.T) {
	for _, card := range []string{"4000000000000003", "4000000000000063", "4000000000000072", "9000100111111111"} {
		bank := newBank(t)
		bank.echo = " " + testKey + " " + card
		p := &page{t: t, shop: bank.shop()}
		p.do("GET", "/steps", "", "")
		v := p.toAuth(testOrder(card))
		p.do("GET", "/frame/"+v.ID+"/challenge", "", "")
		p.do("POST", "/checkout/"+v.ID+"/result", "application/json", "{}")
		p.do("GET", "/checkout/"+v.ID, "", "")
		for _, secret := range []string{testKey, card} {
			if strings.Contains(p.seen.String(), secret) {
				t.Errorf("%s: %s reached the browser", card, secret)
			}
		}
		for _, call := range bank.calls {
			if call.key != testKey {
				t.Errorf("%s: %s without the key", card, call.path)
			}
		}
	}
}

func TestServerFails(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("APIKey") != "" {
			t.Error("the key went along with a redirect")
		}
	}))
	defer elsewhere.Close()
	const unreadable, unreachable = "not a message. Is the API key", "cannot be reached"
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		want    string // what the developer reads and, if the key was wrong, what to look at
	}{
		{"wrong key", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Invalid API Key", http.StatusUnauthorized)
		}, unreadable},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, unreadable},
		{"hung up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, unreachable},
		{"other JSON", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"a":1}`)) }, "something else than a CRD"},
		{"wrong types", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"messageType":1}`)) }, unreadable},
		{"too large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20+1)) }, unreachable},
		{"no version", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"messageType":"CRD","threeDSServerTransID":"x"}`))
		}, "no protocol version in common"},
	} {
		server := httptest.NewServer(test.handler)
		p := &page{t: t, shop: &Shop{API: server.URL, APIKey: testKey}}
		v := p.post("/checkout", testOrder("4000000000000003"))
		if v.State != done || v.Ending.Word != faulty || !strings.Contains(v.Ending.Text, test.want) {
			t.Errorf("%s: %s, %+v; want %q", test.name, v.State, v.Ending, test.want)
		}
		if c := p.shop.checkouts.find(v.ID); c.order.Card != "" || c.panel.card != "" {
			t.Errorf("%s: the card number is still there", test.name)
		}
		server.Close()
	}
}

func TestStartClose(t *testing.T) {
	s := newBank(t).shop()
	base, err := s.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/steps"} {
		res, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Errorf("%s: status %d, want 200", path, res.StatusCode)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get(base + "/"); err == nil {
		t.Error("still there after Close")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	never := newBank(t).shop()
	if _, err := never.Start(l.Addr().String()); err == nil {
		t.Error("started where another listens")
	}
	if err := never.Close(); err != nil {
		t.Errorf("closed, without having been started: %v", err)
	}
}

func TestHighest(t *testing.T) {
	for _, test := range []struct {
		ds, acs, server []string
		want            string
	}{
		{versions, versions, versions, "2.3.1"},
		{[]string{"2.2.0", "2.3.1"}, []string{"2.1.0", "2.3.1"}, versions, "2.3.1"},
		{versions, []string{"2.1.0", "2.3.1"}, []string{"2.1.0", "2.2.0"}, "2.1.0"},
		{[]string{"2.2.0"}, versions, versions, "2.2.0"},
		{[]string{"2.2.0"}, []string{"2.1.0"}, versions, ""},
		{versions, nil, versions, ""},
		{append(versions, "2.4.0"), append(versions, "2.4.0"), append(versions, "2.4.0"), "2.3.1"},
	} {
		crd := &message{DSVersions: test.ds, ServerVersions: test.server}
		for _, v := range test.acs {
			crd.ACSVersions = append(crd.ACSVersions, client.ACSVersion{Version: v})
		}
		if got := highest(crd); got != test.want {
			t.Errorf("highest(%v, %v, %v) = %q, want %q", test.ds, test.acs, test.server, got, test.want)
		}
	}
}

// TestPages: each page names its language and itself, and has one main part and one
// first heading for those who hear it.
func TestPages(t *testing.T) {
	s := newBank(t).shop()
	for name, write := range map[string]func(http.ResponseWriter){
		"home":    func(w http.ResponseWriter) { s.home(w, httptest.NewRequest("GET", "/", nil)) },
		"steps":   func(w http.ResponseWriter) { s.stepsPage(w, nil) },
		"form":    func(w http.ResponseWriter) { s.form(w, "http://127.0.0.1:8082/", field{"creq", "e30"}) },
		"notice":  func(w http.ResponseWriter) { s.notice(w, "challenge") },
		"neutral": func(w http.ResponseWriter) { s.showNeutral(w, http.StatusNotFound) },
	} {
		w := httptest.NewRecorder()
		write(w)
		for _, part := range []string{`<html lang="en">`, "<title>", "<main", "<h1>"} {
			if n := strings.Count(w.Body.String(), part); n != 1 {
				t.Errorf("%s has %d × %s, want one", name, n, part)
			}
		}
	}
}

// TestShopIsCompressed: pages and files of the shop, for browsers that accept gzip.
func TestShopIsCompressed(t *testing.T) {
	s := newBank(t).shop()
	for _, path := range []string{"/", "/steps", "/static/shop.css", "/static/shop.js", "/static/run.css", "/static/headphones.svg"} {
		r := httptest.NewRequest("GET", "http://localhost"+path, nil)
		plain, short := httptest.NewRecorder(), httptest.NewRecorder()
		s.Handler().ServeHTTP(plain, r)
		r.Header.Set("Accept-Encoding", "gzip")
		s.Handler().ServeHTTP(short, r)
		if plain.Code != 200 || plain.Header().Get("Content-Encoding") != "" || short.Header().Get("Content-Encoding") != "gzip" ||
			short.Body.Len() >= plain.Body.Len() || short.Header().Get("Vary") == "" {
			t.Errorf("%s: %d, %d bytes, compressed %d, %v", path, plain.Code, plain.Body.Len(), short.Body.Len(), short.Header())
		}
	}
}
