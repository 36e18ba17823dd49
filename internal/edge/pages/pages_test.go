package pages_test

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/edge/pages"
	"github.com/openthreeds/threeds/internal/edge/pages/consoletest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// matrix has the status of each page, in the order of callers.
var matrix = map[string][6]int{
	"/authentications":                                      {200, 200, 200, 200, 200, 200},
	"/authentications/search":                               {200, 200, 200, 200, 200, 200},
	"/authentications/" + passedID:                          {200, 200, 200, 200, 200, 200},
	"/authentications/" + foreignID:                         {200, 200, 200, 404, 404, 404},
	"/authentications/00000000-0000-4000-8000-00000000abcd": {404, 404, 404, 404, 404, 404},
	"/nowhere": {404, 404, 404, 404, 404, 404},
	"/":        {200, 200, 200, 200, 200, 200},
	"/reports": {200, 200, 200, 200, 200, 200}, "/reports?by=day&time=all": {200, 200, 200, 200, 200, 200}, "/reports?by=mandates": {200, 200, 200, 200, 200, 200},
	"/reports?by=nothing": {400, 400, 400, 400, 400, 400}, "/reports.csv": {200, 200, 200, 200, 200, 200},
	"/billing": {200, 200, 200, 200, 200, 200}, "/billing?month=soon": {400, 400, 400, 400, 400, 400},
	"/billing.csv": {200, 200, 200, 200, 200, 200},
	"/merchants":   {200, 200, 200, 200, 200, 200}, "/merchants/Corner%20Shop": {200, 200, 200, 200, 200, 200},
	"/merchants/Other%20Shop": {200, 200, 200, 404, 404, 404}, "/merchants/Nobody": {404, 404, 404, 404, 404, 404},
	"/keys": {200, 200, 200, 200, 200, 200}, "/tokens": {403, 403, 200, 403, 403, 403},
	"/audit": {403, 403, 200, 403, 403, 403}, "/audit.jsonl": {403, 403, 200, 403, 403, 403},
	"/erase":   {403, 403, 200, 403, 403, 403},
	"/explain": {200, 200, 200, 200, 200, 200}, "/operators": {403, 403, 200, 403, 403, 403},
	"/webhooks": {200, 200, 200, 200, 200, 200}, "/webhooks/ep_x": {404, 404, 404, 404, 404, 404},
	"/webhooks/" + hookID: {200, 200, 200, 200, 200, 200}, "/webhooks/" + foreignHookID: {200, 200, 200, 404, 404, 404},
}

// TestK2MatrixOfPagesIsExact gets each page as each role.
func TestK2MatrixOfPagesIsExact(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for at, statuses := range matrix {
		for i, caller := range callers() {
			if w := s.get(caller, at); w.Code != statuses[i] {
				t.Errorf("%s as %s: %d, want %d", at, caller, w.Code, statuses[i])
			}
		}
	}
}

// TestK2ForeignRecordIsUnknown: another merchant's record is, byte for byte, one that never was.
func TestK2ForeignRecordIsUnknown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	foreign := withoutToken(s.get("own-admin", "/authentications/"+foreignID))
	unknown := withoutToken(s.get("own-admin", "/authentications/00000000-0000-4000-8000-00000000abcd"))
	if foreign != unknown {
		t.Errorf("the pages differ:\n%s\n%s", foreign, unknown)
	}
	for _, at := range []string{"/authentications?time=all", "/authentications?time=all&merchant=Other+Shop", "/authentications?time=all&q=order-19"} {
		if body := s.get("own-admin", at).Body.String(); strings.Contains(body, foreignID) {
			t.Errorf("%s shows another merchant's record", at)
		}
	}
}

