package client_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/threedstest"
)

// A told is a delivery that a receiver got.
type told struct {
	id   string
	body map[string]any
	raw  string
}

// receiver is the endpoint of a merchant. It verifies each delivery with the published library.
type receiver struct {
	*httptest.Server
	secret string
	got    chan told
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{got: make(chan told, 100)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		verifier, err := standardwebhooks.NewWebhook(r.secret)
		if err == nil {
			err = verifier.Verify(raw, req.Header)
		}
		var body map[string]any
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Error(err)
		}
		if err != nil {
			t.Errorf("not verified: %v", err)
		}
		r.got <- told{req.Header.Get("webhook-id"), body, string(raw)}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) next(t testing.TB) told {
	t.Helper()
	return <-r.got
}

// ask makes a request of the API and reads the answer.
func ask(t testing.TB, server *threedstest.Server, key, method, path, body string, want int) map[string]any {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("APIKey", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		t.Fatalf("%s %s: %d %s, want %d", method, path, res.StatusCode, raw, want)
	}
	answer := map[string]any{}
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := json.Unmarshal(raw, &answer); err != nil {
			t.Fatalf("%s %s: %s", method, path, raw)
		}
	}
	return answer
}

// endpoint makes an endpoint that receives all events.
func (r *receiver) register(t testing.TB, server *threedstest.Server) string {
	t.Helper()
	made := ask(t, server, server.Key, "POST", "/webhook-endpoints", `{"url":"`+r.URL+`/hooks"}`, 201)
	r.secret, _ = made["secret"].(string)
	id, _ := made["id"].(string)
	return id
}

// TestW2EventsOfAuthentications: each end of an authentication is one event with the object of /outcome, without the
// messages and without the authentication value.
func TestW2EventsOfAuthentications(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	c := server.Client()
	r := newReceiver(t)
	r.register(t, server)
	for card, result := range map[string]string{
		"4000000000000103": "authenticated", "4000000000000133": "rejected", "4000000000000153": "unavailable",
	} {
		ares := authenticate(t, c, card)
		got := r.next(t)
		data, _ := got.body["data"].(map[string]any)
		told, _ := data["outcome"].(map[string]any)
		if got.body["type"] != "authentication.completed" || got.body["id"] != got.id || data["id"] != ares.ThreeDSServerTransID ||
			told["result"] != result {
			t.Errorf("%s: %s", card, got.raw)
		}
		for _, secret := range []string{card, `"ares"`, `"rreq"`, `"browser"`, ares.AuthenticationValue} {
			if secret != "" && strings.Contains(got.raw, secret) {
				t.Errorf("%s: the event has %s", card, secret)
			}
		}
	}
}

