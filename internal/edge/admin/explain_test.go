package admin_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestK4ExplainByAPI: for one's own merchant alone, of a body or of a text in a JSON string, and nothing of it is kept.
func TestK4ExplainByAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, test := range []struct {
		caller, path, body string
		status             int
		want               string
	}{
		{"viewer", "explain", `{"mcc": "5411"}`, 200, `"merchant":"","text":"{\"mcc\": \"5411\"}"`},
		{"viewer", "explain?merchant=Other+Shop", `"creq=abc"`, 200, `"merchant":"Other Shop","text":"creq=abc"`},
		{"own-viewer", "explain", `{}`, 200, `"merchant":"Corner Shop"`}, {"own-viewer", "explain?merchant=Other+Shop", `{}`, 404, "no merchant"},
		{"viewer", "explain?merchant=Nobody", `{}`, 404, "no merchant"},
		{"viewer", "explain", `"` + strings.Repeat("x", 100<<10) + `"`, 200, "xxx"}, {"viewer", "explain", strings.Repeat("x", 300<<10), 400, "bytes"},
	} {
		if w := s.call(test.caller, "POST", test.path, test.body); w.Code != test.status || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s %s %.40s: %d %.300s", test.caller, test.path, test.body, w.Code, w.Body)
		}
	}
	if foreign, unknown := s.call("own-admin", "POST", "explain?merchant=Other+Shop", "{}"),
		s.call("own-admin", "POST", "explain?merchant=Nobody", "{}"); foreign.Body.String() != unknown.Body.String() {
		t.Errorf("another merchant: %s, want %s", foreign.Body, unknown.Body)
	}
	if trail := s.call("admin", "GET", "audit", "").Body.String(); !strings.Contains(trail, `"data":[]`) {
		t.Errorf("the audit trail has %s", trail)
	}
	s.handler.Explain = func(string, []byte) (json.RawMessage, error) { return nil, errors.New("it is no message") }
	if w := s.call("viewer", "POST", "explain", `"x"`); w.Code != 400 || !strings.Contains(w.Body.String(), "it is no message") {
		t.Errorf("no message: %d %s", w.Code, w.Body)
	}
}

// TestK2OperatorsLastAdminStays: neither removed nor made less, as long as no other admin of all merchants is there.
func TestK2OperatorsLastAdminStays(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.addOperator("kim")
	for _, test := range []struct {
		method, path, body string
		status             int
	}{
		{"DELETE", "operators/kim", "", 409}, {"PATCH", "operators/kim", `{"role": "operator"}`, 409}, {"PATCH", "operators/kim", `{"role": "admin"}`, 200},
	} {
		if w := s.call("admin", test.method, test.path, test.body); w.Code != test.status {
			t.Errorf("%s %s %s: %d %s", test.method, test.path, test.body, w.Code, w.Body)
		}
	}
	if trail := s.call("admin", "GET", "audit?action=operator.remove", "").Body.String(); !strings.Contains(trail, `"data":[]`) {
		t.Errorf("what did not happen is in the audit trail: %s", trail)
	}
	s.addOperator("jo")
	if w := s.call("admin", "PATCH", "operators/kim", `{"role": "operator"}`); w.Code != 200 {
		t.Errorf("one of two: %d %s", w.Code, w.Body)
	}
	if w := s.call("admin", "DELETE", "operators/jo", ""); w.Code != 409 {
		t.Errorf("the other one: %d %s", w.Code, w.Body)
	}
}
