package pages_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// failedID is the id of an authentication without an answer that could be used.
const failedID = "60000000-0000-4000-8000-000000000001"

// addFailed adds an authentication without an answer that could be used, with what is said of it.
func (s *site) addFailed(code, finding string, before ...journal.Step) {
	s.Helper()
	r := recordOf(failedID)
	r.Created, r.Status, r.Result, r.TransStatus, r.ErrorCode = s.Now.Add(-time.Minute), "failed", "error", "", code
	r.ErrorComponent, r.ErrorDescription = "S", "It failed."
	detail, isRelayed := strings.CutPrefix(finding, journal.RelayedErro)
	if r.ErrorDetail = strings.TrimPrefix(detail, code+" "); isRelayed {
		r.ErrorComponent = "D"
	}
	areq := stepOf("areq", r.Created)
	areq.Message = masked(s.TB, `{"messageType": "AReq", "messageVersion": "2.2.0", "deviceChannel": "02", "messageCategory": "01"}`)
	areq.Findings, r.Unkept = []string{"billAddrCity: advised"}, []journal.Rule{{Element: "billAddrCity", Rule: "advise"}}
	erro := stepOf("erro", r.Created.Add(10*time.Second))
	erro.Findings = []string{finding}
	s.add(journal.Answered, r, append(append([]journal.Step{stepOf("request", r.Created), areq}, before...), erro)...)
}

// findings returns the card of findings of the authentication with an id.
func (s *site) findings(id string) string {
	s.Helper()
	_, card, _ := strings.Cut(s.get("viewer", "/authentications/"+id).Body.String(), "<h2>Findings</h2>")
	card, _, _ = strings.Cut(card, "</section>")
	return card
}

// TestK4DeliveredWebhookIsNoFinding: an event that was delivered is in the timeline alone, also after attempts that
// failed; one that was not delivered is one finding.
func TestK4DeliveredWebhookIsNoFinding(t *testing.T) {
	t.Parallel()
	const to = "authentication.completed to ep_1: "
	for _, test := range []struct {
		attempts []string
		want     int
	}{
		{[]string{"204"}, 0}, {[]string{"attempt 1 failed, 500", "200"}, 0}, {[]string{"attempt 1 failed, 500", "attempt 2 failed, 500"}, 1},
	} {
		s := newSite(t)
		var steps []journal.Step
		for _, attempt := range test.attempts {
			steps = append(steps, journal.Step{Step: "webhook", At: s.Now, Findings: []string{to + attempt}})
		}
		s.addFailed("405", "405 Connection timeout", steps...)
		if got := strings.Count(s.findings(failedID), "ep_1"); got != test.want {
			t.Errorf("%q: %d findings, want %d", test.attempts, got, test.want)
		}
	}
}

// TestK4FindingsSayFirstWhatCouldChangeAnOutcome: a rule in force is the first, then one that comes; what a scheme only
// advises is folded under one line, however much it is.
func TestK4FindingsSayFirstWhatCouldChangeAnOutcome(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.addFailed("405", "405 Connection timeout")
	only := s.findings(failedID)
	if strings.Contains(only, "tw") || !strings.Contains(only, "none that would change an outcome") ||
		!strings.Contains(only, "<summary>1 recommendation from ") {
		t.Errorf("a recommendation alone is a warning: %s", only)
	}
	r := recordOf("60000000-0000-4000-8000-000000000002")
	r.Created = s.Now.Add(-time.Minute)
	r.Unkept = []journal.Rule{
		{Element: "billAddrCity", Rule: "advise"}, {Element: "mcc", Rule: "format", Since: "2027-05-01"},
		{Element: "billAddrState", Rule: "advise"}, {Element: "email|homePhone", Rule: "require"},
	}
	s.add(journal.Answered, r, stepOf("areq", r.Created))
	rest := s.findings(r.ID)
	for _, text := range []string{
		"2 could change an outcome", "email|homePhone: required", "mcc: required", "not in force yet", "<details", "2 recommendations from ",
		"billAddrCity: advised", "billAddrState: advised",
	} {
		_, after, isThere := strings.Cut(rest, text)
		if rest = after; !isThere {
			t.Fatalf("%q is not there, or not in its place", text)
		}
	}
}

