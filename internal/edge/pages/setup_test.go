package pages_test

import (
	"encoding/csv"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// forms are those of every page with one, and who may send them, in the order of callers.
var forms = map[string]struct {
	form url.Values
	want [6]int
}{
	"/merchants":               {url.Values{"name": {"New"}}, [6]int{403, 303, 303, 403, 403, 403}},
	"/merchants/Corner%20Shop": {url.Values{"version": {"1"}, "mcc": {"5411"}}, [6]int{403, 409, 409, 403, 403, 403}},
	"/keys":                    {url.Values{"merchant": {shop}}, [6]int{403, 200, 200, 403, 200, 200}},
	"/keys/00/revoke":          {url.Values{}, [6]int{403, 404, 404, 403, 404, 404}},
	"/tokens":                  {url.Values{"name": {"t"}, "role": {"viewer"}}, [6]int{403, 403, 200, 403, 403, 403}},
	"/explain":                 {url.Values{"text": {"{}"}}, [6]int{200, 200, 200, 200, 200, 200}},
	"/operators":               {url.Values{"role": {"viewer"}}, [6]int{403, 403, 200, 403, 403, 403}},
	"/operators/nobody":        {url.Values{"do": {"remove"}}, [6]int{403, 403, 404, 403, 403, 403}},
	"/webhooks": {
		url.Values{"merchant": {shop}, "url": {"https://shop.example/h"}, "type": {"authentication.failed"}},
		[6]int{403, 200, 200, 403, 200, 200}},
	"/webhooks/" + hookID:        {url.Values{"do": {"rotate"}}, [6]int{403, 200, 200, 403, 200, 200}},
	"/webhooks/ep_x":             {url.Values{"do": {"remove"}}, [6]int{403, 404, 404, 403, 404, 404}},
	"/webhooks/" + foreignHookID: {url.Values{"do": {"disable"}}, [6]int{403, 303, 303, 403, 404, 404}},
	"/erase":                     {url.Values{"merchant": {shop}}, [6]int{403, 403, 200, 403, 403, 403}},
	"/tokens/nobody/revoke":      {url.Values{}, [6]int{403, 403, 404, 403, 403, 403}},
}

// TestK6MatrixOfFormsIsExact sends each form as each role, and without csrf, which changes nothing.
func TestK6MatrixOfFormsIsExact(t *testing.T) {
	t.Parallel()
	refuses := newSite(t)
	for at, f := range forms {
		for i, caller := range callers() {
			s := refuses
			if f.want[i] < 400 { // the form may change something
				s = newSite(t)
			}
			w := s.post(caller, at, f.form)
			got, want := w.Code, f.want[i]
			if want == 409 { // the page says so, with the form
				want = 400
			}
			if got != want {
				t.Errorf("POST %s as %s: %d, want %d: %.300s", at, caller, got, want, w.Body)
			}
		}
	}
}

// TestK6MerchantsWithoutARestart: one is made, changed and removed, and one of the configuration file stays as it is.
func TestK6MerchantsWithoutARestart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.post("operator", "/merchants", url.Values{"name": {"Fjord Audio"}})
	if to := w.Header().Get("Location"); w.Code != 303 || to != "/merchants/Fjord%20Audio" {
		t.Fatalf("%d %s", w.Code, to)
	}
	version := func() string {
		body := s.get("operator", "/merchants/Fjord%20Audio").Body.String()
		return regexp.MustCompile(`name="version" value="([^"]*)"`).FindStringSubmatch(body)[1]
	}
	first := version()
	if w := s.post("operator", "/merchants/Fjord%20Audio", url.Values{"version": {first}, "mcc": {"5732"}}); w.Code != 303 {
		t.Errorf("change: %d", w.Code)
	}
	s.want(s.get("viewer", "/merchants/Fjord%20Audio"), 200, "5732", "Set in the console")
	s.want(s.post("operator", "/merchants/Fjord%20Audio", url.Values{"version": {first}, "mcc": {"5411"}}), 400, "role=\"alert\"")
	s.want(s.post("operator", "/merchants/Fjord%20Audio", url.Values{"version": {version()}, "mcc": {"57"}}), 400, `value="57"`, "role=\"alert\"")
	s.want(s.get("operator", "/merchants/Corner%20Shop"), 200, "Set in the configuration file", "which wins")
	if body := s.get("operator", "/merchants/Corner%20Shop").Body.String(); strings.Contains(body, `value="change"`) {
		t.Error("a merchant of the file has a form")
	}
	if w := s.post("operator", "/merchants/Fjord%20Audio", url.Values{"version": {version()}, "do": {"remove"}}); w.Code != 303 {
		t.Errorf("remove: %d", w.Code)
	}
	s.want(s.get("operator", "/merchants/Fjord%20Audio"), 404)
	s.checkTrail("merchant.change", "passkey:operator")
}

