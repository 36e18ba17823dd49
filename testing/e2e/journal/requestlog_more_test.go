package journal

import (
	"net/http"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestG11StoreAwayIsNoFaultOfTheProgram: what the store keeps from being done counts as 403 for every operation, for
// the alert about the store looks for that, and not for internal.
func TestG11StoreAwayIsNoFaultOfTheProgram(t *testing.T) {
	t.Parallel()
	down, p := rig.NewFaulty()
	p.Sections = "acp: {enabled: true}"
	s := rig.NewSite(t, p)
	direct := rig.ThreeRIRequest("2.2.0", rig.EnrolledPAN, "").With(rig.Object{"messageType": nil, "threeDSServerTransID": nil})
	res, data := s.Call(http.MethodPost, "/authentications", s.APIKey, direct)
	id := rig.ParseObject(t, data).Text("id")
	if res.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", res.StatusCode, data)
	}
	down.Down.Store(true)
	for _, request := range []string{"POST /authentications", "GET /authentications/" + id,
		"POST /authentications/" + id + "/cancel", "GET /delegate_authentication/" + id} {
		method, path, _ := strings.Cut(request, " ")
		body := direct
		if strings.HasSuffix(path, "/cancel") {
			body = rig.Object{}
		}
		res, data := s.Call(method, path, s.APIKey, body, "Authorization", "Bearer "+s.APIKey, "API-Version", "2026-04-17")
		if res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", request, res.StatusCode, data)
		}
	}
	counted := 0.0
	waittest.Until(t, "the requests to be counted", func() bool {
		counted = 0
		for series, n := range s.Metrics() {
			if strings.HasPrefix(series, "threeds_operations_total{") && strings.Contains(series, `outcome="403"`) {
				counted += n
			}
		}
		return counted >= 4
	})
	for series, n := range s.Metrics() {
		if strings.HasPrefix(series, "threeds_operations_total{") && strings.Contains(series, `outcome="internal"`) && n > 0 {
			t.Errorf("%s is %v", series, n)
		}
	}
}

