package pages_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/edge/pages/consoletest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// newFourEyes returns a console in which a second person has to allow erasures and tokens.
func newFourEyes(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.Admin.FourEyes = func() []string { return []string{"erase", "tokens"} }
	must(t, s.Admin.Operators.AddUser(t.Context(), &operator.User{Name: "kim", Role: operator.Admin}))
	return s
}

// waiting returns the address of the only act that waits, and the page that a person sees.
func (s *site) waiting(name string) (at, page string) {
	s.Helper()
	page = s.get(name, "/approvals").Body.String()
	all := regexp.MustCompile(`action="(/approvals/[^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(all) != 1 {
		s.Fatalf("%d acts wait: %s", len(all), page)
	}
	return all[0][1], page
}

// TestFourEyesOnAnErasure: what one person has asked for is done when another one has allowed it, once, by who has
// asked, and as it was asked. The trail has all three, and the card number is nowhere.
func TestFourEyesOnAnErasure(t *testing.T) {
	t.Parallel()
	s := newFourEyes(t)
	before := s.authentications(journal.Query{Card: card})
	asked := s.postAs(person("jo", "journal erase", "card"), "/erase", url.Values{"do": {"erase"}, "card": {card}})
	if asked.Code != 303 || asked.Header().Get("Location") != "/approvals" {
		t.Fatalf("ask: %d %s", asked.Code, asked.Body)
	}
	at, page := s.waiting("admin")
	if hasCard(page) || !strings.Contains(page, "Erase for good: card") || !strings.Contains(page, "Asked by passkey:jo") ||
		!strings.Contains(page, `value="allow"`) || strings.Contains(page, `value="carry"`) {
		t.Errorf("the page of another admin: %s", page)
	}
	rows, err := s.DB.Objects(t.Context(), store.ApprovalObjects)
	must(t, err)
	if len(rows) != 1 || hasCard(string(rows[0].Data)) {
		t.Errorf("the store has %d rows, or one with the card in clear", len(rows))
	}
	if !strings.Contains(page, "card: ending in 0103") {
		t.Errorf("the page does not say which card: %s", page)
	}
	waits, err := s.Admin.Operators.Approvals(t.Context())
	must(t, err)
	if _, err := (&operator.Session{Key: []byte("key of another login of passkey:jo")}).Open(waits[0].Card); err == nil || hasCard(waits[0].Form.Encode()) {
		t.Errorf("another login reads the card: %v, %v", err, waits[0].Form)
	}
	const what = "journal erase: card"
	carry, allow := url.Values{"do": {"carry"}}, url.Values{"do": {"allow"}}
	operatorOnly := person("vera", "approval allow", what)
	operatorOnly.Role = operator.Operator
	for _, try := range []struct {
		name string
		by   operator.Actor
		form url.Values
		want int
	}{
		{"who has asked allows it", person("jo", "approval allow", what), allow, 403},
		{"who has asked carries it out", person("jo", "", ""), carry, 409},
		{"another person carries it out", person("kim", "", ""), carry, 404},
		{"a role that may not erase allows it", operatorOnly, allow, 403},
	} {
		if w := s.postAs(try.by, at, try.form); w.Code != try.want {
			t.Errorf("%s: %d, want %d", try.name, w.Code, try.want)
		}
	}
	if w := s.postAs(person("kim", "approval allow", what), at, allow); w.Code != 303 {
		t.Fatalf("allow: %d %s", w.Code, w.Body)
	}
	if w := s.postAs(person("kim", "", ""), at, carry); w.Code != 404 {
		t.Errorf("who has allowed it carries it out: %d", w.Code)
	}
	if n := s.authentications(journal.Query{Card: card}); n != before {
		t.Fatalf("%d authentications are left of %d before it was carried out", n, before)
	}
	if w := s.postAs(person("jo", "", ""), at, carry); w.Code != 200 || !strings.Contains(w.Body.String(), ">Erased<") {
		t.Errorf("carry out: %d %s", w.Code, w.Body)
	}
	if n := s.authentications(journal.Query{Card: card}); n != 0 {
		t.Errorf("%d authentications are left", n)
	}
	if w := s.postAs(person("jo", "", ""), at, carry); w.Code != 404 {
		t.Errorf("a second time: %d", w.Code)
	}
	trail, err := s.Admin.Operators.Search(t.Context(), operator.Query{Limit: 9})
	must(t, err)
	var done []string
	for _, e := range trail {
		done = append(done, e.Action+" "+e.Who+" "+e.Confirmed+" "+e.AllowedBy)
	}
	if got, want := strings.Join(done, ", "),
		"journal.erase passkey:jo passkey passkey:kim, approval.allow passkey:kim passkey , approval.ask passkey:jo passkey "; got != want {
		t.Errorf("the trail has %s, want %s", got, want)
	}
}

// TestFourEyesInAnotherLogin: another login of the person who has asked cannot read the card number. It says so, and the
// act goes on waiting for the login that can. An act without a card number is carried out in any login of the person.
func TestFourEyesInAnotherLogin(t *testing.T) {
	t.Parallel()
	s := newFourEyes(t)
	s.postIn("first", person("jo", "journal erase", "card"), "/erase", url.Values{"do": {"erase"}, "card": {card}})
	at, _ := s.waiting("admin")
	carry := url.Values{"do": {"carry"}}
	if w := s.postAs(person("kim", "approval allow", "journal erase: card"), at, url.Values{"do": {"allow"}}); w.Code != 303 {
		t.Fatalf("allow: %d", w.Code)
	}
	second := s.serveAs("second", person("jo", "", ""), httptest.NewRequest(http.MethodGet, "/approvals", nil)).Body.String()
	if !strings.Contains(second, "Only the login that has asked for this") || strings.Contains(second, `value="carry"`) {
		t.Errorf("the page in the second login: %s", second)
	}
	if w := s.postIn("second", person("jo", "", ""), at, carry); w.Code != 409 || !strings.Contains(w.Body.String(), "it still waits") {
		t.Errorf("carry out in the second login: %d %s", w.Code, w.Body)
	}
	if w := s.postIn("first", person("jo", "", ""), at, carry); w.Code != 200 || s.authentications(journal.Query{Card: card}) != 0 {
		t.Errorf("carry out in the first login: %d %s", w.Code, w.Body)
	}
	s.postIn("first", person("jo", "token create", "new"), "/tokens", url.Values{"name": {"new"}, "role": {"viewer"}})
	at, _ = s.waiting("admin")
	s.postAs(person("kim", "approval allow", "token create: new"), at, url.Values{"do": {"allow"}})
	if w := s.postIn("second", person("jo", "", ""), at, carry); w.Code != 200 {
		t.Errorf("carry out without a card number: %d %s", w.Code, w.Body)
	}
}

// TestFourEyesKnowPeopleByIdentity: a person who gets the name of the one who has asked, or of the one who has allowed,
// stands for neither.
func TestFourEyesKnowPeopleByIdentity(t *testing.T) {
	t.Parallel()
	s := newFourEyes(t)
	jo := operator.User{Name: "jo", Role: operator.Admin}
	replace := func(u operator.User) {
		t.Helper()
		if err := s.Admin.Operators.RemoveUser(t.Context(), u.Name); !errors.Is(err, operator.ErrNoUser) {
			must(t, err)
		}
		must(t, s.Admin.Operators.AddUser(t.Context(), &u))
	}
	ask := func() (at string) {
		s.postAs(person("jo", "token create", "new"), "/tokens", url.Values{"name": {"new"}, "role": {"viewer"}})
		at, _ = s.waiting("admin")
		return at
	}
	allow := func(name, at string) int {
		return s.postAs(person(name, "approval allow", "token create: new"), at, url.Values{"do": {"allow"}}).Code
	}
	carry, refuse := url.Values{"do": {"carry"}}, url.Values{"do": {"refuse"}}
	replace(jo)
	at := ask()
	replace(jo)
	if code := allow("jo", at); code != 403 {
		t.Errorf("a new person of the same name allows it: %d", code)
	}
	if code := allow("kim", at); code != 303 {
		t.Fatalf("allow: %d", code)
	}
	if w := s.postAs(person("jo", "", ""), at, carry); w.Code != 404 {
		t.Errorf("a new person of the same name carries it out: %d %s", w.Code, w.Body)
	}
	s.postAs(person("kim", "", ""), at, refuse)
	at = ask()
	allow("kim", at)
	replace(operator.User{Name: "kim", Role: operator.Admin})
	if w := s.postAs(person("jo", "", ""), at, carry); w.Code != 409 {
		t.Errorf("allowed by a person whose name another one has: %d %s", w.Code, w.Body)
	}
}

// TestFourEyesEndAndAreRefused: an act waits for an hour. Who has asked withdraws it, another person refuses it. A
// secret is shown to who has asked.
func TestFourEyesEndAndAreRefused(t *testing.T) {
	t.Parallel()
	s := newFourEyes(t)
	ask := func() (at string) {
		s.postAs(person("jo", "token create", "new"), "/tokens", url.Values{"name": {"new"}, "role": {"viewer"}})
		at, page := s.waiting("admin")
		if !strings.Contains(page, "name: new; role: viewer") {
			t.Errorf("the page does not say what is asked for: %s", page)
		}
		return at
	}
	allow := func(at string) int {
		return s.postAs(person("kim", "approval allow", "token create: new"), at, url.Values{"do": {"allow"}}).Code
	}
	for _, by := range []string{"jo", "kim"} {
		if w := s.postAs(person(by, "", ""), ask(), url.Values{"do": {"refuse"}}); w.Code != 303 {
			t.Errorf("%s refuses: %d", by, w.Code)
		}
	}
	late := ask()
	s.Now = s.Now.Add(time.Hour)
	if code := allow(late); code != 404 {
		t.Errorf("after an hour: %d", code)
	}
	at := ask()
	if code := allow(at); code != 303 {
		t.Errorf("allow: %d", code)
	}
	if w := s.postAs(person("jo", "", ""), at, url.Values{"do": {"carry"}}); w.Code != 200 || !strings.Contains(w.Body.String(), "threeds-admin-") {
		t.Errorf("carry out: %d %s", w.Code, w.Body)
	}
}

// TestFourEyesOfOnePersonHaveANumber: twenty acts of a person wait. The next one is refused until one of them is
// withdrawn; another person may ask.
func TestFourEyesOfOnePersonHaveANumber(t *testing.T) {
	t.Parallel()
	s := newFourEyes(t)
	ask := func(who string, n int) *httptest.ResponseRecorder {
		name := "token" + strconv.Itoa(n)
		return s.postAs(person(who, "token create", name), "/tokens", url.Values{"name": {name}, "role": {"viewer"}})
	}
	for n := range 20 {
		if w := ask("jo", n); w.Code != 303 {
			t.Fatalf("act %d: %d %s", n, w.Code, w.Body)
		}
	}
	if w := ask("jo", 20); w.Code != 409 || !strings.Contains(w.Body.String(), "20 acts that you have asked for wait") {
		t.Errorf("act 20: %d %s", w.Code, w.Body)
	}
	if w := ask("kim", 20); w.Code != 303 {
		t.Errorf("another person: %d %s", w.Code, w.Body)
	}
	trail, err := s.Admin.Operators.Search(t.Context(), operator.Query{Who: "passkey:jo", Action: "approval.ask"})
	must(t, err)
	if len(trail) != 20 {
		t.Errorf("the audit trail has %d entries of who has asked, want 20", len(trail))
	}
	waiting, err := s.Admin.Operators.Approvals(t.Context())
	must(t, err)
	own := slices.IndexFunc(waiting, func(w operator.Approval) bool { return w.AskedBy == "passkey:jo" })
	if w := s.postAs(person("jo", "", ""), "/approvals/"+waiting[own].ID, url.Values{"do": {"refuse"}}); w.Code != 303 {
		t.Errorf("withdraw: %d", w.Code)
	}
	if w := ask("jo", 21); w.Code != 303 {
		t.Errorf("after one was withdrawn: %d %s", w.Code, w.Body)
	}
}

// TestFourEyesSeeWhatIsDone: the page says what the act reads of the form, and nothing of what it does not read.
func TestFourEyesSeeWhatIsDone(t *testing.T) {
	t.Parallel()
	s := newFourEyes(t)
	s.postAs(person("jo", "token create", "ci2"), "/tokens", url.Values{
		"name": {"ci2"}, "role": {"admin"}, "merchant": {"", shop}, "Expires": {"2027-04-02"}})
	if _, page := s.waiting("admin"); !strings.Contains(page, "name: ci2; role: admin; for all merchants<") || strings.Contains(page, shop) ||
		strings.Contains(page, "2027-04-02") {
		t.Errorf("the page of the second person: %s", page)
	}
}

// TestFourEyesAreToldWhatFormsMean: a form cannot say of itself what its act does not read, nor hide behind blanks that
// it is for all merchants.
func TestFourEyesAreToldWhatFormsMean(t *testing.T) {
	t.Parallel()
	s := newFourEyes(t)
	s.Admin.FourEyes = ops.Groups
	must(t, s.Admin.Operators.AddUser(t.Context(), &operator.User{Name: "pat", Role: operator.Viewer, Group: "acme"}))
	for _, c := range []struct {
		name, act, object, at string
		form                  url.Values
		want                  string
	}{
		{"a group of blanks", "operator invite", "eve", "/operators",
			url.Values{"name": {"eve"}, "role": {"admin"}, "group": {" "}},
			"<p class=\"wrap\">name: eve; role: admin; for all merchants</p>"},
		{"a merchant that a change of the role does not read", "operator role", "pat", "/operators/pat",
			url.Values{"do": {"role"}, "role": {"admin"}, "group": {""}, "merchant": {shop}},
			"<p class=\"wrap\">role: admin; for all merchants</p>"},
		{"no group", "operator role", "pat", "/operators/pat",
			url.Values{"do": {"role"}, "role": {"operator"}}, "<p class=\"wrap\">role: operator; group: unchanged</p>"},
		{"another group", "operator role", "pat", "/operators/pat",
			url.Values{"do": {"role"}, "role": {"operator"}, "group": {" quagga "}},
			"<p class=\"wrap\">group: quagga; role: operator</p>"},
		{"a reason that an invitation does not read", "operator invite", "eve", "/operators",
			url.Values{"name": {"eve"}, "role": {"viewer"}, "reason": {"for the group acme"}},
			"<p class=\"wrap\">name: eve; role: viewer; for all merchants</p>"},
		{"a name that a removal does not read", "operator remove", "pat", "/operators/pat",
			url.Values{"do": {"remove"}, "name": {"kim"}, "role": {"viewer"}}, ": pat</h2><p class=\"muted wrap\">Asked by"},
	} {
		s.postAs(person("jo", c.act, c.object), c.at, c.form)
		at, page := s.waiting("admin")
		if !strings.Contains(page, c.want) {
			t.Errorf("%s: the second person is not told %q: %s", c.name, c.want, page)
		}
		s.postAs(person("jo", "", ""), at, url.Values{"do": {"refuse"}})
	}
}

// TestFourEyesEndWithWhoHasAllowed: what was allowed by a person who may not do so any more is not carried out.
func TestFourEyesEndWithWhoHasAllowed(t *testing.T) {
	t.Parallel()
	s := newFourEyes(t)
	s.postAs(person("jo", "token create", "new"), "/tokens", url.Values{"name": {"new"}, "role": {"viewer"}})
	at, _ := s.waiting("admin")
	if w := s.postAs(person("kim", "approval allow", "token create: new"), at, url.Values{"do": {"allow"}}); w.Code != 303 {
		t.Fatalf("allow: %d", w.Code)
	}
	must(t, s.Admin.Operators.RemoveUser(t.Context(), "kim"))
	if w := s.postAs(person("jo", "", ""), at, url.Values{"do": {"carry"}}); w.Code != 409 {
		t.Errorf("carry out: %d, want 409", w.Code)
	}
}

// TestFourEyesEndWithRightsOfWhoHasAllowed: who has allowed an act and sees one merchant by now could not allow it any
// more, for people of one merchant see nothing of what waits.
func TestFourEyesEndWithRightsOfWhoHasAllowed(t *testing.T) {
	t.Parallel()
	s := newFourEyes(t)
	s.Admin.FourEyes = func() []string { return []string{"keys"} }
	cli := operator.Actor{Who: "cli:test", Role: operator.Admin}
	made, err := s.Admin.CreateKey(t.Context(), cli, api.NewKey{Merchant: otherShop})
	must(t, err)
	object := otherShop + ": " + made.Hash
	s.postAs(person("jo", "key revoke", object), "/keys/"+made.Hash+"/revoke", url.Values{})
	at, _ := s.waiting("admin")
	if w := s.postAs(person("kim", "approval allow", "key revoke: "+object), at, url.Values{"do": {"allow"}}); w.Code != 303 {
		t.Fatalf("allow: %d %s", w.Code, w.Body)
	}
	_, _, err = s.Admin.Operators.ChangeUser(t.Context(), "kim", func(u *operator.User) error { u.Merchant = shop; return nil })
	must(t, err)
	if w := s.postAs(person("jo", "", ""), at, url.Values{"do": {"carry"}}); w.Code != 409 {
		t.Errorf("carry out: %d, want 409", w.Code)
	}
}

// TestFourEyesAreForWhatTheyHaveSeen: consent to end one thing is none to end another one that has its name by then.
func TestFourEyesAreForWhatTheyHaveSeen(t *testing.T) {
	t.Parallel()
	const name = "case 17"
	for act, c := range map[string]struct {
		at     string
		form   url.Values
		id     string
		begin  func(s *site, reason string) error
		isOver func(s *site) bool
	}{
		"merchant enable": {"/merchants/" + url.PathEscape(shop), url.Values{"do": {"enable"}}, shop, func(s *site, reason string) error {
			_, err := s.Admin.DisableMerchant(t.Context(), cli, shop, reason)
			return err
		}, func(s *site) bool {
			e, err := s.Admin.Merchant(t.Context(), cli, shop)
			must(t, err)
			return e.Disabled == nil
		}},
		"journal hold lift": {"/holds/case%2017/lift", url.Values{}, name, func(s *site, reason string) error {
			_, err := s.Admin.AddHold(t.Context(), cli, api.HoldRequest{Name: name, Merchant: shop, Reason: reason})
			return err
		}, func(s *site) bool {
			list, err := s.Admin.Holds(t.Context(), cli)
			must(t, err)
			return len(list.Data) == 0
		}},
	} {
		for _, isAnother := range []bool{false, true} {
			s := newFourEyes(t)
			s.Admin.FourEyes = ops.Groups
			must(t, c.begin(s, "a mistake of ours"))
			_, err := ops.Find(act).Do(s.Admin.Acts, t.Context(), person("jo", "", ""), c.id)
			wanted, ok := errors.AsType[*ops.ConfirmError](err)
			if !ok || !strings.Contains(wanted.Object, "a mistake of ours") {
				t.Fatalf("%s: who confirms it is not told what ends: %v", act, err)
			}
			s.postAs(person("jo", act, wanted.Object), c.at, c.form)
			at, page := s.waiting("admin")
			if !strings.Contains(page, "a mistake of ours") {
				t.Errorf("%s: the second person is not told what ends: %s", act, page)
			}
			if w := s.postAs(person("kim", "approval allow", act+": "+wanted.Object), at, url.Values{"do": {"allow"}}); w.Code != 303 {
				t.Fatalf("%s: allow: %d", act, w.Code)
			}
			if isAnother {
				s.Admin.IsCommandLine = true
				_, err = ops.Find(act).Do(s.Admin.Acts, t.Context(), cli, c.id)
				must(t, err)
				s.Admin.IsCommandLine = false
				s.Now = s.Now.Add(time.Minute)
				must(t, c.begin(s, "fraud"))
			}
			s.postAs(person("jo", "", ""), at, url.Values{"do": {"carry"}})
			if c.isOver(s) == isAnother {
				t.Errorf("%s, of another one: %t; it is over: %t", act, isAnother, !isAnother)
			}
		}
	}
}

// TestCertificateForATimeIsConfirmedAtOnce: a certificate that comes into use by itself later is a dangerous act when
// it is installed. One that waits for a person is none.
func TestCertificateForATimeIsConfirmedAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.AddNode().Directories[0].Managed = true
	ca := consoletest.NewCA(s.Site)
	var asked []operator.Intent
	s.Pages.Confirm = func(_ http.ResponseWriter, _ *http.Request, _ string, what operator.Intent) {
		asked = append(asked, what)
	}
	w := s.Post("operator", "/certificates/visa", url.Values{"do": {"request"}, "key": {"p256"}, "subject": {"CN=3dss.example"}})
	file := ca.Sign(s.Site, s.Get("operator", w.Header().Get("Location")).Body.String())
	s.postAs(person("jo", "", ""), "/certificates/visa", url.Values{"do": {"install"}, "certificate": {file}, "at": {"2027-03-01T12:01"}})
	if len(asked) != 1 || asked[0].Act != "cert activate" || !strings.Contains(asked[0].Object, ", SHA-256 ") {
		t.Errorf("with a time, %+v is asked", asked)
	}
	s.postAs(person("jo", "", ""), "/certificates/visa", url.Values{"do": {"install"}, "certificate": {file}})
	if len(asked) != 1 {
		t.Errorf("without a time, %+v is asked", asked[1:])
	}
}

// TestFourEyesAreNotForTokens: a token cannot ask, so the act is refused with where it is done. A command does it.
func TestFourEyesAreNotForTokens(t *testing.T) {
	t.Parallel()
	s := newFourEyes(t)
	token := operator.Actor{Who: "token:ci", Role: operator.Admin}
	_, err := s.Admin.EraseJournal(t.Context(), token, "", shop)
	if err == nil || !strings.Contains(err.Error(), "console.four_eyes has erase") {
		t.Errorf("by a token: %v", err)
	}
	if _, err := ops.Find("merchant enable").Do(s.Admin.Acts, t.Context(), token, shop); err == nil || strings.Contains(err.Error(), "four_eyes") {
		t.Errorf("an act that is not named: %v", err)
	}
	s.Admin.IsCommandLine = true
	if _, err := s.Admin.EraseJournal(t.Context(), operator.Actor{Who: "cli:root", Role: operator.Admin}, "", shop); err != nil {
		t.Errorf("by a command: %v", err)
	}
}