// TestK6AcquirersAndOriginsAreEdited: by scheme and line by line. What the form does not have stays, and what is wrong
// is named with what was typed.
func TestK6AcquirersAndOriginsAreEdited(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Admin.Merchants().Schemes = []string{"visa", "jcb"}
	actor := operator.Actor{Who: "cli:test", Role: operator.Admin}
	_, err := s.Admin.AddMerchant(t.Context(), actor, account.Merchant{
		Name: "Fjord", Origins: []string{"https://a.example"}, PerDirectory: map[string]account.Requestor{"visa": {ID: "R-1", AcquirerBIN: "400551"}},
	})
	must(t, err)
	const at, visa = "/merchants/Fjord", "per_directory.visa."
	version := func() string {
		return regexp.MustCompile(`name="version" value="([^"]*)"`).FindStringSubmatch(s.get("operator", at).Body.String())[1]
	}
	s.want(s.get("operator", at), 200, `name="`+visa+`acquirer_bin" value="400551"`, `name="per_directory.jcb.acquirer_bin" value=""`,
		">https://a.example</textarea>", "per_directory.visa.requestor_id")
	form := url.Values{
		"version": {version()}, "origins": {"https://b.example\r\n https://c.example\n"}, visa + "acquirer_bin": {""},
		visa + "acquirer_merchant_id": {" M-1 "}, "per_directory.jcb.acquirer_bin": {"353011"}, "rate": {"20/s"}, "in_flight": {"50"},
		"scheme_rules": {"enforce"}, "transliterate": {"1"}, "page.colour": {"#0A5C36"},
	}
	if w := s.post("operator", at, form); w.Code != 303 {
		t.Fatalf("change: %d %s", w.Code, w.Body)
	}
	e, err := s.Admin.Merchant(t.Context(), actor, "Fjord")
	must(t, err)
	want := map[string]account.Requestor{"visa": {ID: "R-1", AcquirerMerchantID: "M-1"}, "jcb": {AcquirerBIN: "353011"}}
	if !maps.Equal(e.PerDirectory, want) || strings.Join(e.Origins, " ") != "https://b.example https://c.example" ||
		e.Rate.PerSecond() != 20 || e.InFlight != 50 || e.SchemeRules != "enforce" || !e.Transliterate || e.Bridging || e.Page.Colour != "#0a5c36" {
		t.Errorf("the merchant is %+v", e.Merchant)
	}
	s.want(s.get("operator", at), 200, `<option value="enforce" selected>`, `name="transliterate" value="1" checked`, `name="page.colour" value="#0a5c36"`)
	if body := s.get("viewer", at).Body.String(); !strings.Contains(body, "353011") || strings.Contains(body, "{&#34;") {
		t.Error("a viewer does not see the acquirer, or sees JSON")
	}
	form.Set("version", version())
	form.Set("origins", "https://b.example/path")
	form.Set(visa+"acquirer_bin", "x")
	s.want(s.post("operator", at, form), 400, `role="alert"`, "origins[0]", `value="x"`, ">https://b.example/path</textarea>")
	s.want(s.post("operator", at, url.Values{"version": {version()}, "in_flight": {"many"}}), 400, "in_flight: want a whole number", `value="many"`)
}