// TestK1PagesHaveNoInlineCode: nothing but our own style and script, small and with its time.
func TestK1PagesHaveNoInlineCode(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	inline := regexp.MustCompile(`(?i)<[a-z][^>]*\s(style|on[a-z]+)\s*=|<style|<script>|javascript:|https?://[^"<> ]+\.(js|css)`)
	timing := regexp.MustCompile(`^total;dur=[0-9.]+`)
	for at := range matrix {
		w := s.get("admin", at)
		if found := inline.FindString(w.Body.String()); found != "" {
			t.Errorf("%s: %q", at, found)
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: %q", at, policy)
		}
		if n := w.Body.Len(); n > 60_000 {
			t.Errorf("%s has %d bytes", at, n)
		}
		if !timing.MatchString(w.Header().Get("Server-Timing")) {
			t.Errorf("%s: Server-Timing %q", at, w.Header().Get("Server-Timing"))
		}
		if strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") && !strings.Contains(w.Body.String(), `action="/logout" method="post"`) {
			t.Errorf("%s has no logout", at)
		}
	}
	for _, name := range []string{"console.css", "console.js"} {
		if w := s.get("viewer", "/assets/"+name); w.Code != 200 || w.Body.Len() < 500 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}

// TestD142FormsWantCSRF: a form without the csrf of its session changes and shows nothing, nor does
// one without a session.
func TestD142FormsWantCSRF(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, given := range []string{"", "x", consoletest.CSRF, consoletest.FormToken() + "AA"} {
		form := url.Values{"csrf": {given}, "card": {card}}
		r := httptest.NewRequest(http.MethodPost, "/authentications/search", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if w := s.serve("admin", r); w.Code != 403 || strings.Contains(w.Body.String(), passedID) {
			t.Errorf("csrf %q: %d", given, w.Code)
		}
	}
	w := httptest.NewRecorder()
	s.Pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/authentications", nil))
	if w.Code != 403 || strings.Contains(w.Body.String(), shop) {
		t.Errorf("without a session: %d %s", w.Code, w.Body)
	}
}

// TestK4SearchPage: by each field, each finds what it should, and nothing more.
func TestK4SearchPage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	all := []string{passedID, lostID, foreignID, refusedID}
	for query, want := range map[string][]string{
		"": all, "q=0103": all, "q=9999": nil, "q=order-17": {passedID}, "q=" + passedID: {passedID}, "merchant=Other+Shop": {foreignID},
		"scheme=visa": all, "scheme=jcb": nil, "result=abandoned": {lostID}, "status=refused": {refusedID}, "acs=BANK-01": {passedID, lostID, foreignID},
		"reason=12": {foreignID}, "from=2027-03-01T11:30:30": {lostID, refusedID}, "to=2027-02-28": nil, "from=2027-03-01&to=2027-03-01": all,
		"to=2027-03-01T00:00": nil, "from=1+Mar+2027,+11:30:30+UTC": {lostID, refusedID},
		"from=2027-03-01T12:30%2B01:00&to=2027-03-01T11:30:30Z": {passedID, foreignID},
		"time=all&q=order-18": {lostID},
	} {
		body := s.get("viewer", "/authentications?"+query).Body.String()
		for _, id := range all {
			is, should := strings.Contains(body, "/authentications/"+id), false
			for _, w := range want {
				should = should || w == id
			}
			if is != should {
				t.Errorf("%q: %s is there: %t, want %t", query, id, is, should)
			}
		}
	}
	s.want(s.get("viewer", "/authentications?from=yesterday"), 400, "needs a form such as")
	s.want(s.get("viewer", "/authentications?q=9999"), 200, "No authentication found", "card ending in 9999", "Search last 30 days", "time=30d")
	w := s.post("viewer", "/authentications/search", url.Values{"card": {"4000 0000 0000 0103"}})
	s.want(w, 200, passedID, foreignID)
	if !strings.Contains(w.Header().Get("Server-Timing"), "db;dur=") {
		t.Errorf("Server-Timing: %s", w.Header().Get("Server-Timing"))
	}
	if body := s.post("own-viewer", "/authentications/search", url.Values{"card": {card}}).Body.String(); strings.Contains(body, foreignID) ||
		!strings.Contains(body, passedID) {
		t.Error("the shop's own people find another's card, or not their own")
	}
	s.want(s.post("viewer", "/authentications/search", url.Values{"card": {"4000"}}), 400, "12 to 19 digits")
	s.checkTrail("record.search", "passkey:viewer")
}

