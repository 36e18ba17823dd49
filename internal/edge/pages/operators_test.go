package pages_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestK4ExplainPage: faults by name, each field with its meaning, and nothing of what was pasted is on the page.
func TestK4ExplainPage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(s.get("own-viewer", "/explain"), 200, "Nothing that you paste is sent, kept or logged", `name="text"`)
	w := s.post("viewer", "/explain", url.Values{"text": {`{"acctNumber": "` + card + `"}`}})
	s.want(w, 200, "has faults", "want 2 digits", "/eci", "since 2024-08-12", "not in force yet", "transStatus", "challenge", "What decides")
	if body := w.Body.String(); strings.Contains(body, card) || isHarmful(body, attacks[0]) {
		t.Error("what was pasted, or code of somebody else, is on the page")
	}
	s.want(s.post("viewer", "/explain", url.Values{"text": {card}}), 200)
	w = s.post("viewer", "/explain", url.Values{"text": {"nothing " + card}})
	s.want(w, 400, `role="alert"`, "neither JSON nor a log line")
	if strings.Contains(w.Body.String(), card) {
		t.Error("what was pasted is on the page of a failure")
	}
	s.want(s.post("own-viewer", "/explain", url.Values{"text": {"{}"}, "merchant": {otherShop}}), 404)
	if entries, err := s.Admin.Operators.Search(t.Context(), operator.Query{Limit: 9}); err != nil || len(entries) != 0 {
		t.Errorf("in the audit trail: %v, %v", entries, err)
	}
}

// TestK2OperatorsPage: a link is shown once, a role is changed, one is removed, and the last admin stays.
func TestK2OperatorsPage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.post("admin", "/operators", url.Values{"name": {"jo"}, "role": {"operator"}, "merchant": {shop}})
	link := regexp.MustCompile(`id="secret"[^>]*>https://console.example/invite/([^<]+)</pre>`).FindStringSubmatch(w.Body.String())
	if w.Code != 200 || link == nil {
		t.Fatalf("no link: %d %s", w.Code, w.Body)
	}
	if i, err := s.Admin.Operators.FindInvitation(t.Context(), link[1]); err != nil || i.Name != "jo" || i.Role != operator.Operator || i.Merchant != shop {
		t.Errorf("the invitation is %+v, %v", i, err)
	}
	for _, at := range []string{"/operators", "/audit"} {
		if strings.Contains(s.get("admin", at).Body.String(), link[1]) {
			t.Errorf("%s has the link again", at)
		}
	}
	for _, u := range []*operator.User{{Name: "kim", Role: operator.Admin},
		{Name: "oidc:a/b", Role: operator.Admin, Label: "kim@x.example"}, {Name: "vera", Role: operator.Viewer}} {
		must(t, s.Admin.Operators.AddUser(t.Context(), u))
	}
	s.want(s.get("admin", "/operators"), 200, "kim@x.example", "OpenID Connect", `action="/operators/oidc:a%2Fb"`)
	if w := s.post("admin", "/operators/vera", url.Values{"do": {"role"}, "role": {"operator"}}); w.Code != 303 {
		t.Errorf("another role: %d", w.Code)
	}
	s.want(s.post("admin", "/operators/oidc:a%2fb", url.Values{"do": {"role"}, "role": {"viewer"}}), 400, "The issuer says the role")
	if w := s.post("admin", "/operators/oidc:a%2fb", url.Values{"do": {"remove"}}); w.Code != 303 {
		t.Errorf("remove: %d", w.Code)
	}
	for _, form := range []url.Values{{"do": {"remove"}}, {"do": {"role"}, "role": {"viewer"}}} {
		s.want(s.post("admin", "/operators/kim", form), 400, "This is the last admin", `role="alert"`)
	}
	s.want(s.post("admin", "/operators", url.Values{"name": {"a b"}, "role": {"viewer"}}), 400, `value="a b"`)
	if u, err := s.Admin.Operators.FindUser(t.Context(), "vera"); err != nil || u.Role != operator.Operator {
		t.Errorf("vera is %+v, %v", u, err)
	}
	s.checkTrail("operator.role", "passkey:admin")
	s.checkTrail("operator.invite", "passkey:admin")
	s.checkTrail("operator.remove", "passkey:admin")
}

// TestK10AuditFileHasAll: every entry of a trail that is longer than many pieces, each once, and
// "journal verify" takes it.
func TestK10AuditFileHasAll(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const n = 2_600
	for range n {
		must(t, s.Admin.Operators.Record(t.Context(), operator.Entry{Who: "token:ci", Action: "key.create"}))
	}
	got, err := journal.Verify(s.get("admin", "/audit.jsonl").Body, s.Keys.PublicKey())
	if err != nil || got.Records != n+1 { // the export is in itself
		t.Errorf("verified %+v, %v", got, err)
	}
	s.want(s.get("admin", "/audit.jsonl?from=never"), 400, "needs a form such as")
	s.Admin.JournalKeys = nil
	s.want(s.get("admin", "/audit.jsonl"), 503)
}