// TestK6MerchantIsDisabledWithAReason: a merchant of the configuration file, too, and not without a tick and a reason.
// The list and the page say so. The merchant's own people are not told why.
func TestK6MerchantIsDisabledWithAReason(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const at = "/merchants/Corner%20Shop"
	why := url.Values{"do": {"disable"}, "reason": {"stolen keys"}, "sure": {"1"}}
	for _, missing := range []string{"sure", "reason"} {
		form := maps.Clone(why)
		delete(form, missing)
		s.want(s.post("operator", at, form), 400, `role="alert"`)
	}
	s.want(s.post("operator", at, url.Values{"do": {"disable"}, "reason": {"stolen keys"}}), 400, `value="stolen keys"`)
	if body := s.get("viewer", "/merchants").Body.String(); strings.Contains(body, "Disabled") {
		t.Error("a merchant is disabled before anybody has done so")
	}
	for _, caller := range []string{"viewer", "own-operator"} {
		s.want(s.post(caller, at, why), 403)
	}
	if w := s.post("operator", at, why); w.Code != 303 {
		t.Fatalf("disable: %d", w.Code)
	}
	s.want(s.get("viewer", "/merchants"), 200, "1 merchant is disabled", "Disabled</span>")
	s.want(s.get("viewer", at), 200, "have been refused since 1 Mar 2027, 12:00:00 UTC", "Reason: stolen keys", "Disabled by passkey:operator")
	if body := s.get("own-admin", at).Body.String(); !strings.Contains(body, "have been refused since") || strings.Contains(body, "stolen keys") {
		t.Error("the shop's own people do not see that it is disabled, or see why")
	}
	s.want(s.post("operator", at, why), 400, "the merchant is disabled already")
	if w := s.post("operator", at, url.Values{"do": {"enable"}}); w.Code != 303 {
		t.Errorf("enable: %d", w.Code)
	}
	s.want(s.post("operator", at, url.Values{"do": {"enable"}}), 400, "the merchant is not disabled")
	if body := s.get("viewer", "/merchants").Body.String(); strings.Contains(body, "Disabled") {
		t.Error("the merchant is disabled still")
	}
	s.checkTrail("merchant.disable", "passkey:operator")
	s.checkTrail("merchant.enable", "passkey:operator")
}

// TestK6KeyIsShownOnce: in the answer that makes it, and on no page after that.
func TestK6KeyIsShownOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.post("own-operator", "/keys", url.Values{"merchant": {shop}, "label": {"till 4"}, "allow": {"203.0.113.0/24, 192.0.2.0/24"}, "expires": {"2028-01-31"}})
	shown := regexp.MustCompile(`id="secret"[^>]*>([^<]+)</pre>`).FindStringSubmatch(w.Body.String())
	if w.Code != 200 || shown == nil || len(shown[1]) < 20 {
		t.Fatalf("no key: %d", w.Code)
	}
	for _, at := range []string{"/keys", "/merchants/Corner%20Shop"} {
		body := s.get("admin", at).Body.String()
		if strings.Contains(body, shown[1]) || !strings.Contains(body, "till 4") || !strings.Contains(body, "203.0.113.0/24 192.0.2.0/24") {
			t.Errorf("%s after it", at)
		}
	}
	s.want(s.post("own-operator", "/keys", url.Values{"merchant": {otherShop}}), 404)
	s.want(s.post("operator", "/keys", url.Values{"merchant": {shop}, "expires": {"soon"}, "label": {"till 5"}}), 400, "needs a form such as", "till 5")
	s.want(s.post("operator", "/keys", url.Values{"merchant": {shop}, "allow": {"everywhere"}}), 400, "role=\"alert\"", `value="everywhere"`)
	revoke := regexp.MustCompile(`action="(/keys/[0-9a-f]+/revoke)"`).FindStringSubmatch(s.get("operator", "/keys").Body.String())
	if w := s.post("operator", revoke[1], url.Values{}); w.Code != 303 {
		t.Errorf("revoke: %d", w.Code)
	}
	if body := s.get("operator", "/keys").Body.String(); strings.Contains(body, "till 4") {
		t.Error("a revoked key is on the page")
	}
	s.checkTrail("key.create", "passkey:own-operator")
	s.checkTrail("key.revoke", "passkey:operator")
}

// TestK5Reports: the same numbers on the page and in the file, of one's own merchant alone, and no formula in it.
func TestK5Reports(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(s.get("viewer", "/reports?by=merchant"), 200, shop, otherShop, `data-l="Median">6`)
	own := s.get("own-viewer", "/reports?by=merchant").Body.String()
	if strings.Contains(own, otherShop) || !strings.Contains(own, shop) {
		t.Error("the shop's own people see another's, or not their own")
	}
	w := s.get("viewer", "/reports.csv?by=merchant")
	rows, err := csv.NewReader(w.Body).ReadAll()
	if err != nil || len(rows) != 3 || rows[0][0] != "merchant" || rows[1][0] != shop || rows[1][1] != "2" {
		t.Errorf("file: %v, %v", rows, err)
	}
	r := recordOf("30000000-0000-4000-8000-000000000001")
	r.Created, r.Merchant = s.Now.Add(-1e9), "=1+1"
	s.add("answered", r, stepOf("areq", r.Created))
	if body := s.get("viewer", "/reports.csv?by=merchant").Body.String(); !strings.Contains(body, "'=1+1") {
		t.Errorf("a formula in the file: %s", body)
	}
}