// checkTrail checks that the audit trail has an action of somebody.
func (s *site) checkTrail(action, who string) {
	s.Helper()
	entries, err := s.Admin.Operators.Search(s.Context(), operator.Query{Action: action, Who: who, Limit: 1})
	if err != nil || len(entries) != 1 || entries[0].From != "192.0.2.1" {
		s.Errorf("%s of %s in the audit trail: %v, %v", action, who, entries, err)
	}
}

// TestK4SearchPages: older ones are a link away, and no record is shown twice.
func TestK4SearchPages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i := range 60 {
		r := recordOf("10000000-0000-4000-8000-0000000000" + strconv.Itoa(10+i))
		r.Created = s.Now.Add(-2 * 60 * 60 * 1e9)
		s.add("answered", r)
	}
	first := s.get("viewer", "/authentications").Body.String()
	older := regexp.MustCompile(`href="(/authentications\?[^"]*cursor=[^"]*)">Older`).FindStringSubmatch(first)
	if older == nil {
		t.Fatal("no link to older ones")
	}
	second := s.get("viewer", strings.ReplaceAll(older[1], "&amp;", "&")).Body.String()
	row := regexp.MustCompile(`href="/authentications/([0-9a-f-]{36})"`)
	seen := map[string]bool{}
	for _, m := range append(row.FindAllStringSubmatch(first, -1), row.FindAllStringSubmatch(second, -1)...) {
		if seen[m[1]] {
			t.Errorf("%s twice", m[1])
		}
		seen[m[1]] = true
	}
	if len(seen) != 64 {
		t.Errorf("%d records, want 64", len(seen))
	}
	s.want(s.get("viewer", strings.ReplaceAll(older[1], "&amp;", "&")), 200, "Newest")
}

// TestK4CardInAnAddressIsRefused: it is neither looked for nor shown again.
func TestK4CardInAnAddressIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{"q", "reference", "id", "last4", "acs", "reason"} {
		for _, typed := range []string{card, "4000+0000+0000+0103", "4000-0000-0000-0103"} {
			w := s.get("viewer", "/authentications?"+name+"="+typed)
			body := w.Body.String()
			if w.Code != 400 || !strings.Contains(body, "Type it on its own page") || hasCard(body) {
				t.Errorf("%s=%s: %d", name, typed, w.Code)
			}
		}
	}
	entries, err := s.Admin.Operators.Search(t.Context(), operator.Query{Limit: 10})
	if err != nil || len(entries) != 0 {
		t.Errorf("searched: %v, %v", entries, err)
	}
}

// TestK4Timeline: it shows which party waited for which, each message explained and masked, what was changed, and what
// to do.
func TestK4Timeline(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.get("viewer", "/authentications/"+passedID)
	s.want(w, 200, "129.00 EUR, Visa", "order-17", "Authenticated, after a challenge", "transStatus Y · ECI 05", "Shifts to the issuer", "Authorise",
		"POST /authentications", ">AReq<", ">ARes<", ">RReq<", ">RRes<", "Where 23.1 s went",
		`aria-label="1.46 s: ARes C, Visa to threeds"`, "while the shopper is at the bank, cut", "648 ms", "The result of the challenge: the shopper passed.",
		"What decides", "transStatus", "<span class=\"masked\">***</span>", "purchaseAmount: a number was made a string",
		`href="/authentications/`+passedID+`">`, "Link to this") // what is shared inside the house has no card in it
	s.want(s.get("viewer", "/authentications/"+passedID+"?step=ares&beside=areq"), 200,
		"The bank wants to ask the shopper.", "What we asked the directory server", "400000******0103", "What is bought", "amount in minor units")
	s.want(s.get("viewer", "/authentications/"+lostID+"?step=expired"), 200, "Abandoned", "Nobody came back in time.")
	s.want(s.get("viewer", "/authentications/"+refusedID), 200, "Refused by us", "<code>mcc</code>", "Correct the request")
	s.checkTrail("record.view", "passkey:viewer")
}

