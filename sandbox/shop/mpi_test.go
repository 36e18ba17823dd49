package shop

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/client"
)

// toEnrolled pays with a card that is not enrolled in 2.x, up to the answer of
// /enrolled.
func (p *page) toEnrolled(card string) view {
	p.t.Helper()
	v := p.post("/checkout", testOrder(card))
	if v.State != enrolling || v.Version != "1.0.2" || v.Method != nil {
		p.t.Fatalf("%s: %+v, want enrolling", card, v)
	}
	return p.post("/checkout/"+v.ID+"/enrolled", nil)
}

// names are those on the wire panel.
func names(v view) string {
	var all []string
	for _, e := range v.Wire {
		all = append(all, e.Name)
	}
	return strings.Join(all, ", ")
}

func TestLegacyEndings(t *testing.T) {
	for _, test := range []struct {
		card, eci string
		want      word
		status    string
		text      string // a part of it
	}{
		{"4102010000000000", "5", authenticated, "Y", "CAVV"},
		{"4102010000000001", "6", attempted, "A", "attempt"},
		{"4102010000000002", "7", failed, "N", "not authenticated"},
		{"4102010000000003", "7", unavailable, "U", "3-D Secure 1.0.2"},
		{"4102010000000004", "", failed, "", "is not one that the bank has signed (/check: invalid_param, pares)"},
		{"4102010000001000", "6", notEnrolled, "", "neither in EMV 3-D Secure nor in 3-D Secure 1.0.2"},
		{"4102010000002000", "7", unavailable, "", "cannot say"},
		{"4102010000003000", "", notEnrolled, "", "Directory server timeout or connection error, Connection timeout"},
		{"9000100111111111", "", notEnrolled, "", "not available for this card"},
		{"4102010000008000", "", notEnrolled, "", "invalid_param, card[number]"},
		{"4102010000009000", "", faulty, "", "/enrolled"},
	} {
		bank := newBank(t)
		p := &page{t: t, shop: bank.shop()}
		v := p.toEnrolled(test.card)
		c := p.shop.checkouts.find(v.ID)
		if v.State == challenge {
			if names(v) != "Card check, Erro, Enrolled?, Enrolment, PAReq" {
				t.Errorf("%s: the wire panel has %s", test.card, names(v))
			}
			p.do("GET", "/frame/"+v.ID+"/challenge", "", "")
			changes := []string{}
			if test.status == "" {
				changes = []string{">good<", ">bad<"}
			}
			if code := p.notify("pares", url.Values{"PaRes": {paRes(test.card, test.status, changes...)}, "MD": {c.session}}); code != 200 {
				t.Errorf("%s: TermUrl answers %d", test.card, code)
			}
			if v = c.view(); names(v) != "Card check, Erro, Enrolled?, Enrolment, PAReq, PARes, Check, Checked" {
				t.Errorf("%s: the wire panel has %s", test.card, names(v))
			}
		}
		if e := v.Ending; v.State != done || e.Word != test.want || e.TransStatus != test.status || e.ECI != test.eci ||
			!strings.Contains(e.Text, test.text) || e.Good != (test.status == "Y" || test.status == "A") {
			t.Errorf("%s: %s, %+v; want %s", test.card, v.State, v.Ending, test.want)
		}
		for _, secret := range []string{test.card, testKey} {
			if strings.Contains(p.seen.String(), secret) || strings.Contains(string(marshal(c.view())), secret) {
				t.Errorf("%s: %s came back to the browser", test.card, secret)
			}
		}
	}
}

