package pages_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/state/store"
)

// end notes how the latest attempt at the shop's event ended. Another one follows at next; zero means none.
func (s *site) end(status int, fault string, next time.Time) {
	s.Helper()
	must(s.TB, s.DB.EndDelivery(s.Context(), store.Delivery{
		Event: s.Events[shop], Endpoint: hookID, Attempt: 1, Last: s.Now, Due: next, Status: status, Error: fault,
	}))
}

// TestK9SecretIsShownOnce: in the answer that makes it, and on no page after that.
func TestK9SecretIsShownOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	secret := regexp.MustCompile(`id="secret"[^>]*>([^<]+)</pre>`)
	form := url.Values{"merchant": {shop}, "url": {"https://new.shop.example/hooks"}, "description": {"till 4"}, "type": {
		string(api.EventFailed), string(api.EventExpired)}}
	w := s.post("own-operator", "/webhooks", form)
	first := secret.FindStringSubmatch(w.Body.String())
	if w.Code != 200 || first == nil {
		t.Fatalf("no secret: %d %s", w.Code, w.Body)
	}
	list := s.get("admin", "/webhooks").Body.String()
	at := regexp.MustCompile(`href="(/webhooks/[^"]+)">https://new`).FindStringSubmatch(list)
	if at == nil || !strings.Contains(list, "failed, expired") || !strings.Contains(list, "till 4") {
		t.Fatalf("the list is %s", list)
	}
	w = s.post("operator", at[1], url.Values{"do": {"rotate"}})
	second := secret.FindStringSubmatch(w.Body.String())
	if w.Code != 200 || second == nil || second[1] == first[1] {
		t.Fatalf("no new secret: %d", w.Code)
	}
	s.want(s.get("viewer", at[1]), 200, "the former secret signs as well")
	for _, page := range []string{"/webhooks", at[1], "/audit"} {
		if body := s.get("admin", page).Body.String(); strings.Contains(body, "whsec_") {
			t.Errorf("%s has a secret", page)
		}
	}
	s.want(s.post("operator", "/webhooks", url.Values{"merchant": {shop}, "url": {"http://192.0.2.1/"}, "type": {string(api.EventFailed)}}), 400,
		`role="alert"`, `value="http://192.0.2.1/"`)
	s.want(s.post("operator", "/webhooks", url.Values{"merchant": {shop}, "url": {"https://shop.example/"}}), 400, "at least one kind")
	s.want(s.post("own-operator", "/webhooks", url.Values{"merchant": {otherShop}, "url": {"https://shop.example/"}, "type": {string(api.EventFailed)}}), 404)
	s.checkTrail("webhook.create", "passkey:own-operator")
	s.checkTrail("webhook.rotate", "passkey:operator")
}

// TestK9EndpointIsChanged: its form, its test, disabled and enabled, and removed.
func TestK9EndpointIsChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	status := http.StatusOK
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer receiver.Close()
	at := "/webhooks/" + hookID
	if w := s.post("operator", at, url.Values{
		"do": {"change"}, "url": {receiver.URL}, "description": {"till 9"}, "type": {string(api.EventFailed)},
	}); w.Code != 303 {
		t.Errorf("change: %d %s", w.Code, w.Body)
	}
	s.want(s.get("viewer", at), 200, "till 9", receiver.URL)
	s.want(s.post("operator", at, url.Values{"do": {"test"}}), 200, "answered with HTTP 200")
	status = http.StatusGone
	s.want(s.post("operator", at, url.Values{"do": {"test"}}), 200, "not delivered: answered with status 410")
	s.want(s.post("operator", at, url.Values{"do": {"change"}, "url": {"ftp://x"}, "type": {string(api.EventFailed)}}), 400, `value="ftp://x"`, `role="alert"`)
	for _, do := range []string{"disable", "enable", "remove"} {
		if w := s.post("own-operator", at, url.Values{"do": {do}}); w.Code != 303 {
			t.Errorf("%s: %d", do, w.Code)
		}
		if do == "disable" {
			s.want(s.get("operator", at), 200, "Disabled", `value="enable"`)
		}
		if do == "enable" {
			s.want(s.get("operator", at), 200, "Active", `value="disable"`)
		}
	}
	s.want(s.get("operator", at), 404)
	s.want(s.get("operator", "/webhooks/"+foreignHookID), 200)
	s.checkTrail("webhook.remove", "passkey:own-operator")
	s.checkTrail("webhook.test", "passkey:operator")
}