// TestK5ReportOfMandates: the page says which rules are broken, from when on they count, and how often. Its file has
// the same, only for the operator's own merchant, and contains no formula.
func TestK5ReportOfMandates(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(s.get("viewer", "/reports?by=mandates"), 200, "Every request of this time keeps the rules")
	s.AddUnkept()
	s.want(s.get("viewer", "/reports?by=mandates"), 200, shop, otherShop, "email</span> or <span", "must be sent",
		"should be sent", "Now", "From 1 May 2027", "Advice",
		`href="/authentications/40000000-0000-4000-8000-000000000001"`)
	if body := s.get("own-viewer", "/reports?by=mandates").Body.String(); strings.Contains(body, otherShop) || !strings.Contains(body, shop) {
		t.Error("the shop's own people see another's, or not their own")
	}
	rows, err := csv.NewReader(s.get("own-viewer", "/reports.csv?by=mandates").Body).ReadAll()
	if err != nil || len(rows) != 4 || rows[0][0] != "merchant" || rows[1][2] != "email|homePhone" ||
		rows[1][6] != "true" || rows[2][4] != "2027-05-01" || rows[3][3] != "advise" {
		t.Errorf("file: %v, %v", rows, err)
	}
	r := recordOf("40000000-0000-4000-8000-000000000003")
	r.Created, r.Merchant, r.Unkept = s.Now.Add(-1e9), "=1+1", []journal.Rule{{Element: "mcc", Rule: "require"}}
	s.add("answered", r, stepOf("areq", r.Created))
	if body := s.get("viewer", "/reports.csv?by=mandates").Body.String(); !strings.Contains(body, "'=1+1") {
		t.Errorf("a formula in the file: %s", body)
	}
}

// TestK5Billing: the page and the file have the same numbers, only for the operator's own merchant. The file contains
// no formula. The numbers stay when the merchant is erased.
func TestK5Billing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := recordOf("30000000-0000-4000-8000-000000000001")
	r.Created, r.Merchant = s.Now.Add(-1e9), "=1+1"
	s.add("answered", r, stepOf("areq", r.Created))
	const cells = `<td class="num" data-l="All">2</td><td class="num" data-l="Frictionless">0</td><td class="num" data-l="Challenged">2</td>`
	for _, isErased := range []bool{false, true} {
		s.want(s.get("viewer", "/billing"), 200, shop, otherShop, "All merchants", `data-l="All">4`, cells, `data-l="Refused">1`)
		own := s.get("own-viewer", "/billing").Body.String()
		if strings.Contains(own, otherShop) || !strings.Contains(own, cells) || strings.Contains(own, "All merchants") {
			t.Error("the shop's own people see another's, or not their own")
		}
		w := s.get("viewer", "/billing.csv")
		rows, err := csv.NewReader(w.Body).ReadAll()
		if err != nil || len(rows) != 5 || rows[0][0] != "month" || rows[1][1] != "'=1+1" || rows[2][1] != shop || rows[2][5] != "challenged" || rows[2][6] != "2" {
			t.Errorf("erased: %t, file: %v, %v", isErased, rows, err)
		}
		if rows, err := csv.NewReader(s.get("own-viewer", "/billing.csv").Body).ReadAll(); err != nil || len(rows) != 3 {
			t.Errorf("the shop's own file: %v, %v", rows, err)
		}
		if _, err := s.Admin.Erase(t.Context(), journal.Query{Merchant: shop}); err != nil {
			t.Fatal(err)
		}
	}
	s.want(s.get("viewer", "/billing?month=2020-02"), 200, "Nothing in this month")
}

// TestK3Overview: the sums and each scheme, of one's own merchant alone.
func TestK3Overview(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(s.get("viewer", "/"), 200, "<dt>Authentications</dt><dd>3</dd>", "<dd>33.3\u00a0%</dd>", `href="/authentications?scheme=visa&amp;time=24h"`)
	s.want(s.get("own-viewer", "/"), 200, "<dt>Authentications</dt><dd>2</dd>", "<dd>50.0\u00a0%</dd>")
	s.Now = s.Now.AddDate(0, 0, 20)
	s.want(s.get("viewer", "/"), 200, "Nothing has happened in this time", "Open the shop")
	s.want(s.get("viewer", "/?time=30d"), 200, "<dt>Authentications</dt><dd>3</dd>")
	s.Admin.Journal = nil
	s.want(s.get("viewer", "/"), 200, "The journal is off")
}

