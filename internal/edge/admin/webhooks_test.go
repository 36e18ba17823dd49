package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/state/store"
)

// hookSettings are those of a service that may post to this machine.
func hookSettings() webhook.Settings {
	addresses := webhook.Addresses{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
	return webhook.Settings{
		Retry: webhook.DefaultRetry(), Timeout: 20 * time.Second, DisableAfter: time.Hour, Poll: time.Minute, Addresses: addresses,
		Sender: webhook.NewSender(addresses, 20*time.Second, nil, time.Now),
	}
}

// closedAddress is an address without a listener.
const closedAddress = "http://127.0.0.1:1/hooks"

// newHook adds an endpoint of a merchant and returns its id.
func (s *site) newHook(merchant string) string {
	s.Helper()
	w := s.call("admin", "POST", "webhook-endpoints", fmt.Sprintf(`{"merchant": %q, "url": %q}`, merchant, closedAddress))
	var made struct{ ID, Secret string }
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != 201 || !strings.HasPrefix(made.Secret, "whsec_") {
		s.Fatalf("an endpoint of %s: %d %s", merchant, w.Code, w.Body)
	}
	return made.ID
}

// newEvent stores an event of a merchant for its endpoints and returns its id.
func (s *site) newEvent(merchant string) string {
	s.Helper()
	s.newHook(merchant)
	data := json.RawMessage(`{"id": "` + passedID + `", "status": "completed", "last4": "0103"}`)
	e, err := s.handler.Hooks.NewEvent(merchant, api.EventCompleted, passedID, time.Now().Add(-time.Second), data)
	if err == nil {
		err = s.db.PutEvent(s.Context(), *e)
	}
	if err != nil {
		s.Fatal(err)
	}
	return e.ID
}

// TestK9WebhooksByAPI: an endpoint from its beginning to its end. The secret is in the answer that
// makes it, and nowhere else.
func TestK9WebhooksByAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	arrived := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.Header.Get("Webhook-Signature") }))
	defer receiver.Close()
	w := s.call("own-operator", "POST", "webhook-endpoints", fmt.Sprintf(`{"url": %q, "types": ["authentication.failed"]}`, receiver.URL))
	var made struct{ ID, Secret, Merchant string }
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != 201 || made.Merchant != shop || made.Secret == "" {
		t.Fatalf("an endpoint: %d %s", w.Code, w.Body)
	}
	at := "webhook-endpoints/" + made.ID
	w = s.call("operator", "POST", at+"/rotate", "")
	var rotated struct{ Secret, PreviousUntil string }
	if err := json.Unmarshal(w.Body.Bytes(), &rotated); err != nil || rotated.Secret == made.Secret || rotated.PreviousUntil == "" {
		t.Errorf("a new secret: %d %s", w.Code, w.Body)
	}
	if w := s.call("operator", "POST", at+"/test", ""); !strings.Contains(w.Body.String(), `"delivered":true,"status":200`) {
		t.Errorf("a test: %d %s", w.Code, w.Body)
	} else if signatures := <-arrived; strings.Count(signatures, "v1,") != 2 {
		t.Errorf("signed with %q, want both secrets", signatures)
	}
	for _, test := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"PATCH", at, `{"disabled": true, "description": "till 4"}`, 200, `"disabled":true`},
		{"PATCH", at, `{"url": "http://192.0.2.1/"}`, 400, "url: "}, {"PATCH", at, `{"types": ["x"]}`, 400, "types: "},
		{"PATCH", at, `{"merchant": "Other Shop"}`, 400, "merchant: "}, {"PATCH", at, `{"secret": "whsec_x"}`, 400, "rotate"},
		{"POST", "webhook-endpoints", `{"merchant": "Nobody", "url": "https://shop.example/"}`, 400, "merchant: "},
		{"POST", "webhook-endpoints", `{"merchant": "Corner Shop"}`, 400, "url: "},
		{"PATCH", at, `{"url": 3}`, 400, `"url: want string.`},
		{"PATCH", at, `{"types": "x"}`, 400, `"types: want []string.`}, {"PATCH", at, `{"types": [3]}`, 400, "types: want string."},
		{"POST", "webhook-endpoints", `{"merchant": "Corner Shop", "url": "https://shop.example/", "secret": "x"}`, 400, "secret: "},
		{"GET", at, "", 200, `"description":"till 4"`}, {"GET", "webhook-endpoints?merchant=Corner+Shop", "", 200, made.ID},
		{"GET", "webhook-endpoints?merchant=Other+Shop", "", 200, `"data":[]`}, {"DELETE", at, "", 204, ""}, {"DELETE", at, "", 404, ""}, {"GET", at, "", 404, ""},
	} {
		if w := s.call("operator", test.method, test.path, test.body); w.Code != test.status || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s %s %s: %d %s", test.method, test.path, test.body, w.Code, w.Body)
		}
	}
	trail := s.call("admin", "GET", "audit?object="+made.ID, "").Body.String()
	for _, action := range []string{"webhook.create", "webhook.rotate", "webhook.test", "webhook.change", "webhook.remove"} {
		if strings.Count(trail, `"`+action+`"`) != 1 {
			t.Errorf("%s is not once in the audit trail: %s", action, trail)
		}
	}
	if strings.Contains(trail, made.Secret) || strings.Contains(trail, rotated.Secret) || strings.Contains(trail, "whsec_") {
		t.Error("a secret is in the audit trail")
	}
}