// TestG11OperationsBesideAuthAreOneLine: as TestG11EveryRequestIsOneLine, for the operations beside /preauth, /auth and
// /postauth. Each request, good or refused, is one line and one count, and none that a client has to answer for is
// counted as a fault of the program.
func TestG11OperationsBesideAuthAreOneLine(t *testing.T) {
	t.Parallel()
	d := newDay(rig.StartLegacy(t, rig.Plan{
		Sections: "acp: {enabled: true}\nbrowser: {listen: 127.0.0.1:0, url: \"https://pay.example\"}\nwebhooks: {allow: [127.0.0.0/8], http: true}",
	}))
	about := card().and(facts{"channel": "03", "category": "01", "version": "2.2.0"})
	direct := rig.ThreeRIRequest("2.2.0", rig.EnrolledPAN, "").With(rig.Object{"messageType": nil, "threeDSServerTransID": nil, "reference": "order 7"})
	paged := rig.CoreRequest("2.2.0", rig.EnrolledPAN, "").With(rig.Object{
		"messageType": nil, "threeDSServerTransID": nil, "deviceChannel": nil, "messageCategory": nil, "messageVersion": nil, "threeDSCompInd": nil,
		"returnUrl": "https://shop.example/back",
	})
	var id, waiting, hook string
	for _, tt := range []struct {
		name, request string
		body          any
		operation     string // what the line calls the operation
		counted       string // the operation, scheme and outcome of the metrics
		want          facts
		id            *string // where the id in the answer goes
	}{
		{"create", "POST /authentications", direct, "/authentications", "authentications visa completed",
			about.and(facts{"http": 201.0, "status": "Y", "reference": "order 7", "code": nil}), &id},
		{"create without mcc", "POST /authentications", direct.With(rig.Object{"mcc": nil}), "/authentications",
			"authentications visa invalid", about.and(facts{"http": 400.0, "code": "invalid", "elements": []any{"mcc"}}), nil},
		{"create without content", "POST /authentications", "{", "/authentications", "authentications  malformed",
			facts{"http": 400.0, "code": "malformed", "last4": nil}, nil},
		{"create for a browser", "POST /authentications", paged, "/authentications", "authentications visa requires_browser",
			card().and(facts{"http": 201.0}), &waiting},
		{"cancel", "POST /authentications/WAITING/cancel", rig.Object{}, "/authentications/ID/cancel", "authentication visa cancelled", facts{"http": 200.0}, nil},
		{"cancel what is over", "POST /authentications/ID/cancel", rig.Object{}, "/authentications/ID/cancel",
			"authentications/ID/cancel  final", facts{"http": 409.0, "code": "final"}, nil},
		{"read", "GET /authentications/ID", nil, "/authentications/ID", "authentication visa completed",
			about.and(facts{"http": 200.0, "reference": "order 7"}), nil},
		{"read what is not there", "GET /authentications/NONE", nil, "/authentications/ID", "authentication  not-found",
			facts{"http": 404.0, "code": "not-found"}, nil},
		{"list", "GET /authentications?last4=7890", nil, "/authentications", "authentications  ok", facts{"http": 200.0}, nil},
		{"list with a fault", "GET /authentications?last4=78", nil, "/authentications", "authentications  invalid",
			facts{"http": 400.0, "code": "invalid", "elements": []any{"last4"}}, nil},
		{"search", "POST /authentications/search", rig.Object{"acctNumber": rig.EnrolledPAN}, "/authentications/search",
			"authentications/search  ok", facts{"http": 200.0}, nil},
		{"outcome", "POST /outcome", rig.Object{"threeDSServerTransID": "ID"}, "/outcome", "authentication visa completed", facts{"http": 200.0}, nil},
		{"outcome without an id", "POST /outcome", rig.Object{}, "/outcome", "outcome  invalid", facts{"http": 400.0, "code": "invalid"}, nil},
		{"lookup", "POST /lookup", rig.Object{"acctNumber": rig.EnrolledPAN}, "/lookup", "lookup  ok", facts{"http": 200.0, "bin": "40000012", "last4": "7890"}, nil},
		{"lookup of nonsense", "POST /lookup", rig.Object{"acctNumber": "12"}, "/lookup", "lookup  invalid",
			facts{"http": 400.0, "elements": []any{"acctNumber"}}, nil},
		{"explain", "POST /explain", direct, "/explain", "explain  ok", facts{"http": 200.0}, nil},
		{"add an endpoint", "POST /webhook-endpoints", rig.Object{"url": "http://127.0.0.1:9/hook"}, "/webhook-endpoints",
			"webhook-endpoints  ok", facts{"http": 201.0}, &hook},
		{"add an endpoint without URL", "POST /webhook-endpoints", rig.Object{}, "/webhook-endpoints",
			"webhook-endpoints  invalid", facts{"http": 400.0, "elements": []any{"url"}}, nil},
		{"list endpoints", "GET /webhook-endpoints", nil, "/webhook-endpoints", "webhook-endpoints  ok", facts{"http": 200.0}, nil},
		{"change an endpoint", "PATCH /webhook-endpoints/HOOK", rig.Object{"disabled": false}, "/webhook-endpoints/ID",
			"webhook-endpoints/ID  ok", facts{"http": 200.0}, nil},
		{"test an endpoint", "POST /webhook-endpoints/HOOK/test", rig.Object{}, "/webhook-endpoints/ID/test",
			"webhook-endpoints/ID/test  ok", facts{"http": 200.0}, nil},
		{"rotate a secret", "POST /webhook-endpoints/HOOK/rotate", rig.Object{}, "/webhook-endpoints/ID/rotate",
			"webhook-endpoints/ID/rotate  ok", facts{"http": 200.0}, nil},
		{"remove an endpoint", "DELETE /webhook-endpoints/HOOK", nil, "/webhook-endpoints/ID", "webhook-endpoints/ID  ok", facts{"http": 204.0}, nil},
		{"list events", "GET /events", nil, "/events", "events  ok", facts{"http": 200.0}, nil},
		{"read an unknown event", "GET /events/evt_none", nil, "/events/ID", "events/ID  not-found", facts{"http": 404.0}, nil},
		{"resend an unknown event", "POST /events/evt_none/resend", rig.Object{}, "/events/ID/resend", "events/ID/resend  not-found", facts{"http": 404.0}, nil},
		{"open a session without content", "POST /delegate_authentication", rig.Object{}, "/delegate_authentication",
			"delegate_authentication  invalid_request", facts{"http": 400.0}, nil},
		{"read an unknown session", "GET /delegate_authentication/NONE", nil, "/delegate_authentication/ID",
			"delegate_authentication  invalid_request", facts{"http": 404.0}, nil},
		{"send an unknown session", "POST /delegate_authentication/NONE/authenticate", rig.Object{},
			"/delegate_authentication/ID/authenticate", "delegate_authentication  invalid_request", facts{"http": 404.0}, nil},
	} {
		method, path, _ := strings.Cut(tt.request, " ")
		path = strings.NewReplacer("NONE", rig.NewUUID(), "WAITING", waiting, "ID", id, "HOOK", hook).Replace(path)
		if body, ok := tt.body.(rig.Object); ok && body.Text("threeDSServerTransID") == "ID" {
			tt.body = body.With(rig.Object{"threeDSServerTransID": id})
		}
		var header []string
		if strings.HasPrefix(path, "/delegate") {
			header = []string{"Authorization", "Bearer " + d.APIKey, "API-Version", "2026-04-17"}
		}
		series := strings.Split(tt.counted, " ")
		d.step(tt.name, line{[3]string(series), facts{"operation": tt.operation, "merchant": "Shop"}.and(tt.want)}, func() {
			_, data := d.Call(method, path, d.APIKey, tt.body, header...)
			if tt.id != nil {
				*tt.id = rig.ParseObject(t, data).Text("id")
			}
		})
	}
	d.counted[`threeds_operations_total{component="",operation="auth",outcome="Y",scheme="visa"}`]++ // the AReq of the first one
	d.wantMetrics()
}
