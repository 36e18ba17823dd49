package conformance

import (
	"encoding/base64"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"

	"github.com/openthreeds/threeds/sandbox/shop"
)

// A shopper pays in the sandbox's shop, which calls the server under test: it shows the
// obligations of a requestor's page. The shopper plays the browser; the directory servers
// are those of the lab.
type shopper struct {
	t      *T
	l      *lab
	d      *ds
	url    string // of the shop
	window string // challengeWindowSize
	view   object // the checkout, as the shop's page last got it
	id     string // threeDSServerTransID
}

// openShop opens the shop in front of the shared lab.
func (t *T) openShop() *shopper {
	l := t.sharedLab()
	s := &shop.Shop{API: l.api, APIKey: l.key, PublicURL: shopURL}
	server := httptest.NewServer(s.Handler())
	t.cleanup(server.Close)
	return &shopper{t: t, l: l, d: l.ds["visa"], url: server.URL, window: "03"}
}

// shopURL is where browsers and ACSs would find the shop.
const shopURL = "https://shop.example"

// The cards of the shared lab, as a shopper knows them.
const (
	cardNoMethod = "4000001234567890"
	cardMethod   = "4000011234567890"
	cardUnknown  = "4000061234567890"
	cardSPC      = "4000071234567890"

	cardMastercard = "5100001234567890"
)

// pay begins a checkout.
func (s *shopper) pay(card, version string) *shopper {
	s.postToShop("/checkout", object{
		"card": card, "expiry": "12/29", "name": "Alex Example", "plan": "once", "window": s.window, "version": version,
		"browser": object{"language": "en-GB", "colorDepth": 24, "screenHeight": 800, "screenWidth": 1280, "tz": -60, "userAgent": "Test/1"},
	})
	s.id = s.lastMessage("CRD").text("threeDSServerTransID")
	return s
}

// setARes makes the directory server answer this checkout's AReq.
func (s *shopper) setARes(status string, edits ...edit) *shopper {
	s.d.script(s.id, s.t.notingExchanges(func(q *request) reply { return reply{body: aresTo(q.o, status).bytes(edits...)} }))
	return s
}

// postToShop posts what the shop's page would post, and returns the new view.
func (s *shopper) postToShop(path string, body object) object {
	got, err := post(s.l.client, s.url+path, nil, body.bytes())
	if err != nil || got.status != 200 {
		s.t.Fatalf("shop: %s: %v %v", path, err, got)
	}
	s.view = got.o
	return s.view
}

// checkout takes a step of the checkout: "auth", "result".
func (s *shopper) checkout(step string) object {
	return s.postToShop("/checkout/"+s.view.text("id")+"/"+step, object{})
}

// wantState wants the checkout to be in a state.
func (s *shopper) wantState(want string) {
	if got := s.view.text("state"); got != want {
		s.t.Errorf("the shop's checkout is in the state %s, want %s: %s", got, want, encode(s.view["ending"]))
	}
}

// areqs are those that reached the directory server.
func (s *shopper) areqs() []*request { return s.d.requests("AReq", s.id) }

// areq lets the shop ask for authentication and returns the AReq that reached the
// directory server.
func (s *shopper) areq() object {
	s.checkout("auth")
	sent := s.areqs()
	if len(sent) != 1 {
		s.t.Fatalf("the shop: %d AReqs, want 1: %s", len(sent), encode(s.view["ending"]))
	}
	return sent[0].o
}

// lastMessage is the last message of that name ("CRD", "ARes") that the page was shown.
func (s *shopper) lastMessage(name string) object {
	wire, _ := s.view["wire"].([]any)
	var last object
	for _, m := range wire {
		if m := m.(object); m.text("name") == name {
			last = read([]byte(m.text("body")))
		}
	}
	return last
}