// TestLegacyRequest: the form of /enrolled has what a merchant has to say, and
// the panel shows it without the card.
func TestLegacyRequest(t *testing.T) {
	bank := newBank(t)
	p := &page{t: t, shop: bank.shop()}
	v := p.toEnrolled("4102010000000000")
	p.post("/checkout/"+v.ID+"/enrolled", nil) // changes nothing
	sent, n := bank.lastCall("/enrolled")
	order, _ := sent["order_id"].(string)
	delete(sent, "order_id")
	want := object{
		"amount": "12900", "currency": "EUR", "cardholder_ip": "192.0.2.1",
		"card[number]": "4102010000000000", "card[expire_month]": "12", "card[expire_year]": "2029",
		"merchant[acquirer_bin]": acquirerBIN, "merchant[id]": acquirerID, "merchant[name]": merchantName,
		"merchant[country]": "DK", "merchant[url]": "http://127.0.0.1:8082",
	}
	if n != 1 || len(order) != 20 || string(marshal(sent)) != string(marshal(want)) {
		t.Errorf("%d calls, order_id %q, %s\nwant %s", n, order, marshal(sent), marshal(want))
	}
	shown := v.Wire[2].Body
	for _, part := range []string{`"card[number]": "410201******0000"`, `"card[expire_month]": "**"`, `"card[expire_year]": "****"`} {
		if !strings.Contains(shown, part) {
			t.Errorf("no %s in %s", part, shown)
		}
	}
	if pareq := v.Wire[4].Body; !strings.Contains(pareq, "<expiry>****</expiry>") ||
		!strings.Contains(pareq, "  <xid>"+bankXID+"</xid>") || strings.Contains(pareq, "4102010000000000") {
		t.Errorf("PAReq shown as %s", pareq)
	}
	if c := p.shop.checkouts.find(v.ID); c.order.Card != "" || c.panel.card != "" {
		t.Error("the card number is still there")
	}
	monthly := testOrder("4102010000000000")
	monthly.Plan = "monthly"
	v = p.toAuth(monthly)
	if sent, _ := bank.lastCall("/enrolled"); sent["amount"] != "1290" || p.shop.checkouts.find(v.ID).v1.amount != "1290" {
		t.Errorf("monthly: %v, want 1290", sent["amount"])
	}
}