// TestW6EndpointsAndEventsOfAMerchant walks the operations, and finds that another merchant sees nothing.
func TestW6EndpointsAndEventsOfAMerchant(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	r := newReceiver(t)
	id := r.register(t, server)
	if got := ask(t, server, server.Key, "POST", "/webhook-endpoints/"+id+"/test", "", 200); got["delivered"] != true || got["status"] != 200.0 {
		t.Errorf("test: %v", got)
	}
	if got := r.next(t); got.body["type"] != "webhook.test" {
		t.Errorf("test: %s", got.raw)
	}
	authenticate(t, server.Client(), "4000000000000103")
	event := r.next(t).id
	shown := ask(t, server, server.Key, "GET", "/events/"+event, "", 200)
	deliveries, _ := shown["deliveries"].([]any)
	if len(deliveries) != 1 || shown["type"] != "authentication.completed" {
		t.Errorf("event: %v", shown)
	}
	listed := ask(t, server, server.Key, "GET", "/events?type=authentication.completed&limit=1", "", 200)
	if all, _ := listed["data"].([]any); len(all) != 1 || listed["next"] != nil {
		t.Errorf("events: %v", listed)
	}
	ask(t, server, server.Key, "POST", "/events/"+event+"/resend", "", 202)
	if again := r.next(t); again.id != event {
		t.Errorf("sent again as %s, was %s", again.id, event)
	}
	rotated := ask(t, server, server.Key, "POST", "/webhook-endpoints/"+id+"/rotate", "{}", 200)
	if rotated["secret"] == r.secret || rotated["previousUntil"] == nil {
		t.Errorf("rotate: %v", rotated)
	}
	ask(t, server, server.Key, "POST", "/events/"+event+"/resend", "", 202)
	r.next(t) // the previous secret still verifies
	for _, path := range []string{
		"/webhook-endpoints/" + id, "/webhook-endpoints/ep_none", "/events/" + event, "/events/evt_none",
	} {
		ask(t, server, server.OtherKey, "GET", path, "", 404)
	}
	for _, path := range []string{"/webhook-endpoints/" + id + "/test", "/webhook-endpoints/" + id + "/rotate", "/events/" + event + "/resend"} {
		ask(t, server, server.OtherKey, "POST", path, "", 404)
	}
	ask(t, server, server.OtherKey, "DELETE", "/webhook-endpoints/"+id, "", 404)
	changed := ask(t, server, server.Key, "PATCH", "/webhook-endpoints/"+id, `{"disabled":true,"types":["authentication.failed"]}`, 200)
	if changed["disabled"] != true || changed["secret"] != nil {
		t.Errorf("changed: %v", changed)
	}
	ask(t, server, server.Key, "DELETE", "/webhook-endpoints/"+id, "", 204)
	if all, _ := ask(t, server, server.Key, "GET", "/webhook-endpoints", "", 200)["data"].([]any); len(all) != 0 {
		t.Errorf("after removal: %v", all)
	}
	if got := exchange(t, server, server.Key, "POST", "/events/"+event+"/resend", ""); !strings.Contains(got, "409") || !strings.Contains(got, "no-endpoint") {
		t.Errorf("no endpoint is left, and resend says %s", got)
	}
}

// TestD31FaultsOfEndpoints: what is wrong with a request is named, with what would be right.
func TestD31FaultsOfEndpoints(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	for body, want := range map[string]string{
		`{}`:                             "/url",
		`{"url":"http://shop.example/"}`: "/url",
		`{"url":"https://10.0.0.1/"}`:    "/url",
		`{"url":"https://shop.example/","types":["x"]}`:    "/types",
		`{"url":"https://shop.example/","secret":"short"}`: "/secret",
	} {
		got := ask(t, server, server.Key, "POST", "/webhook-endpoints", body, 400)
		all, _ := got["errors"].([]any)
		first, _ := all[0].(map[string]any)
		if got["type"] != "urn:threeds:problem:invalid" || first["pointer"] != want || first["cure"] == "" {
			t.Errorf("%s: %v", body, got)
		}
	}
	for body, want := range map[string]string{
		`{"url":"https://shop.example/","color":"red"}`: `"pointer":"/color","code":"203","rule":"unknown-member"`,
		`{"url":5}`: `"pointer":"/url","code":"203","rule":"type"`,
		`{"url":"https://shop.example/","types":"x"}`:                   `"pointer":"/types","code":"203","rule":"type"`,
		`{"url":"https://shop.example/","disabled":"no"}`:               `"found":{"type":"string"}`,
		`{"url":"https://shop.example/","types":["x"]}`:                 `"allowed":["authentication.completed"`,
		`{"url":"https://a.example/","url":"https://b.example/"}`:       "each once",
		`{"url":"https://a.example/` + strings.Repeat("x", 2048) + `"}`: `"max":2048`,
	} {
		got := exchange(t, server, server.Key, "POST", "/webhook-endpoints", body)
		if !strings.Contains(got, "400") || !strings.Contains(got, want) {
			t.Errorf("%.60s: %s, want 400 with %s", body, got, want)
		}
	}
	for query, want := range map[string]string{
		"limit=0": `"rule":"range"`, "limit=101": `"max":100`, "from=yesterday": `"parameter":"from"`, "cursor=x": `"parameter":"cursor"`,
		"color=red": `"parameter":"color","code":"203","rule":"unknown-member"`, "type=completed": `"allowed":["authentication.completed"`,
		"type=authentication.failed&type=authentication.failed": `"rule":"duplicate-member"`,
		"from=2026-02-02T00:00:00Z&to=2026-02-01T00:00:00Z":     `"parameter":"to","code":"203","rule":"condition"`,
	} {
		if got := exchange(t, server, server.Key, "GET", "/events?"+query, ""); !strings.Contains(got, "400") || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want 400 with %s", query, got, want)
		}
	}
	all := ask(t, server, server.Key, "POST", "/webhook-endpoints", `{"url":"https://shop.example/","types":[]}`, 201)
	if types, _ := all["types"].([]any); len(types) != len(api.EventTypesFor(api.ForMerchant)) {
		t.Errorf("an empty list asks for all types, and the answer has %v", all["types"])
	}
	rotate := fmt.Sprint("/webhook-endpoints/", all["id"], "/rotate")
	if got := exchange(t, server, server.Key, "POST", rotate, `{"secret":"whsec_x"}`); !strings.Contains(got, "400") ||
		!strings.Contains(got, `"pointer":"/secret"`) {
		t.Errorf("a rotation reads no secret, and says %s", got)
	}
	ask(t, server, server.Key, "POST", rotate, "{}", 200)
}