// page fetches a page or a file of the shop.
func (s *shopper) page(path string) string {
	res, err := s.l.client.Get(s.url + path)
	if err != nil {
		s.t.Fatalf("shop: %v", err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		s.t.Fatalf("shop: %s: %d %v", path, res.StatusCode, err)
	}
	return string(data)
}

// frame fetches the page that the shop shows in a frame: "method" or "challenge".
func (s *shopper) frame(which string) string {
	return s.page("/frame/" + s.view.text("id") + "/" + which)
}

// notify posts a form, given as names and values by turns, as an ACS makes a browser do,
// and returns the status and the page.
func (s *shopper) notify(step string, fields ...string) (int, string) {
	form := make(url.Values)
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	res, err := s.l.client.Post(s.url+"/notify/"+step, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatalf("shop: %v", err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatalf("shop: %v", err)
	}
	return res.StatusCode, string(data)
}

// refreshView fetches the view anew.
func (s *shopper) refreshView() object {
	got, err := send(s.l.client, http.MethodGet, s.url+"/checkout/"+s.view.text("id"), nil, nil)
	if err != nil || got.status != 200 {
		s.t.Fatalf("shop: %v %v", err, got)
	}
	s.view = got.o
	return s.view
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// fields are the hidden fields of the form on a page, and the address it is posted to.
func fields(page string) (action string, values map[string]string) {
	values = make(map[string]string)
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		values[m[1]] = html.UnescapeString(m[2])
	}
	if m := regexp.MustCompile(`action="([^"]*)"`).FindStringSubmatch(page); m != nil {
		action = html.UnescapeString(m[1])
	}
	return action, values
}

// decodeUnpadded decodes a JSON object in base64url, which must have no padding.
func (t *T) decodeUnpadded(what, value string) object {
	data, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		t.Errorf("%s is %s, want base64url without padding", what, value)
	}
	return read(data)
}

// unpadded and padded encode an object in base64url as an ACS might.
func unpadded(o object) string { return base64.RawURLEncoding.EncodeToString(o.bytes()) }
func padded(o object) string {
	body := o.bytes()
	for len(body)%3 == 0 { // whose base64url would have no padding
		body = append(body, ' ')
	}
	return base64.URLEncoding.EncodeToString(body)
}

// startChallenge brings a checkout to the challenge.
func (s *shopper) startChallenge(version string) *shopper {
	s.pay(cardNoMethod, version).setARes("C").areq()
	s.wantState("challenge")
	return s
}

// rreq posts the result of the shop's challenge.
func (s *shopper) rreq(status string, changes overrides) {
	areq := s.areqs()[0].o
	x := &flow{t: s.t, l: s.l, d: s.d, version: areq.text("messageVersion"), channel: "BRW", category: "PA", id: s.id}
	x.ares = s.lastMessage("ARes")
	x.wantRRes(x.post(x.rreqOf(status).bytes(changes.edits()...)), "01")
}

// cres is a legal CRes.
func (s *shopper) cres(status string) object {
	ares := s.lastMessage("ARes")
	return object{
		"messageType": "CRes", "messageVersion": ares["messageVersion"], "threeDSServerTransID": s.id, "acsTransID": ares["acsTransID"],
		"challengeCompletionInd": "Y", "transStatus": status,
	}
}

// shopMethodLimit wants the shop's page to give the 3DS Method the time that the protocol
// does in each version, and to send threeDSCompInd N if no notification has come by then.
func shopMethodLimit(t *T, versions ...string) {
	for _, v := range versions {
		s := t.openShop().pay(cardMethod, v)
		want := "10000"
		if v == v231 {
			want = "5000"
		}
		if got := string(encode(s.view.at("method.limit"))); got != want {
			t.Errorf("%s: the page waits %s ms for the 3DS Method, want %s", v, got, want)
		}
		s.setARes("Y")
		s.frame("method")
		if got := s.areq().text("threeDSCompInd"); got != "N" {
			t.Errorf("%s: threeDSCompInd %q without a notification, want N", v, got)
		}
		if status, _ := s.notify("method", "threeDSMethodData", unpadded(object{"threeDSServerTransID": s.id})); status != http.StatusConflict {
			t.Errorf("%s: a notification after the AReq: status %d, want 409", v, status)
		}
	}
}