// TestK4ListSaysWhoseOnAPhone: of a row of the list a phone shows the merchant, and not that there was no challenge.
func TestK4ListSaysWhoseOnAPhone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := recordOf("60000000-0000-4000-8000-000000000002")
	r.Created, r.Reference = s.Now.Add(-time.Minute), "order-20"
	s.add(journal.Answered, r, stepOf("areq", r.Created))
	s.want(s.get("viewer", "/authentications?q=order-20"), 200, `<td class="cwho">`+shop+` <span class="muted s">order-20</span>`,
		`<td class="muted s cwhy hide-s">no challenge</td>`)
}

// TestK10AuditSaysWhatChanged: member by member, with what it was before, and by the name that the issuer of OpenID
// Connect gives the person.
func TestK10AuditSaysWhatChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(s.post("operator", "/keys", url.Values{"merchant": {shop}, "label": {"till 4"}}), 200)
	who := operator.Actor{Who: operator.OIDCPrefix + "00u1a2b3", Role: operator.Admin}
	must(t, s.Admin.Operators.AddUser(t.Context(), &operator.User{Name: who.Who, Role: operator.Admin, Label: "zoe@example.com"}))
	must(t, s.Admin.Operators.Record(t.Context(), who.Entry("merchant.change", "Fjord",
		map[string]any{"mcc": "5411", "rate": "20/s"}, map[string]any{"mcc": "5812", "rate": "20/s", "in_flight": 50})))
	s.want(s.get("admin", "/audit"), 200, `<span class="line">in_flight: 50</span><span class="line">mcc: 5411 → 5812</span></td>`,
		`zoe@example.com <span class="muted s wrap">oidc:00u1a2b3</span>`, `<span class="line">label: till 4</span>`)
	if body := s.get("admin", "/audit").Body.String(); strings.Contains(body, "0001-01-01") {
		t.Error("a key without an end has one in the audit trail")
	}
}

// TestK4LiabilityIsOneSentence: the sources of who is liable are links, folded under a word.
func TestK4LiabilityIsOneSentence(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	body := s.get("viewer", "/authentications/"+passedID).Body.String()
	sentence, why, isFolded := strings.Cut(body, "<summary>Why</summary>")
	if !isFolded || strings.Contains(sentence, "https://") ||
		!strings.Contains(sentence, "Visa takes fraud disputes off the merchant for an authenticated payment with eci 05.") {
		t.Error("the liability is no sentence, or its sources stand before \"Why\"")
	}
	if links := strings.Count(why, `<a href="https://`); links < 2 {
		t.Errorf("%d sources are links, want those of the rule", links)
	}
}

// TestK4SilentDirectorySendsNoErro: a party that gave no answer, or an answer that was refused, is not shown as the
// sender of an Erro. The page says in words what was wrong.
func TestK4SilentDirectorySendsNoErro(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.addFailed("405", "405 Connection timeout")
	body := s.get("viewer", "/authentications/"+failedID).Body.String()
	if strings.Contains(body, ">Erro<") || !strings.Contains(body, "no usable answer") {
		t.Error("the silent directory server sent an Erro")
	}
	if !strings.Contains(body, "<p>error 405 of this server: It failed (Connection timeout)</p>") || !strings.Contains(body, "none that would change an outcome") {
		t.Error("the page does not say why there was no answer, or counts that with the findings")
	}
	if strings.Contains(body, "error 405, error 405") || strings.Contains(body, "Error, error") {
		t.Error("the heading says the code, which stands below it")
	}

	s = newSite(t)
	s.addFailed("201", "201 authenticationValue", journal.Step{Step: "ares", At: s.Now, Findings: []string{"refused: 201 authenticationValue"}})
	body = s.get("viewer", "/authentications/"+failedID).Body.String()
	if strings.Contains(body, ">Erro<") || strings.Contains(body, "refused: 201") ||
		!strings.Contains(body, "<p>error 201 of this server: It failed (authenticationValue)</p>") {
		t.Error("an ARes that was refused")
	}

	s = newSite(t)
	s.addFailed("303", journal.RelayedErro+"303 Access denied")
	body = s.get("viewer", "/authentications/"+failedID).Body.String()
	if !strings.Contains(body, ">Erro<") || !strings.Contains(body, "error 303 of the directory server: It failed (Access denied)") {
		t.Error("an Erro of the directory server is not shown as such")
	}
}

