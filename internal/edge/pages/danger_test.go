package pages_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/edge/pages/consoletest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/state/account"
)

// A dangerousForm is the form of a dangerous act.
type dangerousForm struct {
	at, object string
	form       url.Values
}

// isOf reports whether an object is that of the form. Of some more is shown than a name.
func (f *dangerousForm) isOf(object string) bool {
	return object == f.object || strings.HasPrefix(object, f.object+", ")
}

// dangerousForms prepares a console for all of its dangerous acts, and returns the form of each.
func dangerousForms(s *site) map[string]dangerousForm {
	s.Helper()
	for _, name := range []string{"kim", "vera"} {
		must(s, s.Admin.Operators.AddUser(s.Context(), &operator.User{Name: name, Role: operator.Operator}))
	}
	_, err := s.Admin.Operators.CreateToken(s.Context(), operator.Token{Name: "ci", Role: operator.Viewer})
	must(s, err)
	s.AddNode()
	ca := consoletest.NewCA(s.Site)
	for _, name := range []string{"first.example", "second.example"} {
		s.InstallCertificate(ca, name, "")
		s.want(s.post("operator", "/certificates/visa", url.Values{"do": {"activate"}}), 303)
	}
	s.InstallCertificate(ca, "third.example", "")
	_, err = s.Admin.AddHold(s.Context(), operator.Actor{Who: "cli:test", Role: operator.Admin},
		api.HoldRequest{Name: "case 17", Merchant: shop, Reason: "a dispute"})
	must(s, err)
	waits := operator.Approval{
		Intent: operator.Intent{Act: "token revoke", Object: "ci"}, AskedBy: "passkey:vera", Asker: "vera", Path: "/tokens/ci/revoke",
	}
	must(s, s.Admin.Operators.AskApproval(s.Context(), &waits))
	cli := operator.Actor{Who: "cli:test", Role: operator.Admin}
	key, err := s.Admin.CreateKey(s.Context(), cli, api.NewKey{Merchant: shop, Label: "till 4"})
	must(s, err)
	fjord, err := s.Admin.AddMerchant(s.Context(), cli, account.Merchant{Name: "Fjord"})
	must(s, err)
	_, err = s.Admin.DisableMerchant(s.Context(), cli, otherShop, "stolen keys")
	must(s, err)
	return map[string]dangerousForm{
		"approval allow":    {"/approvals/" + waits.ID, "token revoke: ci", url.Values{"do": {"allow"}}},
		"journal erase":     {"/erase", "merchant " + shop, url.Values{"do": {"erase"}, "merchant": {shop}, "proof": {shop}}},
		"journal hold lift": {"/holds/case%2017/lift", "case 17", url.Values{}},
		"token create":      {"/tokens", "new", url.Values{"name": {"new"}, "role": {"viewer"}}},
		"token revoke":      {"/tokens/ci/revoke", "ci", url.Values{}},
		"operator invite":   {"/operators", "", url.Values{"role": {"viewer"}}},
		"operator role":     {"/operators/kim", "kim", url.Values{"role": {"viewer"}}},
		"operator remove":   {"/operators/vera", "vera", url.Values{"do": {"remove"}}},
		"cert activate":     {"/certificates/visa", "visa: CN=third.example", url.Values{"do": {"activate"}}},
		"cert rollback":     {"/certificates/visa", "visa: CN=second.example", url.Values{"do": {"rollback"}}},
		"key revoke":        {"/keys/" + key.Hash + "/revoke", shop + ": " + key.Hash, url.Values{}},
		"merchant enable":   {"/merchants/" + url.PathEscape(otherShop), otherShop, url.Values{"do": {"enable"}}},
		"merchant remove":   {"/merchants/Fjord", "Fjord", url.Values{"do": {"remove"}, "version": {fjord.Version}}},
	}
}

// postAs sends a form as a person who has logged in.
func (s *site) postAs(by operator.Actor, at string, form url.Values) *httptest.ResponseRecorder {
	s.Helper()
	return s.postIn("only login", by, at, form)
}