// BenchmarkW4ResultToDelivery measures how soon an event arrives after the result that it tells was handed out.
func BenchmarkW4ResultToDelivery(b *testing.B) {
	server := threedstest.NewServer(b)
	c := server.Client()
	r := newReceiver(b)
	r.register(b, server)
	var took []time.Duration
	for b.Loop() {
		authenticate(b, c, "4000000000000103")
		handedOut := time.Now()
		r.next(b)
		took = append(took, time.Since(handedOut))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
}

// TestW6ClientOfEndpoints: the client adds, lists and removes endpoints, and reads the event of a delivery.
func TestW6ClientOfEndpoints(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	c, other := server.Client(), client.New(server.URL, server.OtherKey)
	r := newReceiver(t)
	added, err := c.AddWebhookEndpoint(t.Context(), r.URL+"/hooks", "Orders")
	if err != nil {
		t.Fatal(err)
	}
	r.secret = added.Secret
	all, err := c.WebhookEndpoints(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != added.ID || all[0].URL != r.URL+"/hooks" || all[0].Description != "Orders" || all[0].Secret != "" {
		t.Errorf("listed: %+v, %v", all, err)
	}
	if all, err := other.WebhookEndpoints(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("another merchant lists %+v, %v", all, err)
	}
	ares := authenticate(t, c, "4000000000000103")
	var event api.Event[api.AuthenticationSummary]
	got := r.next(t)
	if err := json.Unmarshal([]byte(got.raw), &event); err != nil {
		t.Fatal(err)
	}
	if event.ID != got.id || event.Type != "authentication.completed" || event.Timestamp.IsZero() || event.Data.ID != ares.ThreeDSServerTransID ||
		!event.Data.IsFinal() || event.Data.Outcome.Result != "authenticated" || event.Data.Outcome.Authorisation.AuthenticationValue != "" {
		t.Errorf("the event reads %+v", event)
	}
	var problem *client.Problem
	if err := other.RemoveWebhookEndpoint(t.Context(), added.ID); !errors.As(err, &problem) || problem.Status != 404 {
		t.Errorf("another merchant removes it: %v", err)
	}
	if err := c.RemoveWebhookEndpoint(t.Context(), added.ID); err != nil {
		t.Error(err)
	}
	if all, err := c.WebhookEndpoints(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("after the removal: %+v, %v", all, err)
	}
	if _, err := c.AddWebhookEndpoint(t.Context(), "http://192.0.2.1/hooks", ""); !errors.As(err, &problem) || problem.Status != 400 || len(problem.Faults) != 1 {
		t.Errorf("an address that is refused: %v", err)
	}
	wrongKey := client.New(server.URL, "3f2a9c1e-5b7d-4e8f-a6c4-0d1e2f3a4b5c")
	if _, err := wrongKey.WebhookEndpoints(t.Context()); err == nil {
		t.Error("endpoints are listed for a wrong key")
	}
}
