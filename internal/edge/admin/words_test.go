package admin_test

import (
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestO8UnknownWordsAreRefused: the refusal lists the known words, or has the name that was perhaps meant. It never has
// an empty list, which would read as if there was nothing.
func TestO8UnknownWordsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for query, want := range map[string]string{
		"authentications?scheme=vsia": "scheme: want one of", "authentications?merchant=" + shop[:4]: "did you mean",
		"authentications?merchant=Nobody": "merchant: there is no such merchant", "authentications?status=Y": "status: want one of",
		"authentications?result=bogus": "result: want one of", "authentications?shop=x": "want one of limit, acs, cursor",
		"audit?action=record.erase": "action: want one of approval.allow, ", "audit?actor=x": "want one of who, action",
		"audit/export?action=erase": "action: want one of", "journal/export?merchant=Nobody": "no such merchant", "journal/export?kind=csv": "want one of merchant",
		"webhook-endpoints?merchant=Nobody": "no such merchant", "events?merchant=Nobody": "no such merchant",
		"events?merchant=" + strings.ReplaceAll(shop, " ", "+") + "&type=bogus": "type: want one of authentication.completed",
		"reports?by=bank": "by: want scheme", "keys?merchant=x": "this operation has none", "authentications?status=failed&status=completed": "status: send it once",
	} {
		if w := s.call("admin", "GET", query, ""); w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want 400 with %q", query, w.Code, w.Body, want)
		}
	}
	for _, query := range []string{"authentications?scheme=jcb&status=failed", "audit?action=key.create",
		"authentications?merchant=" + strings.ReplaceAll(otherShop, " ", "+") + "&status=expired"} {
		if w := s.call("admin", "GET", query, ""); w.Code != 200 {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

// TestMerchantWithKeysAloneExists: such a merchant is listed and shown, its own operators and others see and explain
// its requests, and a change gives it its first settings.
func TestMerchantWithKeysAloneExists(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const name = "Keys Only"
	if _, err := account.Create(t.Context(), s.db, s.handler.Ring(), name, false, account.Terms{}); err != nil {
		t.Fatal(err)
	}
	const path = "merchants/Keys%20Only"
	for query, want := range map[string]string{
		path: `"source":"keys"`, "merchants": name, "authentications?merchant=Keys+Only": `"data":[]`,
		"events?merchant=Keys+Only": `"data":[]`,
	} {
		if w := s.call("viewer", "GET", query, ""); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	if w := s.call("viewer", "POST", "explain?merchant=Keys+Only", "{}"); w.Code != 200 {
		t.Errorf("explain: %d %s", w.Code, w.Body)
	}
	if w := s.call("operator", "POST", "keys", `{"merchant": "Keys Only", "label": "second"}`); w.Code != 201 {
		t.Errorf("another key: %d %s", w.Code, w.Body)
	}
	if w := s.call("operator", "DELETE", path, ""); w.Code != 409 || !strings.Contains(w.Body.String(), "only API keys") {
		t.Errorf("remove: %d %s", w.Code, w.Body)
	}
	if w := s.call("operator", "PATCH", path, `{"version": "", "mcc": "5411"}`); w.Code != 200 || !strings.Contains(w.Body.String(), `"source":"store"`) {
		t.Errorf("first settings: %d %s", w.Code, w.Body)
	}
	if page, err := s.handler.Journal.Search(t.Context(), journal.Query{Merchant: name}); err != nil || len(page.Records) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
}