// postIn is postAs in one of several logins of the person.
func (s *site) postIn(login string, by operator.Actor, at string, form url.Values) *httptest.ResponseRecorder {
	s.Helper()
	form.Set("csrf", consoletest.FormToken())
	r := httptest.NewRequest(http.MethodPost, at, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.serveAs(login, by, r)
}

// serveAs answers a request in a login of a person. One who is no user of the store has an identity that follows from
// the name.
func (s *site) serveAs(login string, by operator.Actor, r *http.Request) *httptest.ResponseRecorder {
	s.Helper()
	by.Identity = "identity of " + by.Who
	if u, err := s.Admin.Operators.FindWho(s.Context(), by.Who); err == nil {
		by.Identity = u.Identity()
	}
	session := &operator.Session{Actor: by, CSRF: consoletest.CSRF, Key: []byte("key of " + login + " of " + by.Who)}
	w := httptest.NewRecorder()
	s.Pages.ServeHTTP(w, r.WithContext(operator.WithSession(r.Context(), session)))
	return w
}

// person returns an admin who has logged in, and who has confirmed an act unless it is "".
func person(name, act, object string) operator.Actor {
	by := actor("admin")
	by.Who, by.IsPerson = "passkey:"+name, true
	if act != "" {
		by.Confirmed = operator.Confirmation{Intent: operator.Intent{Act: act, Object: object}, By: "passkey"}
	}
	return by
}

// TestDangerousActsAskForConfirmation: each of them is done when the person has confirmed this act on this object, and
// its entry of the audit trail says how. Without that nothing is done, and the person is asked.
func TestDangerousActsAskForConfirmation(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	forms := dangerousForms(s)
	for name := range forms {
		if ops.Find(name).Danger == "" {
			t.Errorf("%s asks for no confirmation", name)
		}
	}
	var asked []operator.Intent
	s.Pages.Confirm = func(_ http.ResponseWriter, _ *http.Request, summary string, what operator.Intent) {
		if summary == "" {
			t.Errorf("%s says nothing of what it does", what.Act)
		}
		asked = append(asked, what)
	}
	for _, act := range ops.Table() {
		if act.Danger == "" {
			continue
		}
		f, isThere := forms[act.Name]
		if !isThere {
			t.Errorf("nothing tries %q", act.Name)
			continue
		}
		for _, by := range []operator.Actor{person("jo", "", ""), person("jo", act.Name, "another"), person("jo", "key create", f.object)} {
			asked = nil
			s.postAs(by, f.at, f.form)
			if len(asked) != 1 || asked[0].Act != act.Name || !f.isOf(asked[0].Object) {
				t.Fatalf("%s, confirmed %+v: asked for %+v", act.Name, by.Confirmed, asked)
			}
		}
		object := asked[0].Object
		trail, err := s.Admin.Operators.Search(t.Context(), operator.Query{Who: "passkey:jo", Action: act.Action})
		must(t, err)
		if len(trail) != 0 {
			t.Errorf("%s was done: %+v", act.Name, trail)
		}
		w := s.postAs(person("jo", act.Name, object), f.at, f.form)
		trail, err = s.Admin.Operators.Search(t.Context(), operator.Query{Who: "passkey:jo", Action: act.Action})
		must(t, err)
		if w.Code > 303 || len(trail) != 1 || trail[0].Confirmed != "passkey" {
			t.Errorf("%s, confirmed: HTTP %d, the audit trail has %+v", act.Name, w.Code, trail)
		}
	}
}

// TestDisablingAsksNothing: a merchant is disabled by one form, also where a second person has to allow it to be
// enabled again. People of one merchant cannot ask a second person.
func TestDisablingAsksNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Admin.FourEyes = func() []string { return []string{"keys", "merchants"} }
	s.Pages.Confirm = func(_ http.ResponseWriter, _ *http.Request, _ string, what operator.Intent) {
		t.Errorf("asked for %+v", what)
	}
	at := "/merchants/" + url.PathEscape(shop)
	w := s.postAs(person("jo", "", ""), at, url.Values{"do": {"disable"}, "sure": {"1"}, "reason": {"stolen"}})
	e, err := s.Admin.Merchant(t.Context(), person("jo", "", ""), shop)
	must(t, err)
	if w.Code != 303 || e.Disabled == nil {
		t.Errorf("disable: %d %s", w.Code, w.Body)
	}
	ends := shop + ", disabled at " + e.Disabled.Since.Format(time.RFC3339) + ": stolen"
	w = s.postAs(person("jo", "merchant enable", ends), at, url.Values{"do": {"enable"}})
	if w.Header().Get("Location") != "/approvals" {
		t.Errorf("enable: %d %s", w.Code, w.Body)
	}
	key, err := s.Admin.CreateKey(t.Context(), operator.Actor{Who: "cli:test", Role: operator.Admin}, api.NewKey{Merchant: shop})
	must(t, err)
	own := person("own", "", "")
	own.Merchant = shop
	if w := s.postAs(own, "/keys/"+key.Hash+"/revoke", url.Values{}); w.Code != 403 || !strings.Contains(w.Body.String(), "people who see all merchants") {
		t.Errorf("revoke by a person of the merchant: %d %s", w.Code, w.Body)
	}
}