// TestLegacyFrame: the page in the frame posts the three fields that an issuer
// wants, and again the same.
func TestLegacyFrame(t *testing.T) {
	bank := newBank(t)
	p := &page{t: t, shop: bank.shop()}
	v := p.toEnrolled("4102010000000000")
	c := p.shop.checkouts.find(v.ID)
	var first string
	for range 2 {
		body, err := io.ReadAll(p.do("GET", "/frame/"+v.ID+"/challenge", "", "").Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{
			`action="` + bank.ACS.URL + `/pareq"`, `name="PaReq" value="`, `name="TermUrl" value="http://127.0.0.1:8082/notify/pares"`,
			`name="MD" value="` + c.session + `"`,
		} {
			if !strings.Contains(string(body), part) {
				t.Errorf("no %s in\n%s", part, body)
			}
		}
		if first != "" && first != string(body) {
			t.Error("the second page differs")
		}
		first = string(body)
	}
}

// TestLegacyAnswerForAnotherPaymentFails: a genuine answer for another payment is a failure.
func TestLegacyAnswerForAnotherPaymentFails(t *testing.T) {
	for _, test := range []struct{ old, new, want string }{
		{"<purchAmount>12900", "<purchAmount>100", "the amount"},
		{"<currency>EUR", "<currency>DKK", "the currency"},
		{"<merID>" + acquirerID, "<merID>somebody", "the merchant"},
		{"<xid>M", "<xid>N", "the transaction"},
		{"<pan>0000", "<pan>1111", "the card"},
	} {
		p := &page{t: t, shop: newBank(t).shop()}
		v := p.toEnrolled("4102010000000000")
		c := p.shop.checkouts.find(v.ID)
		p.notify("pares", url.Values{"PaRes": {paRes("4102010000000000", "Y", test.old, test.new)}, "MD": {c.session}})
		if e := c.view().Ending; e == nil || e.Word != failed || !strings.Contains(e.Text, test.want) {
			t.Errorf("%s: %+v", test.want, e)
		}
	}
}

// TestLegacyNotices: what belongs to no payment, or comes twice, or too late,
// changes nothing.
func TestLegacyNotices(t *testing.T) {
	now := time.Now()
	bank := newBank(t)
	s := bank.shop()
	s.Now = func() time.Time { return now }
	p := &page{t: t, shop: s}
	good := paRes("4102010000000000", "Y")
	v2 := p.toAuth(testOrder("4000000000000072"))
	v := p.toEnrolled("4102010000000000")
	c := s.checkouts.find(v.ID)
	for _, test := range []struct {
		name, mark string
		want       int
	}{
		{"nobody's", "x", 404},
		{"no MD", "", 404},
		{"a payment in 2.x", s.checkouts.find(v2.ID).session, 409},
		{"the id of a transaction", s.checkouts.find(v2.ID).transID, 404},
		{"good", c.session, 200},
		{"twice", c.session, 409},
	} {
		if got := p.notify("pares", url.Values{"PaRes": {good}, "MD": {test.mark}}); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
	if _, n := bank.lastCall("/check"); n != 1 {
		t.Errorf("%d calls of /check, want 1", n)
	}
	late := s.checkouts.find(p.toEnrolled("4102010000000000").ID)
	now = now.Add(11 * time.Minute)
	if v = p.post("/checkout/"+late.id+"/result", nil); v.State != challenge {
		t.Errorf("done at the limit, want after it: %s %+v", v.State, v.Ending)
	}
	now = now.Add(1)
	if v = p.post("/checkout/"+late.id+"/result", nil); v.State != done || v.Ending.Word != timedOut {
		t.Errorf("nobody came back: %s %+v", v.State, v.Ending)
	}
	if got := p.notify("pares", url.Values{"PaRes": {good}, "MD": {late.session}}); got != 409 {
		t.Errorf("after the end: %d, want 409", got)
	}
	if _, n := bank.lastCall("/postauth"); n != 0 {
		t.Errorf("%d calls of /postauth, want none", n)
	}
}

// TestLegacyCancel: closed by the cardholder; what the bank says all the same
// counts for as long as the shop waits.
func TestLegacyCancel(t *testing.T) {
	now := time.Now()
	s := newBank(t).shop()
	s.Now = func() time.Time { return now }
	p := &page{t: t, shop: s}
	v := p.toEnrolled("4102010000000000")
	p.post("/checkout/"+v.ID+"/cancel", nil)
	now = now.Add(3*time.Second + 1)
	if v = p.post("/checkout/"+v.ID+"/result", nil); v.State != done || v.Ending.Word != cancelled {
		t.Errorf("%s %+v, want cancelled", v.State, v.Ending)
	}
	v = p.toEnrolled("4102010000000000")
	p.post("/checkout/"+v.ID+"/cancel", nil)
	c := s.checkouts.find(v.ID)
	p.notify("pares", url.Values{"PaRes": {paRes("4102010000000000", "Y")}, "MD": {c.session}})
	if e := c.view().Ending; e == nil || e.Word != authenticated {
		t.Errorf("%+v, want authenticated", e)
	}
}

// TestLegacyServerFails: a merchant plug-in that fails, apart from the API.
func TestLegacyServerFails(t *testing.T) {
	const unreadable, unreachable, odd = "cannot be read. Is the API key", "cannot be reached", "not one that a shop can go on with"
	says := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"wrong key", says(http.StatusUnauthorized, "Not Authorized"), unreadable},
		{"wrong key, said in JSON", says(http.StatusUnauthorized, "{}"), unreadable},
		{"hung up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, unreachable},
		{"no JSON", says(http.StatusOK, "hello"), unreadable},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, unreadable},
		{"nothing", says(http.StatusOK, `{}`), odd},
		{"an error without words", says(http.StatusOK, `{"error":{}}`), odd},
		{"odd address", says(http.StatusOK, `{"enrolled":"Y","pareq":"x","acs_url":"javascript:alert(1)"}`), odd},
		{"no PAReq", says(http.StatusOK, `{"enrolled":"Y","acs_url":"https://acs.example/"}`), odd},
		{"PAReq without an answer", says(http.StatusOK, `{"pareq":"x","acs_url":"https://acs.example/"}`), odd},
		{"PAReq for a card that is not enrolled", says(http.StatusOK, `{"enrolled":"N","pareq":"x","acs_url":"https://acs.example/"}`), "takes part neither"},
	} {
		server := httptest.NewServer(test.handler)
		s := newBank(t).shop()
		s.MPI = server.URL
		p := &page{t: t, shop: s}
		if v := p.toEnrolled("4102010000000000"); v.State != done || !strings.Contains(v.Ending.Text, test.want) ||
			v.Ending.Word != faulty && test.want != "takes part neither" {
			t.Errorf("%s: %s, %+v; want %q", test.name, v.State, v.Ending, test.want)
		}
		server.Close()
	}
}