// TestK9EventsByAPI: events are listed with their deliveries, in pages, and one is delivered again. Access to its
// content is in the audit trail, and the list says nothing about the card.
func TestK9EventsByAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := s.newEvent(shop)
	latest := s.newHook(shop) // This endpoint was made after the first event and has the second alone.
	second := s.newEvent(shop)
	foreign := s.newEvent(otherShop)
	page := func(query string) (ids []string, next string, text string) {
		w := s.call("viewer", "GET", "events?"+query, "")
		var all struct {
			Data []struct{ ID string }
			Next string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || w.Code != 200 {
			t.Fatalf("%s: %d %s", query, w.Code, w.Body)
		}
		for _, e := range all.Data {
			ids = append(ids, e.ID)
		}
		return ids, all.Next, w.Body.String()
	}
	one, next, _ := page("merchant=Corner+Shop&limit=1")
	two, end, _ := page("merchant=Corner+Shop&limit=1&cursor=" + next)
	if all := append(one, two...); len(all) != 2 || end != "" || !strings.Contains(strings.Join(all, " "), first) ||
		!strings.Contains(strings.Join(all, " "), second) {
		t.Errorf("two pages have %v, and then %q", all, end)
	}
	all, _, text := page("merchant=Corner+Shop")
	if len(all) != 2 || strings.Contains(text, "0103") || strings.Contains(text, foreign) || !strings.Contains(text, `"attempt":0`) {
		t.Errorf("the events are %s", text)
	}
	if of, _, text := page("endpoint=" + latest); len(of) != 1 || of[0] != second || strings.Count(text, `"endpoint"`) != 1 {
		t.Errorf("of the endpoint %s: %s", latest, text)
	}
	if w := s.call("own-viewer", "GET", "events/"+first, ""); w.Code != 200 || !strings.Contains(w.Body.String(), "0103") {
		t.Errorf("an event: %d %s", w.Code, w.Body)
	}
	if trail := s.call("admin", "GET", "audit?action=event.view", "").Body.String(); !strings.Contains(trail, first) {
		t.Errorf("the look at it is not in the audit trail: %s", trail)
	}
	deliveries, err := s.db.Deliveries(t.Context(), first)
	if err != nil || len(deliveries) != 1 {
		t.Fatalf("deliveries: %v, %v", deliveries, err)
	}
	ended := store.Delivery{Event: first, Endpoint: deliveries[0].Endpoint, Attempt: 1, Last: time.Now(), Error: "connection refused"}
	if err := s.db.EndDelivery(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	if body := s.call("viewer", "GET", "events/"+first, "").Body.String(); !strings.Contains(body, `"error":"connection refused","next":null`) {
		t.Errorf("given up: %s", body)
	}
	if w := s.call("own-operator", "POST", "events/"+first+"/resend", ""); w.Code != 200 {
		t.Errorf("resend: %d %s", w.Code, w.Body)
	}
	if body := s.call("viewer", "GET", "events/"+first, "").Body.String(); strings.Contains(body, `"next":null`) {
		t.Errorf("sent again: %s", body)
	}
	for query, want := range map[string]string{
		"": "merchant: ", "merchant=Corner+Shop&limit=0": "limit: ", "merchant=Corner+Shop&cursor=x": "cursor: ", "merchant=Corner+Shop&from=now": "from: ",
		"merchant=Corner+Shop&from=2026-02-02T00:00:00Z&to=2026-02-01T00:00:00Z": "to: ", "merchant=%00": "merchant: ", "merchant=Corner+Shop&type=%ff": "type: ",
	} {
		if w := s.call("viewer", "GET", "events?"+query, ""); w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q: %d %s", query, w.Code, w.Body)
		}
	}
	if w := s.call("viewer", "GET", "events/%00", ""); w.Code != 404 {
		t.Errorf("an id that no store takes: %d", w.Code)
	}
}