// TestK4StripShowsWhoHeldItUp: a time that is cut is drawn longer than each that is not.
func TestK4StripShowsWhoHeldItUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := recordOf(failedID)
	r.Created = s.Now.Add(-time.Minute)
	s.add(journal.Answered, r, stepOf("request", r.Created), stepOf("areq", r.Created.Add(20*time.Millisecond)), stepOf("erro", r.Created.Add(10*time.Second)))
	body := s.get("viewer", "/authentications/"+r.ID).Body.String()
	parts := regexp.MustCompile(`<rect class="[^"]*" x="[^"]*" y="0" width="([0-9.]+)" height="30"/>`).FindAllStringSubmatch(body, -1)
	if len(parts) != 2 {
		t.Fatalf("%d parts", len(parts))
	}
	ours, err := strconv.ParseFloat(parts[0][1], 64)
	must(t, err)
	theirs, err := strconv.ParseFloat(parts[1][1], 64)
	must(t, err)
	if ours*10 > theirs || ours < 2 {
		t.Errorf("20 ms of threeds are drawn %.0f wide, and 10 s of the directory server %.0f", ours, theirs)
	}
}

// TestK4CancelledChallengeSaysSo: what the shopper or the shop did counts for more than the reason code that comes with
// it.
func TestK4CancelledChallengeSaysSo(t *testing.T) {
	t.Parallel()
	for cancel, want := range map[string]string{"01": "cardholder cancelled", "05": "first CReq missing"} {
		s := newSite(t)
		r := recordOf(failedID)
		r.Created, r.Result, r.TransStatus, r.TransStatusReason, r.Challenged = s.Now.Add(-time.Minute), "abandoned", "N", "01", true
		message := func(members string) json.RawMessage {
			return masked(t, `{"messageVersion": "2.2.0", "threeDSServerTransID": "`+failedID+`", `+members+`}`)
		}
		areq, ares, rreq := stepOf("areq", r.Created), stepOf("ares", r.Created), stepOf("rreq", r.Created)
		areq.Message = message(`"messageType": "AReq", "deviceChannel": "02", "messageCategory": "01"`)
		ares.Message = message(`"messageType": "ARes", "transStatus": "C"`)
		rreq.Message = message(`"messageType": "RReq", "messageCategory": "01", "transStatus": "N", "transStatusReason": "01", "challengeCancel": "` + cancel + `"`)
		rreq.Findings = []string{"refused: 203 eci"}
		s.add(journal.Answered, r, areq, ares)
		s.add(journal.Resulted, r, rreq)
		s.want(s.get("viewer", "/authentications/"+failedID), 200, "challenge cancelled: ", want, "an RReq was refused: 203 eci")
	}
}

// TestK4TimesThatEndBeforeTheyBegin are a fault, and not a search that finds nothing.
func TestK4TimesThatEndBeforeTheyBegin(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, page := range []string{"/authentications", "/audit"} {
		s.want(s.get("admin", page+"?from=2027-03-02&to=2027-02-01"), 400, "The time ends before it begins", `value="2027-03-02"`, `value="2027-02-01"`)
	}
	s.get("admin", "/authentications")
	s.want(s.get("admin", "/audit?from=2027-03-01&to=2027-03-01"), 200, "record.search")
}