// hasCard reports whether a text has a whole card number, also with something between its digits.
func hasCard(text string) bool {
	return regexp.MustCompile(`4[ -]?0[ -]?0[ -]?0[ -]?0[ -]?0[ -]?0[ -]?0[ -]?0[ -]?0[ -]?0[ -]?0[ -]?0103`).MatchString(text)
}

// TestA2CodesOfOnesOwnAreExplained: a record's messages and outcome say what the operator's file says of a code.
func TestA2CodesOfOnesOwnAreExplained(t *testing.T) {
	s := newSite(t)
	const meaning = "as our contract has it"
	address := "/authentications/" + passedID + "?step=rreq"
	if page := s.get("viewer", address).Body.String(); strings.Contains(page, meaning) || strings.Contains(page, `class="mark"`) {
		t.Fatal("it is there without the file")
	}
	own, err := scheme.ReadOwn("visa", "scheme visa Ours\ncode eci 05 "+meaning+" ; vendor-doc sure\n")
	must(t, err)
	s.Pages.Schemes = func(word string) pages.Scheme {
		return pages.Scheme{Rules: scheme.NewSheet(word, map[string]*scheme.Profile{"visa": own}[word]), Colour: "#0a5c36"}
	}
	s.want(s.get("viewer", address), 200, meaning)
	s.want(s.get("viewer", "/authentications"), 200,
		`<svg class="mark" viewBox="0 0 10 10" aria-hidden="true"><circle cx="5" cy="5" r="4.5" fill="#0a5c36"/></svg>Visa`)
}

// TestJ6NoSecretOnAnyPage: no card number, authentication value or hash of a session, in any encoding.
func TestJ6NoSecretOnAnyPage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	value, err := base64.StdEncoding.DecodeString(avValue)
	must(t, err)
	secrets := []string{avValue, hex.EncodeToString(value), base64.RawURLEncoding.EncodeToString(value), card,
		base64.StdEncoding.EncodeToString([]byte(card))[:20],
		url.QueryEscape(avValue)}
	pages := []string{}
	for at := range matrix {
		pages = append(pages, s.get("admin", at).Body.String())
	}
	for _, step := range []string{"request", "areq", "ares", "answered", "rreq", "rres"} {
		pages = append(pages, s.get("admin", "/authentications/"+passedID+"?step="+step).Body.String())
	}
	w := s.post("admin", "/authentications/search", url.Values{"card": {card}})
	pages = append(pages, w.Body.String(), w.Header().Get("Location"))
	for _, body := range pages {
		for _, secret := range secrets {
			if strings.Contains(strings.ToLower(body), strings.ToLower(secret)) {
				t.Errorf("%q is on a page that begins with %.300s", secret, body)
			}
		}
		if hasCard(body) {
			t.Errorf("a card number is on a page")
		}
	}
}

// BenchmarkPages makes each page once. Its figure is the time of all pages together on the server; each page may take
// 100 ms.
func BenchmarkPages(b *testing.B) {
	s := newSite(b)
	for b.Loop() {
		for at := range matrix {
			s.get("admin", at)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N*len(matrix)), "ms/page")
}

// TestJ1PageHasEveryStep: the timeline of an authentication in a browser names each of its steps,
// and each can be chosen.
func TestJ1PageHasEveryStep(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(s.get("viewer", "/authentications/"+passedID), 200, "POST /authentications", "look-up", "201", "3DS Method", "AReq", "ARes", "challenge",
		"CReq", "RReq", "RRes", "CRes", "webhook", "answer")
	for _, step := range []string{"request", "lookup", "answered", "method", "areq", "ares", "challenge", "creq", "rreq",
		"rres", "cres", "webhook", "answered-2"} {
		s.want(s.get("viewer", "/authentications/"+passedID+"?step="+step), 200, `step=`+step)
	}
	s.want(s.get("viewer", "/authentications/"+passedID+"?step=webhook"), 200, "authentication.completed to we_1: 200")
}