// TestK9EventsOfASpanAreSentAgain: those that have failed, with one entry of the audit trail for the merchant. What is
// wrong with the request is named, and nothing is sent.
func TestK9EventsOfASpanAreSentAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	event := s.newEvent(shop)
	deliveries, err := s.db.Deliveries(t.Context(), event)
	if err != nil || len(deliveries) != 1 {
		t.Fatalf("deliveries: %v, %v", deliveries, err)
	}
	d := deliveries[0]
	d.Attempt, d.Last, d.Due, d.Error = 1, time.Now().UTC().Truncate(time.Millisecond), time.Time{}, "connection refused"
	if err := s.db.EndDelivery(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	const since = `"from": "2020-01-01T00:00:00Z", "failed": true`
	resend := func(caller, body string) (int, string) {
		w := s.call(caller, "POST", "events/resend", body)
		return w.Code, w.Body.String()
	}
	for body, want := range map[string]string{
		`{` + since + `}`: "merchant: ", `{"merchant": "Corner Shop"}`: "from: ",
		`{"merchant": "Corner Shop", ` + since + `, "to": "2019-01-01T00:00:00Z"}`: "to: ",
		`{"merchant": "Corner Shop", ` + since + `, "cursor": "x"}`:                "cursor: ",
		`{"merchant": "Crner Shop", ` + since + `}`:                                "merchant: ",
	} {
		if code, text := resend("operator", body); code != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %s", body, code, text, want)
		}
	}
	for caller, want := range map[string]int{"viewer": 403, "own-viewer": 403} {
		if code, text := resend(caller, `{"merchant": "Corner Shop", `+since+`}`); code != want {
			t.Errorf("as %s: %d %s, want %d", caller, code, text, want)
		}
	}
	if code, text := resend("own-operator", `{"merchant": "Other Shop", `+since+`}`); code != 404 {
		t.Errorf("of another merchant: %d %s", code, text)
	}
	for _, want := range []string{`{"events":1,"next":null}`, `{"events":0,"next":null}`} { // the second finds it on its way
		if code, text := resend("own-operator", `{`+since+`}`); code != 200 || strings.TrimSpace(text) != want {
			t.Errorf("%d %s, want %s", code, text, want)
		}
	}
	if now, err := s.db.Deliveries(t.Context(), event); err != nil || now[0].Attempt != 0 || now[0].Due.IsZero() {
		t.Errorf("the delivery is %+v, %v; want it due", now, err)
	}
	if trail := s.call("admin", "GET", "audit?action=webhook.redeliver", "").Body.String(); strings.Count(trail, `"object":"Corner Shop"`) != 2 ||
		!strings.Contains(trail, `"failed":true`) {
		t.Errorf("the audit trail has %s", trail)
	}
}