// TestK4OrderNumberOfManyDigits: what may be a card stands in no address, and is found all the same.
func TestK4OrderNumberOfManyDigits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := recordOf(failedID)
	r.Created, r.Reference = s.Now.Add(-time.Minute), "202703010001"
	s.add(journal.Answered, r, stepOf("areq", r.Created))
	s.want(s.get("viewer", "/authentications?q=202703010001"), 400, "finds order numbers of 12 to 19 digits, too")
	s.want(s.post("viewer", "/authentications/search", url.Values{"card": {"202703010001"}}), 200, failedID, "202703010001")
	if body := s.get("admin", "/audit").Body.String(); strings.Contains(body, "202703010001") {
		t.Error("the number is in the audit trail")
	}
}

// TestK4TimesHaveZoneAndYear: also where a phone shows no head of the table, and for what is of another year.
func TestK4TimesHaveZoneAndYear(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(s.get("viewer", "/authentications"), 200, "times in UTC", ">1 Mar 11:30:00<")
	s.want(s.get("admin", "/audit"), 200, "times in UTC")
	s.want(s.get("viewer", "/webhooks/"+hookID), 200, "times in UTC")
	s.Now = s.Now.AddDate(1, 0, 0)
	s.want(s.get("viewer", "/authentications?time=all"), 200, ">1 Mar 2027 11:30:00<")
}

// TestK4RefusedRequestHasNoAmount: the code of a currency alone is not shown as an amount, and the
// title says what it is.
func TestK4RefusedRequestHasNoAmount(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add(journal.Refused, journal.Record{
		ID: failedID, Created: s.Now.Add(-time.Minute), API: "authentications", Merchant: shop, Status: "refused", ErrorCode: "invalid", Currency: "208",
	}, stepOf("request", s.Now.Add(-time.Minute)))
	if body := s.get("viewer", "/authentications").Body.String(); strings.Contains(body, ">208<") {
		t.Error("the currency is shown as an amount")
	}
	s.want(s.get("viewer", "/authentications/"+failedID), 200, "<title>Refused request · threeds</title>")
	s.want(s.get("viewer", "/authentications/"+passedID), 200, "<title>Authentication, 129.00 EUR, Visa · threeds</title>")
}

// TestK3LinksKeepTheTime: a row of the overview leads to what it counts.
func TestK3LinksKeepTheTime(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Now = s.Now.AddDate(0, 0, 20)
	s.want(s.get("viewer", "/?time=30d"), 200, `href="/authentications?scheme=visa&amp;time=30d"`, `href="/reports?time=30d"`)
}

// TestK5ReportsSpeakForPeople: rows have the names of schemes, and the meanings of reasons.
func TestK5ReportsSpeakForPeople(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := recordOf(failedID)
	r.Created, r.TransStatus, r.TransStatusReason = s.Now.Add(-time.Minute), "N", "01"
	s.add(journal.Answered, r, stepOf("areq", r.Created), stepOf("ares", r.Created))
	s.want(s.get("viewer", "/reports?time=all"), 200, `<th scope="row">Visa</th>`)
	s.want(s.get("viewer", "/reports?by=reason&time=all"), 200, `<th scope="row">01: card authentication failed</th>`)
}

// TestK6RemovalSaysThatKeysStay: the page promises no more than the server does.
func TestK6RemovalSaysThatKeysStay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.post("operator", "/merchants", url.Values{"name": {"Fjord Audio"}})
	s.want(s.get("operator", "/merchants/Fjord%20Audio"), 200, "Its keys stay good", `href="/keys?name=Fjord%20Audio"`)
}