// TestD126OutcomeStaysWhenMessagesGo: once messages are no longer kept, the page still says what followed from them,
// and which of them are gone.
func TestD126OutcomeStaysWhenMessagesGo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for id, liability := range map[string]string{passedID: "Shifts to the issuer", lostID: "Stays with the merchant", foreignID: "Stays with the merchant"} {
		s.want(s.get("admin", "/authentications/"+id), 200, liability)
	}
	must(t, s.Journal.ExpireMessages(t.Context(), s.Now.AddDate(0, 0, 2)))
	for id, liability := range map[string]string{passedID: "Shifts to the issuer", lostID: "Stays with the merchant", foreignID: "Stays with the merchant"} {
		w := s.get("admin", "/authentications/"+id+"?step=ares")
		s.want(w, 200, liability, "No message of this step is kept.")
		for _, refuted := range []string{"Not decided", "Load the page again", "No directory server has this card"} {
			if strings.Contains(w.Body.String(), refuted) {
				t.Errorf("%s: without messages the page says %q", id, refuted)
			}
		}
	}
}

// TestK3NextStepOfWhatIsOver: an authentication that ended before anything was sent, and a request of 3-D Secure 1.0.2,
// are over. The page does not ask to wait.
func TestK3NextStepOfWhatIsOver(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := recordOf("60000000-0000-4000-8000-000000000001")
	r.Created, r.Merchant, r.API, r.Status, r.Result, r.TransStatus = s.Now.Add(-time.Hour), shop, "authentications", "cancelled", "abandoned", ""
	s.add(journal.Cancelled, r, journal.Step{Step: "request", At: r.Created})
	old := recordOf("60000000-0000-4000-8000-000000000002")
	old.Created, old.Merchant, old.API, old.Operation, old.Status, old.MessageVersion = s.Now.Add(-time.Hour), shop, "v1", "check", "completed", "1.0.2"
	s.add(journal.Version1, old, journal.Step{Step: "request", At: old.Created})
	for id, want := range map[string]string{r.ID: "Do not authorise", old.ID: "The rules of 3-D Secure 1.0.2 are not known here."} {
		w := s.get("viewer", "/authentications/"+id)
		s.want(w, 200, want)
		if strings.Contains(w.Body.String(), "Load the page again") {
			t.Errorf("%s: the page asks to wait", id)
		}
	}
}

// TestD126PersonalDataIsShownWithItsMessage: as a group of its own, with what each element is, and on no list.
func TestD126PersonalDataIsShownWithItsMessage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := journal.Record{ID: passedID, Created: s.Now.Add(-30 * time.Minute), Merchant: shop}
	areq := masked(t, `{"messageType": "AReq", "messageVersion": "2.2.0", "email": "zoe@shop.example"}`)
	s.add(journal.SecondAReq, r, journal.Step{
		Step: "areq", At: s.Now, Message: areq, Personal: []byte(`{"email":"zoe@<shop>.example","homePhone.cc":"49"}`),
	})
	for _, caller := range callers() {
		w := s.get(caller, "/authentications/"+passedID+"?step=areq-2")
		body := w.Body.String()
		if isShown := strings.Contains(body, "Personal data") && strings.Contains(body, "zoe@&lt;shop&gt;.example") &&
			strings.Contains(body, "cardholder email"); isShown != (w.Code == 200) {
			t.Errorf("%s: %d %s", caller, w.Code, body)
		}
		if list := s.get(caller, "/authentications").Body.String(); strings.Contains(list, "zoe@") {
			t.Errorf("%s: the list has them", caller)
		}
	}
}