// TestK9DeliveriesAndResend: each state of a delivery, and an event that is sent again.
func TestK9DeliveriesAndResend(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	at := "/webhooks/" + hookID
	s.want(s.get("own-viewer", at), 200, "On its way", passedID, "none yet")
	s.end(503, "answered with status 503", s.Now.Add(time.Minute))
	s.want(s.get("own-viewer", at), 200, "Trying again", "HTTP 503", `data-l="Next">1 Mar 12:01:00`, `data-l="Attempts">1`)
	s.end(0, "connection refused", time.Time{})
	s.want(s.get("viewer", at), 200, "Given up", "connection refused", `data-l="Next">none`)
	s.end(204, "", time.Time{})
	s.want(s.get("viewer", at), 200, "Delivered", "HTTP 204")
	if body := s.get("viewer", at).Body.String(); strings.Contains(body, foreignID) || strings.Contains(body, "/resend") {
		t.Error("the page has another endpoint's event, or a form for a viewer")
	}
	for i, caller := range callers() {
		resend := func(hook, merchant string) int {
			return s.post(caller, "/webhooks/"+hook+"/events/"+s.Events[merchant]+"/resend", url.Values{}).Code
		}
		if got, want := resend(hookID, shop), [6]int{403, 303, 303, 403, 303, 303}[i]; got != want {
			t.Errorf("resend as %s: %d, want %d", caller, got, want)
		}
		if got, want := resend(foreignHookID, otherShop), [6]int{403, 303, 303, 403, 404, 404}[i]; got != want {
			t.Errorf("resend another's as %s: %d, want %d", caller, got, want)
		}
	}
	s.want(s.get("viewer", at), 200, "On its way")
	s.checkTrail("webhook.resend", "passkey:own-admin")
	s.end(0, "connection refused", time.Time{})
	since := url.Values{"do": {"resend"}, "from": {"2027-03-01"}}
	s.want(s.post("own-operator", at, since), 200, "1 event is sent again now", `value="2027-03-01"`)
	s.want(s.post("operator", at, since), 200, "0 events are sent again now")
	since.Set("all", "1")
	s.end(204, "", time.Time{})
	s.want(s.post("operator", at, since), 200, "1 event is sent again now")
	since.Set("from", "yesterday")
	s.want(s.post("operator", at, since), 400, `role="alert"`, `value="yesterday"`)
	s.want(s.post("viewer", at, since), 403)
	s.checkTrail("webhook.redeliver", "passkey:own-operator")
	s.want(s.get("viewer", at+"?cursor=x"), 400, `role="alert"`)
}

// TestK2ForeignEndpointIsUnknown: the page of another merchant's is, byte for byte, that of one that never was.
func TestK2ForeignEndpointIsUnknown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if foreign, unknown := s.get("own-admin", "/webhooks/"+foreignHookID), s.get("own-admin", "/webhooks/ep_0"); withoutToken(foreign) != withoutToken(unknown) {
		t.Errorf("the pages differ:\n%s\n%s", foreign.Body, unknown.Body)
	}
	for _, do := range []string{"change", "test", "rotate", "disable", "remove"} {
		form := url.Values{"do": {do}, "url": {"https://shop.example/"}, "type": {string(api.EventFailed)}}
		foreign, unknown := s.post("own-admin", "/webhooks/"+foreignHookID, form), s.post("own-admin", "/webhooks/ep_0", form)
		if foreign.Code != 404 || withoutToken(foreign) != withoutToken(unknown) {
			t.Errorf("%s: %d %s", do, foreign.Code, foreign.Body)
		}
	}
	if body := s.get("own-admin", "/webhooks").Body.String(); strings.Contains(body, "2.shop.example") || !strings.Contains(body, "1.shop.example") {
		t.Error("the list has another merchant's endpoint, or not their own")
	}
	s.want(s.get("operator", "/webhooks/"+foreignHookID), 200, "Active", "2.shop.example")
}