// TestK2ForeignWebhooksAreUnknown: another merchant's endpoints and events are, byte for byte, ones that never were.
func TestK2ForeignWebhooksAreUnknown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	event := s.newEvent(otherShop)
	hook := s.newHook(otherShop)
	s.newHook(shop)
	for _, test := range []struct{ method, foreign, unknown, body string }{
		{"GET", "webhook-endpoints/" + hook, "webhook-endpoints/ep_x", ""}, {"PATCH", "webhook-endpoints/" + hook, "webhook-endpoints/ep_x", `{"disabled": true}`},
		{"PATCH", "webhook-endpoints/" + hook, "webhook-endpoints/ep_x", `{"url": ""}`}, {"DELETE", "webhook-endpoints/" + hook, "webhook-endpoints/ep_x", ""},
		{"POST", "webhook-endpoints/" + hook + "/rotate", "webhook-endpoints/ep_x/rotate", ""},
		{"POST", "webhook-endpoints/" + hook + "/test", "webhook-endpoints/ep_x/test", ""},
		{"GET", "events/" + event, "events/evt_x", ""}, {"POST", "events/" + event + "/resend", "events/evt_x/resend", ""},
		{"GET", "events?endpoint=" + hook, "events?endpoint=ep_x", ""}, {"GET", "events?merchant=Other+Shop", "events?merchant=Nobody", ""},
		{"POST", "webhook-endpoints", "webhook-endpoints", `{"merchant": "Other Shop", "url": "https://shop.example/"}`},
	} {
		foreign, unknown := s.call("own-admin", test.method, test.foreign, test.body), s.call("own-admin", test.method, test.unknown, test.body)
		if foreign.Code != 404 || foreign.Body.String() != unknown.Body.String() {
			t.Errorf("%s %s: %d %s, want %s", test.method, test.foreign, foreign.Code, foreign.Body, unknown.Body)
		}
	}
	if body := s.call("own-admin", "GET", "webhook-endpoints", "").Body.String(); strings.Contains(body, otherShop) || !strings.Contains(body, shop) {
		t.Errorf("the list of one merchant: %s", body)
	}
	if all, err := s.handler.Hooks.Endpoints(t.Context(), otherShop); err != nil || len(all) != 2 || all[0].Disabled || !all[0].Until.IsZero() {
		t.Errorf("the other merchant's endpoints have changed: %v, %v", all, err)
	}
}

// TestF4OperatorIsToldOfDisabledMerchants: once when a merchant is disabled, with who and why, and once when it is
// enabled.
func TestF4OperatorIsToldOfDisabledMerchants(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	settings := hookSettings()
	settings.Operator = []*webhook.Endpoint{webhook.OperatorEndpoint("https://ops.example/", webhook.NewSecret(), nil)}
	s.handler.Hooks.Configure(settings)
	s.addMerchant("Fjord")
	for _, want := range []int{200, 409} {
		if w := s.call("operator", "POST", "merchants/Fjord/disable", `{"reason": "stolen keys"}`); w.Code != want {
			t.Errorf("disable: %d %s, want %d", w.Code, w.Body, want)
		}
	}
	if w := s.call("operator", "POST", "merchants/Fjord/enable", ""); w.Code != 200 || strings.Contains(w.Body.String(), "disabled") {
		t.Errorf("enable: %d %s", w.Code, w.Body)
	}
	events, err := s.handler.Hooks.Find(t.Context(), store.EventQuery{Limit: 9})
	var told strings.Builder
	for _, e := range events {
		told.Write(e.Body)
	}
	for _, want := range []string{`"type":"merchant.disabled"`, `"type":"merchant.enabled"`, `"reason":"stolen keys"`, `"merchant":"Fjord"`, `"by":"token:`} {
		if err != nil || len(events) != 2 || !strings.Contains(told.String(), want) {
			t.Errorf("the operator was told %s, %v; want two events with %s", &told, err, want)
		}
	}
}