// TestCheckedPaymentMustBeThisOne: a genuine answer counts when it is about this payment. What the issuer leaves out is
// not checked.
func TestCheckedPaymentMustBeThisOne(t *testing.T) {
	paid := legacy{amount: "12900", last4: "0000", xid: bankXID}
	genuine := client.Checked{Checked: api.Checked{
		Amount: "12900", Currency: "EUR", CAVV: "AAABBZEEBgAAAAAAAAQGAAAAAAA=", ECI: "5", MerchantID: acquirerID,
		Last4: "0000", Status: "Y", XID: bankXID,
	}}
	for _, test := range []struct {
		name   string
		change func(*legacy, *client.Checked)
		want   word
		text   string
		value  bool
	}{
		{"as it should be", func(*legacy, *client.Checked) {}, authenticated, "ECI and CAVV", true},
		{"the amount in twelve digits", func(_ *legacy, c *client.Checked) { c.Amount = "000000012900" }, authenticated, "", true},
		{"a PAReq that could not be read", func(p *legacy, _ *client.Checked) { p.xid = "" }, authenticated, "", true},
		{"without a CAVV", func(_ *legacy, c *client.Checked) { c.CAVV = "" }, authenticated, "no CAVV", false},
		{"attempted", func(_ *legacy, c *client.Checked) { c.Status = "A" }, attempted, "", true},
		{"attempted with another card", func(_ *legacy, c *client.Checked) { c.Status, c.Last4 = "A", "1111" }, failed, "the card is another one", false},
		{"authenticated without a card", func(_ *legacy, c *client.Checked) { c.Last4 = "" }, failed, "the card is another one", false},
		{"not authenticated", func(_ *legacy, c *client.Checked) { c.Status, c.Last4, c.CAVV = "N", "", "" }, failed, "not authenticated", false},
		{"not authenticated in another transaction", func(_ *legacy, c *client.Checked) { c.Status, c.XID = "N", "x" },
			failed, "the transaction is another one", false},
		{"a status that there is not", func(_ *legacy, c *client.Checked) { c.Status = "" }, faulty, "not one that a shop can end with", true},
	} {
		p, c := paid, genuine
		test.change(&p, &c)
		if e := p.verdict(&c); e.Word != test.want || !strings.Contains(e.Text, test.text) || e.HasValue != test.value ||
			e.Good != (test.want == authenticated || test.want == attempted) {
			t.Errorf("%s: %+v; want %s", test.name, e, test.want)
		}
	}
}

// TestShownXML: what is shown of a message has no secret in it, and of what is
// no message there is nothing.
func TestShownXML(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"<a x='1'><b>2</b><c/></a>", "<a x=\"1\">\n  <b>2</b>\n  <c></c>\n</a>"},
		{"<?xml version='1.0'?><PARes><pan>0000000000001234</pan><cavv>AAABBZEEBgAAAAAAAAQG\nAAAAAAA=</cavv></PARes>",
			"<PARes>\n  <pan>000000******1234</pan>\n  <cavv>AAAB…AAA=</cavv>\n</PARes>"},
		{`<a xmlns="u" xmlns:b="v" b:x="1"><b><c>2</c></b></a>`, "<a x=\"1\">\n  <b>\n    <c>2</c>\n  </b>\n</a>"},
		{"<a>card 4000001234567890</a>", "<a>card 400000******7890</a>"},
		{"<a>", "(3 bytes that are no message)"},
		{"hello", "(5 bytes that are no message)"},
		{"", "(0 bytes that are no message)"},
		{strings.Repeat("<a>", 50) + strings.Repeat("</a>", 50), "(350 bytes that are no message)"},
	} {
		if got := shownXML([]byte(test.text), nil); got != test.want {
			t.Errorf("shownXML(%q) = %q, want %q", test.text, got, test.want)
		}
	}
	for _, text := range []string{"", "@", "YWJj", zipped(strings.Repeat(" ", maxPacked+1))} {
		if _, err := decodePacked(text); err == nil && text != "" {
			t.Errorf("unpack(%.20q) succeeds", text)
		}
	}
}