// TestK10Audit: what was done and looked at is there, with a file.
func TestK10Audit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.get("viewer", "/authentications/"+passedID)
	s.post("operator", "/keys", url.Values{"merchant": {shop}, "label": {"till 4"}})
	s.want(s.get("admin", "/audit"), 200, "record.view", passedID, "passkey:viewer", "key.create", "till 4", "192.0.2.1")
	body := s.get("admin", "/audit?action=key.create").Body.String()
	if strings.Contains(body, "record.view") || !strings.Contains(body, "till 4") {
		t.Error("the search for an action")
	}
	file := s.get("admin", "/audit.jsonl?action=key.create")
	got, err := journal.Verify(file.Body, s.Keys.PublicKey())
	if err != nil || got.Records != 1 || file.Header().Get("Content-Disposition") != `attachment; filename="audit.jsonl"` {
		t.Errorf("the file: %+v, %v, %v", got, err, file.Header())
	}
	s.checkTrail("audit.export", "passkey:admin")
	s.want(s.get("admin", "/audit?from=never"), 400, "needs a form such as")
}

// TestK11TokenIsShownOnce: as a key is.
func TestK11TokenIsShownOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.post("admin", "/tokens", url.Values{"name": {"monitor"}, "role": {"viewer"}})
	shown := regexp.MustCompile(`id="secret"[^>]*>([^<]+)</pre>`).FindStringSubmatch(w.Body.String())
	if w.Code != 200 || shown == nil {
		t.Fatalf("no token: %d", w.Code)
	}
	if a, err := s.Admin.Operators.FindActor(t.Context(), shown[1]); err != nil || a.Role != operator.Viewer {
		t.Errorf("the token is of %+v, %v", a, err)
	}
	if body := s.get("admin", "/tokens").Body.String(); strings.Contains(body, shown[1]) || !strings.Contains(body, "monitor") {
		t.Error("the page after it")
	}
	s.want(s.post("admin", "/tokens", url.Values{"name": {"monitor"}, "role": {"viewer"}}), 400, "role=\"alert\"")
	if w := s.post("admin", "/tokens/monitor/revoke", url.Values{}); w.Code != 303 {
		t.Errorf("revoke: %d", w.Code)
	}
}

// TestK1AttacksInFormsAreText: in each field of each form, and in the pages that show what was typed.
func TestK1AttacksInFormsAreText(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, attack := range attacks {
		all := map[string]url.Values{}
		for _, name := range []string{"merchant", "label", "expires", "allow"} {
			form := url.Values{"merchant": {shop}}
			form.Set(name, attack)
			all["/keys?"+name] = form
		}
		for _, name := range []string{"name", "role", "merchant", "expires"} {
			form := url.Values{"name": {"x"}, "role": {"viewer"}}
			form.Set(name, attack)
			all["/tokens?"+name] = form
		}
		for _, name := range []string{"name", "role", "merchant"} {
			form := url.Values{"name": {"jo"}, "role": {"viewer"}}
			form.Set(name, attack)
			all["/operators?"+name], all["/operators/"+url.PathEscape(attack)+"?"+name] = form, form
		}
		all["/explain"], all["/explain?merchant"] = url.Values{"text": {attack}}, url.Values{"text": {"{}"}, "merchant": {attack}}
		for _, name := range []string{"merchant", "url", "description", "type"} {
			form := url.Values{"merchant": {shop}, "url": {"https://shop.example/"}, "type": {"authentication.failed"}}
			form.Set(name, attack)
			all["/webhooks?"+name], all["/webhooks/"+hookID+"?"+name] = form, form
		}
		all["/merchants"] = url.Values{"name": {attack}}
		all["/authentications/search"] = url.Values{"card": {attack}}
		for at, form := range all {
			if body := s.post("admin", at, form).Body.String(); isHarmful(body, attack) {
				t.Errorf("POST %s: %q is on the page", at, attack)
			}
		}
		for _, at := range []string{
			"/keys", "/tokens", "/merchants", "/webhooks", "/webhooks/" + hookID, "/operators", "/explain", "/webhooks/" + hookID + "?cursor=" + url.QueryEscape(attack),
			"/merchants/" + url.PathEscape(attack), "/audit", "/audit?who=" + url.QueryEscape(attack),
			"/audit?action=" + url.QueryEscape(attack), "/audit?object=" + url.QueryEscape(attack), "/audit?from=" + url.QueryEscape(attack),
			"/reports?by=" + url.QueryEscape(attack), "/reports?time=" + url.QueryEscape(attack), "/audit?cursor=" + url.QueryEscape(attack),
		} {
			if body := s.get("admin", at).Body.String(); isHarmful(body, attack) {
				t.Errorf("%s: %q is on the page", at, attack)
			}
		}
	}
}