// TestK6NamesMayHaveAnyCharacter: each link and form of a merchant leads to it.
func TestK6NamesMayHaveAnyCharacter(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{"A/B", "50% off", "C#", "What?", `Q"uote's`, "%41", "Käse & Öl", "本屋", strings.Repeat("long ", 7) + "name"} {
		w := s.post("operator", "/merchants", url.Values{"name": {name}})
		if w.Code != 303 {
			t.Errorf("%q: %d", name, w.Code)
			continue
		}
		s.want(s.get("operator", w.Header().Get("Location")), 200)
		list := s.get("operator", "/merchants").Body.String()
		found := false
		for _, link := range regexp.MustCompile(`href="(/merchants/[^"]+)"`).FindAllStringSubmatch(list, -1) {
			page := s.get("operator", htmlText(link[1])).Body.String()
			form := regexp.MustCompile(`action="(/merchants/[^"]+)"`).FindStringSubmatch(page)
			version := regexp.MustCompile(`name="version" value="([^"]*)"`).FindStringSubmatch(page)
			if form == nil || htmlText(form[1]) != w.Header().Get("Location") {
				continue
			}
			found = true
			if w := s.post("operator", htmlText(form[1]), url.Values{"do": {"remove"}, "version": {version[1]}}); w.Code != 303 {
				t.Errorf("%q is not removed: %d", name, w.Code)
			}
		}
		if !found {
			t.Errorf("%q: no link of the list leads to it", name)
		}
	}
}

func htmlText(attribute string) string {
	return strings.NewReplacer("&#34;", `"`, "&#39;", "'", "&amp;", "&", "&#43;", "+").Replace(attribute)
}

// TestK6StrictStaysChosen: a form with a fault keeps all that was chosen.
func TestK6StrictStaysChosen(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(s.post("operator", "/keys", url.Values{"merchant": {otherShop}, "allow": {"everywhere"}, "strict": {"1"}}), 400,
		`name="strict" value="1" checked`, `<option value="Other Shop" selected>`)
}

// TestK9SecondSecretIsNotMadeByAccident: a form that is sent twice leaves the secret good that the back end has.
func TestK9SecondSecretIsNotMadeByAccident(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	at := "/webhooks/" + hookID
	digits := func(text string) string { return strings.Trim(text, `abcdefghijklmnopqrstuvwxyz="< `) }
	until := func(body string) string {
		return strings.Join(regexp.MustCompile(`name="until" value="[^"]*"`).FindAllString(body, 1), "")
	}
	old := until(s.get("operator", at).Body.String())
	w := s.post("operator", at, url.Values{"do": {"rotate"}, "until": {digits(old)}})
	s.want(w, 200, "whsec_")
	again := s.post("operator", at, url.Values{"do": {"rotate"}, "until": {digits(old)}})
	s.want(again, 400, "A new secret was made after this page was loaded")
	if strings.Contains(again.Body.String(), "whsec_") {
		t.Error("a second secret was made")
	}
	s.want(s.post("operator", at, url.Values{"do": {"rotate"}, "until": {digits(until(again.Body.String()))}}), 200, "whsec_")
}

// TestD142OldFormIsNotAMatterOfRights: the page says that the form is old, and what to do.
func TestD142OldFormIsNotAMatterOfRights(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := httptest.NewRequest(http.MethodPost, "/keys", strings.NewReader("csrf=of-another-session&merchant=x"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := s.serve("operator", r)
	s.want(w, 403, "The form is too old", "load the page again")
	if strings.Contains(w.Body.String(), "You may not do this") {
		t.Error("the page blames the role")
	}
}

// TestN4ConsoleAdvisesAsTheAPI: the page of a failed authentication shows the same next step as the API: both take it
// from the record, whether its messages are kept or not.
func TestN4ConsoleAdvisesAsTheAPI(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{"305": "Do not authorise", "405": "Retry later"} {
		s := newSite(t)
		s.addFailed(code, journal.RelayedErro+code+" threeDSCompInd")
		d, err := s.Journal.Show(t.Context(), failedID)
		must(t, err)
		o := d.Outcome(nil)
		if o == nil || o.Error == nil {
			t.Fatalf("%s: the outcome of the record is %+v, want one with the error", code, o)
		}
		s.want(s.get("viewer", "/authentications/"+failedID), 200, want, o.Next.Because, o.Error.Detail)
		must(t, s.Journal.ExpireMessages(t.Context(), s.Now.AddDate(0, 0, 2)))
		s.want(s.get("viewer", "/authentications/"+failedID), 200, want, o.Next.Because, o.Error.Detail)
	}
}
