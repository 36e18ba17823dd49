package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// A site is the API with a store of two merchants and a token of each kind, which have the names that callers returns.
type site struct {
	*testing.T
	handler *admin.Handler
	db      *storetest.Memory
	tokens  map[string]string
}

// callers returns the kinds of tokens: three roles, and the same roles of one merchant's own people.
func callers() []string {
	return []string{"viewer", "operator", "admin", "own-viewer", "own-operator", "own-admin"}
}

const shop, otherShop = "Corner Shop", "Other Shop"

func newSite(t *testing.T) *site {
	t.Helper()
	ring, err := keyring.LoadOrCreate(filepath.Join(t.TempDir(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	db := storetest.NewMemory(time.Now)
	registry := &merchant.Registry{Store: db, Ring: ring, InFile: []account.Merchant{{Name: shop}, {Name: otherShop}}, CheckProfile: config.CheckProfile}
	s := &site{t, &admin.Handler{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Acts: &ops.Acts{
		Operators: &operator.Service{Store: db, Sealer: ring, Now: time.Now}, Store: db, Now: time.Now,
		Ring: func() account.Ring { return ring }, Merchants: func() *merchant.Registry { return registry },
		PasskeyURL: func() string { return "https://console.example" },
	}}, db, map[string]string{}}
	s.handler.Explain = func(merchant string, text []byte) (json.RawMessage, error) {
		return json.Marshal(map[string]string{"verdict": "invalid", "merchant": merchant, "text": string(text)})
	}
	s.handler.Hooks = &webhook.Service{Store: db, Sealer: ring, Now: time.Now, Log: s.handler.Log}
	s.handler.Hooks.Configure(hookSettings())
	s.addJournal()
	s.handler.LegalHolds = s.handler.Journal
	s.handler.Erase = func(ctx context.Context, q journal.Query) (done ops.Erased, err error) {
		if done.Held, err = s.handler.Journal.CountHeld(ctx, q); err == nil {
			done.Authentications, done.Records, err = s.handler.Journal.Erase(ctx, q)
		}
		return done, err
	}
	s.addNode()
	for _, name := range callers() {
		role, isOwn := strings.CutPrefix(name, "own-")
		token := operator.Token{Name: name, Role: operator.Role(role)}
		if isOwn {
			token.Merchant = shop
		}
		if s.tokens[name], err = s.handler.Operators.CreateToken(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// call asks as a caller, "" without a token, and returns the answer.
func (s *site) call(caller, method, path, body string) *httptest.ResponseRecorder {
	s.Helper()
	r := httptest.NewRequest(method, admin.Prefix+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if caller != "" {
		r.Header.Set("Authorization", "Bearer "+s.tokens[caller])
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	s.checkShape(method, path, w)
	return w
}

// checkShape holds a good answer against the types that [admin.Operations] names: it has their members and no others.
func (s *site) checkShape(method, path string, w *httptest.ResponseRecorder) {
	s.Helper()
	path, _, _ = strings.Cut(path, "?")
	mux := http.NewServeMux()
	for _, o := range admin.Operations() {
		mux.HandleFunc(o.Method+" /"+o.Path, func(http.ResponseWriter, *http.Request) {
			if len(o.Answers) != 1 || o.Path == "events/{id}" { // the data of an event is made up here
				return
			}
			if _, isFile := o.Answers[0].(admin.File); isFile {
				return
			}
			into := reflect.New(reflect.TypeOf(o.Answers[0]))
			d := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
			d.DisallowUnknownFields()
			if err := d.Decode(into.Interface()); err != nil {
				s.Errorf("%s %s: the answer is not as described: %v: %s", method, path, err, w.Body)
				return
			}
			again, err := json.Marshal(into.Interface())
			var is, was any
			if err != nil || json.Unmarshal(again, &is) != nil || json.Unmarshal(w.Body.Bytes(), &was) != nil || !reflect.DeepEqual(is, was) {
				s.Errorf("%s %s: the answer is not as described: %v: %s, want %s", method, path, err, w.Body, again)
			}
		})
	}
	if w.Code == http.StatusOK || w.Code == http.StatusCreated {
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, "/"+path, nil))
	}
}

// addOperator adds an operator of the console, an admin, and returns the name.
func (s *site) addOperator(name string) string {
	s.Helper()
	if err := s.handler.Operators.AddUser(s.Context(), &operator.User{Name: name, Role: operator.Admin}); err != nil {
		s.Fatal(err)
	}
	return name
}

// newKey makes a key for a merchant and returns its hash.
func (s *site) newKey(merchant string) string {
	s.Helper()
	w := s.call("admin", "POST", "keys", fmt.Sprintf(`{"merchant": %q, "label": "till"}`, merchant))
	var made struct{ Hash string }
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusCreated || made.Hash == "" {
		s.Fatalf("a key for %s: %d %s", merchant, w.Code, w.Body)
	}
	return made.Hash
}

// rightsInManual returns which of the callers may call each operation, by the table of admin.md, and which operations
// are for groups of merchants.
func rightsInManual(t *testing.T) (all map[string][6]bool, forGroups map[string]bool) {
	t.Helper()
	manual, err := os.ReadFile("../../../docs/operating/admin.md")
	if err != nil {
		t.Fatal(err)
	}
	all, forGroups = map[string][6]bool{}, map[string]bool{}
	for line := range strings.Lines(string(manual)) {
		cells := strings.Split(line, "|")
		if len(cells) != 8 {
			continue
		}
		var may [6]bool
		for i := range may {
			isOwn := i >= 3
			may[i] = strings.TrimSpace(cells[2+i%3]) == "yes" && (!isOwn || strings.TrimSpace(cells[5]) != "no")
		}
		for _, named := range regexp.MustCompile("`([A-Z]+ [a-z][^`?]*)").FindAllStringSubmatch(cells[1], -1) {
			operation := regexp.MustCompile(`/([A-Z]+)\b`).ReplaceAllStringFunc(named[1], func(s string) string { return "/{" + strings.ToLower(s[1:]) + "}" })
			all[operation], forGroups[operation] = may, strings.TrimSpace(cells[6]) != "no"
		}
	}
	return all, forGroups
}

// TestK11MatrixOfRolesIsExact calls each operation that the description names, as each role.
func TestK11MatrixOfRolesIsExact(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var api struct {
		OpenAPI string
		Paths   map[string]map[string]struct{ Responses map[string]any }
	}
	body := s.call("viewer", "GET", "openapi.json", "").Body.Bytes()
	if err := json.Unmarshal(body, &api); err != nil || api.OpenAPI != "3.1.0" {
		t.Fatalf("openapi.json: %+v, %v", api, err)
	}
	rights, forGroups := rightsInManual(t)
	for _, o := range admin.Operations() {
		if name := o.Method + " " + o.Path; o.IsForGroups != forGroups[name] {
			t.Errorf("%s is for groups: %t, and not so in admin.md", name, o.IsForGroups)
		}
	}
	described := 0
	for path, methods := range api.Paths {
		for method, of := range methods {
			described++
			operation := strings.ToUpper(method) + " " + strings.TrimPrefix(path, admin.Prefix)
			may, ok := rights[operation]
			if !ok {
				t.Errorf("the table of admin.md has no %s", operation)
			}
			var want [6]int
			for i, isAllowed := range may {
				for status := range of.Responses {
					if n, err := strconv.Atoi(status); err == nil {
						want[i] = n
					}
				}
				switch {
				case !isAllowed:
					want[i] = http.StatusForbidden
				case strings.HasSuffix(operation, "/install"): // no certificate is sent
					want[i] = http.StatusBadRequest
				case regexp.MustCompile("^POST (certificates/.*/(activate|rollback|test)|ranges/.*/accept)$").MatchString(operation): // there is none
					want[i] = http.StatusConflict
				}
			}
			s.checkOperation(operation, want)
		}
	}
	if described != len(rights) {
		t.Errorf("%d operations are described, the table of admin.md has %d", described, len(rights))
	}
}

// TestEveryActOfTheAdminAPIHasARoute: each act that the table gives to the admin API has an operation with its right,
// and no operation has another.
func TestEveryActOfTheAdminAPIHasARoute(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var described struct {
		Paths map[string]map[string]struct {
			Act   string `json:"x-act"`
			Least string `json:"x-least-role"`
		}
	}
	if err := json.Unmarshal(s.call("viewer", "GET", "openapi.json", "").Body.Bytes(), &described); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for path, methods := range described.Paths {
		for method, of := range methods {
			seen[of.Act] = true
			if act := ops.Lookup(of.Act); act == nil || !act.Has(ops.Admin) || string(act.Least) != of.Least {
				t.Errorf("%s %s is that of %q with the role %s, which the table does not have", method, path, of.Act, of.Least)
			}
		}
	}
	for _, act := range ops.Table() {
		if act.Has(ops.Admin) && !seen[act.Name] {
			t.Errorf("%q has no operation", act.Name)
		}
	}
}

// checkOperation calls an operation as everybody, and without a token.
func (s *site) checkOperation(operation string, want [6]int) {
	s.Helper()
	method, path, _ := strings.Cut(operation, " ")
	for i, caller := range callers() {
		at, body := path, ""
		switch operation {
		case "POST keys":
			body = fmt.Sprintf(`{"merchant": %q}`, shop)
		case "DELETE keys/{hash}":
			at = "keys/" + s.newKey(shop)
		case "GET merchants/{name}":
			at = "merchants/Corner%20Shop"
		case "POST merchants":
			body = fmt.Sprintf(`{"name": "New %s"}`, caller)
		case "PATCH merchants/{name}", "DELETE merchants/{name}":
			version := s.addMerchant(method + caller)
			at, body = "merchants/"+method+caller, fmt.Sprintf(`{"version": %q, "mcc": "5411"}`, version)
			if method == "DELETE" {
				at += "?version=" + version
			}
		case "POST merchants/{name}/disable", "POST merchants/{name}/enable":
			name := strings.TrimPrefix(path, "merchants/{name}/") + caller
			s.addMerchant(name)
			at, body = strings.Replace(path, "{name}", name, 1), `{"reason": "stolen keys"}`
			if strings.HasSuffix(path, "enable") {
				s.call("admin", "POST", "merchants/"+name+"/disable", body)
			}
		case "GET authentications/{id}":
			at = "authentications/" + passedID
		case "POST authentications/search":
			body = `{"last4": "0103"}`
		case "GET ranges/{scheme}", "GET ranges/{scheme}/diff", "POST ranges/{scheme}/accept", "POST ranges/{scheme}/refresh":
			at, body = strings.ReplaceAll(path, "{scheme}", "visa"), "{}"
			if strings.HasSuffix(path, "diff") {
				at += "?old=0&new=0"
			}
		case "GET reports":
			at = "reports?by=day"
		case "POST journal/erase":
			body = `{"merchant": "Old Shop"}`
		case "POST journal/holds":
			body = fmt.Sprintf(`{"name": "case %s", "merchant": %q, "reason": "a dispute"}`, caller, shop)
		case "DELETE journal/holds/{name}":
			s.call("admin", "POST", "journal/holds", fmt.Sprintf(`{"name": "over %s", "merchant": %q, "reason": "a dispute"}`, caller, shop))
			at = "journal/holds/over%20" + caller
		case "POST operators":
			body = `{"role": "viewer"}`
		case "PATCH operators/{name}", "DELETE operators/{name}":
			at, body = "operators/"+s.addOperator(method+caller), `{"role": "viewer"}`
		case "POST webhook-endpoints":
			body = fmt.Sprintf(`{"merchant": %q, "url": "https://shop.example/hooks"}`, shop)
		case "POST explain":
			body = `{"acctNumber": "4000001234567890"}`
		case "POST events/resend":
			body = fmt.Sprintf(`{"merchant": %q, "from": "2027-01-01T00:00:00Z"}`, shop)
		case "GET events":
			at = "events?merchant=Corner+Shop"
		case "POST tokens":
			body = fmt.Sprintf(`{"name": "for-%s", "role": "viewer"}`, caller)
		case "DELETE tokens/{name}":
			at = "tokens/t" + caller
			s.call("admin", "POST", "tokens", fmt.Sprintf(`{"name": "t%s", "role": "viewer"}`, caller))
		}
		switch {
		case strings.HasPrefix(path, "certificates/{scheme}"):
			at, body = strings.Replace(path, "{scheme}", "visa", 1), "{}"
		case strings.HasPrefix(path, "webhook-endpoints/{id}"):
			at, body = strings.Replace(path, "{id}", s.newHook(shop), 1), `{"description": "till"}`
		case strings.HasPrefix(path, "events/{id}"):
			at = strings.Replace(path, "{id}", s.newEvent(shop), 1)
		}
		if w := s.call(caller, method, at, body); w.Code != want[i] {
			s.Errorf("%s as %s: %d, want %d: %s", operation, caller, w.Code, want[i], w.Body)
		}
		w := s.call("", method, at, body)
		if w.Code != 401 || w.Header().Get("WWW-Authenticate") != "Bearer" ||
			w.Header().Get("Content-Type") != "application/problem+json" {
			s.Errorf("%s without a token: %d %v", operation, w.Code, w.Header())
		}
		if strings.HasPrefix(path, "webhook-endpoints") {
			s.removeHooks()
		}
	}
}

// removeHooks removes all webhook endpoints of the shop, which may have a few only.
func (s *site) removeHooks() {
	s.Helper()
	var list struct{ Data []struct{ ID string } }
	body := s.call("admin", "GET", "webhook-endpoints?merchant=Corner+Shop", "").Body.Bytes()
	if err := json.Unmarshal(body, &list); err != nil {
		s.Fatalf("%s: %v", body, err)
	}
	for _, endpoint := range list.Data {
		if w := s.call("admin", "DELETE", "webhook-endpoints/"+endpoint.ID, ""); w.Code >= 300 {
			s.Fatalf("DELETE of an endpoint: %d %s", w.Code, w.Body)
		}
	}
}

// TestK2OwnPeopleSeeTheirMerchantOnly: what belongs to another merchant is unknown to them.
func TestK2OwnPeopleSeeTheirMerchantOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := s.newKey(otherShop)
	s.newKey(shop)
	for path, want := range map[string]string{"keys": otherShop, "merchants": otherShop} {
		body := s.call("own-admin", "GET", path, "").Body.String()
		if strings.Contains(body, want) || !strings.Contains(body, shop) {
			t.Errorf("GET %s of one merchant: %s", path, body)
		}
	}
	unknown := s.call("own-admin", "DELETE", "keys/"+strings.Repeat("00", 32), "")
	if w := s.call("own-admin", "DELETE", "keys/"+other, ""); w.Code != 404 || w.Body.String() != unknown.Body.String() {
		t.Errorf("revoke another's key: %d %s; want %s", w.Code, w.Body, unknown.Body)
	}
	for _, w := range []*httptest.ResponseRecorder{
		s.call("own-admin", "GET", "merchants/Other%20Shop", ""),
		s.call("own-admin", "POST", "keys", fmt.Sprintf(`{"merchant": %q}`, otherShop)),
	} {
		if w.Code != 404 {
			t.Errorf("another's merchant: %d %s", w.Code, w.Body)
		}
	}
	if keys, err := s.db.Keys(t.Context()); err != nil || len(keys) != 2 {
		t.Errorf("%d keys are left, %v", len(keys), err)
	}
}

// TestK10EveryChangeLeavesATrace: keys and tokens that are made or revoked are in the audit trail, without the secrets.
func TestK10EveryChangeLeavesATrace(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	hash := s.newKey(shop)
	s.call("operator", "DELETE", "keys/"+hash, "")
	w := s.call("admin", "POST", "tokens", `{"name": "ci", "role": "viewer"}`)
	var made struct{ Token string }
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || made.Token == "" {
		t.Fatalf("POST tokens: %s, %v", w.Body, err)
	}
	s.call("admin", "DELETE", "tokens/ci", "")
	if w := s.call("admin", "DELETE", "tokens/ci", ""); w.Code != 404 {
		t.Errorf("revoked twice: %d", w.Code)
	}
	w = s.call("admin", "GET", "audit", "")
	var got struct{ Data []operator.Entry }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range got.Data {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", e.Who, e.Role, e.Action, e.Object))
	}
	want := "token:admin admin token.revoke ci|token:admin admin token.create ci|" +
		"token:operator operator key.revoke " + hash + "|token:admin admin key.create " + hash
	if strings.Join(lines, "|") != want {
		t.Errorf("audit:\n%s\nwant\n%s", strings.Join(lines, "\n"), want)
	}
	if strings.Contains(w.Body.String(), made.Token) {
		t.Error("the audit trail has a token in it")
	}
	if strings.Contains(w.Body.String(), "0001-01-01") {
		t.Error("the audit trail says that what has no end has ended long ago")
	}
	if w := s.call("admin", "GET", "audit?limit=1", ""); !strings.Contains(w.Body.String(), `"next":"4"`) {
		t.Errorf("a page of one: %s", w.Body)
	}
	if w := s.call("admin", "GET", "audit?limit=9&cursor=2", ""); strings.Count(w.Body.String(), `"seq"`) != 1 {
		t.Errorf("the last page: %s", w.Body)
	}
}

// TestD140BadRequestsNameTheMember: the answer names the member that is wrong, and nothing is made.
func TestD140BadRequestsNameTheMember(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, tt := range []struct{ path, body, want string }{
		{"keys", `{"merchant": "nobody"}`, "merchant"}, {"keys", `{"merchant": 1}`, "merchant"}, {"keys", `[`, "JSON"},
		{"keys", `{"merchant": "Corner Shop", "expires": "2020-01-01T00:00:00Z"}`, "expires"},
		{"keys", `{"merchant": "Corner Shop", "label": "a\u0007"}`, "label"}, {"keys", `{"merchnt": "x"}`, "JSON"},
		{"tokens", `{"name": "a b", "role": "viewer"}`, "name"}, {"tokens", `{"name": "a", "role": "root"}`, "role"},
	} {
		if w := s.call("admin", "POST", tt.path, tt.body); w.Code != 400 || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("POST %s %s: %d %s", tt.path, tt.body, w.Code, w.Body)
		}
	}
	if w := s.call("admin", "POST", "tokens", `{"name": "admin", "role": "viewer"}`); w.Code != 409 {
		t.Errorf("a second token of one name: %d %s", w.Code, w.Body)
	}
	if w := s.call("admin", "GET", "nothing", ""); w.Code != 404 {
		t.Errorf("no such operation: %d", w.Code)
	}
	r := httptest.NewRequest("POST", admin.Prefix+"keys", strings.NewReader(`{"merchant": "Corner Shop"}`))
	r.Header.Set("Authorization", "Bearer "+s.tokens["admin"])
	r.Header.Set("Content-Type", "text/plain") // what a form of another page can send
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	if keys, err := s.db.Keys(t.Context()); w.Code != 415 || err != nil || len(keys) != 0 {
		t.Errorf("a body that is not called JSON: %d, %d keys, %v", w.Code, len(keys), err)
	}
}

// TestD148AnswersSayHowLongTheyTook: each answer has a Server-Timing, and is kept nowhere.
func TestD148AnswersSayHowLongTheyTook(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, path := range []string{"keys", "tokens", "nothing"} {
		h := s.call("viewer", "GET", path, "").Header()
		if !strings.HasPrefix(h.Get("Server-Timing"), "total;dur=") || h.Get("Cache-Control") != "no-store" {
			t.Errorf("GET %s: %v", path, h)
		}
	}
}

// addMerchant adds a merchant to the store and returns its version.
func (s *site) addMerchant(name string) string {
	s.Helper()
	w := s.call("admin", "POST", "merchants", fmt.Sprintf(`{"name": %q}`, name))
	var made struct{ Source, Version string }
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != 201 || made.Source != "store" {
		s.Fatalf("a merchant %s: %d %s", name, w.Code, w.Body)
	}
	return made.Version
}

// TestD148MerchantsOfTheFileStay: one of the file is not changed here, and no change of somebody else's is lost.
func TestD148MerchantsOfTheFileStay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	version := s.addMerchant("New")
	for _, tt := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "merchants", `{"name": "Corner Shop"}`, 409}, {"POST", "merchants", `{"name": "New"}`, 409},
		{"PATCH", "merchants/Corner%20Shop", `{"version": "x", "mcc": "5411"}`, 409},
		{"DELETE", "merchants/Corner%20Shop?version=x", "", 409}, {"PATCH", "merchants/Nobody", `{"version": "x"}`, 404},
		{"POST", "merchants", `{"name": "Other", "mcc": "54111"}`, 400}, {"POST", "merchants", `{"nmae": "Other"}`, 400},
		{"PATCH", "merchants/New", `{"mcc": "5411"}`, 400},
		{"PATCH", "merchants/New", `{"version": "` + version + `", "name": "Else"}`, 400},
		{"PATCH", "merchants/New", `{"version": "` + version + `", "mcc": "5411"}`, 200},
		{"PATCH", "merchants/New", `{"version": "` + version + `", "mcc": "5412"}`, 409},
		{"DELETE", "merchants/New?version=" + version, "", 409},
	} {
		if w := s.call("operator", tt.method, tt.path, tt.body); w.Code != tt.want {
			t.Errorf("%s %s %s: %d, want %d: %s", tt.method, tt.path, tt.body, w.Code, tt.want, w.Body)
		}
	}
	if w := s.call("viewer", "GET", "merchants/New", ""); !strings.Contains(w.Body.String(), `"mcc":"5411"`) {
		t.Errorf("the merchant after its change: %s", w.Body)
	}
	if w := s.call("admin", "GET", "audit?object=New", ""); strings.Count(w.Body.String(), `"seq"`) != 2 {
		t.Errorf("two changes left: %s", w.Body)
	}
}

// TestD141OperatorsByAPI: a link is for one passkey. A change of the role takes effect immediately and is in the audit
// trail. The role of an operator that the issuer knows comes from the issuer.
func TestD141OperatorsByAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.call("admin", "POST", "operators", `{"name": "jo", "role": "operator", "merchant": "Corner Shop"}`)
	var made struct{ Link, Name string }
	err := json.Unmarshal(w.Body.Bytes(), &made)
	secret, isLink := strings.CutPrefix(made.Link, "https://console.example/invite/")
	if err != nil || !isLink || made.Name != "jo" {
		t.Fatalf("an invitation: %d %s", w.Code, w.Body)
	}
	i, err := s.handler.Operators.FindInvitation(t.Context(), secret)
	if err != nil || i.Role != operator.Operator || i.Merchant != "Corner Shop" {
		t.Errorf("the invitation is %+v, %v", i, err)
	}
	s.addOperator("kim")
	s.addOperator("oidc:4711")
	for _, test := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "operators", `{"name": "kim", "role": "viewer"}`, 409}, {"POST", "operators", `{"name": "a/b", "role": "viewer"}`, 400},
		{"POST", "operators", `{"role": "root"}`, 400}, {"PATCH", "operators/nobody", `{"role": "viewer"}`, 404}, {"PATCH", "operators/kim", `{"role": "root"}`, 400},
		{"PATCH", "operators/oidc:4711", `{"role": "viewer"}`, 409}, {"PATCH", "operators/kim", `{"role": "viewer"}`, 200},
		{"DELETE", "operators/nobody", "", 404}, {"DELETE", "operators/oidc:4711", "", 204},
	} {
		if w := s.call("admin", test.method, test.path, test.body); w.Code != test.want {
			t.Errorf("%s %s %s: %d, want %d: %s", test.method, test.path, test.body, w.Code, test.want, w.Body)
		}
	}
	body := s.call("admin", "GET", "operators", "").Body.String()
	if !strings.Contains(body, `"name":"kim","role":"viewer"`) || strings.Contains(body, "4711") || strings.Contains(body, "ndle") {
		t.Errorf("the list is %s", body)
	}
	audit := s.call("admin", "GET", "audit?action=operator.role", "").Body.String()
	if !strings.Contains(audit, `"before":{"role":"admin"},"after":{"role":"viewer"}`) {
		t.Errorf("the audit trail has %s", audit)
	}
	if all := s.call("admin", "GET", "audit", "").Body.String(); strings.Contains(all, secret) {
		t.Error("the secret of the link is in the audit trail")
	}
	s.handler.PasskeyURL = nil
	if w := s.call("admin", "POST", "operators", `{"role": "viewer"}`); w.Code != 409 {
		t.Errorf("without passkeys: %d %s", w.Code, w.Body)
	}
}
