package pages_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/edge/pages"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// The two groups of merchants. Each has a merchant of the file and one of the store.
const (
	groupA, groupB = "acme", "quaggagroup"
	merchantA      = "Acme Books"
	merchantB      = "Quagga Outfitters"
)

// What group B has, and nobody of group A may learn of.
const (
	recordB, refusedB = "5b5b5b5b-0000-4000-8000-000000000b01", "5b5b5b5b-0000-4000-8000-000000000b02"
	recordA           = "5a5a5a5a-0000-4000-8000-000000000a01"
	cardB, last4B     = "4000000000007313", "7313"
	hookB             = "ep_quagga"
	nodeName          = "node-quux"
)

// A groupSite is a console with two groups of merchants, and a person and a token of each.
type groupSite struct {
	*site
	people, tokens map[string]string // the secret of the session, and the token, by name
	hashB, eventB  string            // an API key and an event of group B
	unknown        map[string]string // for each identifier of group B one that is none, of the same form
}

var cli = operator.Actor{Who: "cli:test", Role: operator.Admin}

func newGroups(t *testing.T) *groupSite {
	t.Helper()
	s := &groupSite{site: newSite(t), people: map[string]string{}, tokens: map[string]string{}}
	s.Fill()
	registry := s.Admin.Merchants()
	registry.InFile[0].Group, registry.InFile[1].Group = groupA, groupB
	for name, group := range map[string]string{merchantA: groupA, merchantB: groupB} {
		m := account.Merchant{Name: name, Group: group, MCC: "5411", Origins: []string{"https://" + group + "-origin.example"}}
		_, err := s.Admin.AddMerchant(t.Context(), cli, m)
		must(t, err)
	}
	for _, role := range operator.Roles() {
		for _, group := range []string{"", groupA, groupB} {
			s.addPerson(string(role)+"-of-"+group, role, group)
		}
	}
	made, err := s.Admin.CreateKey(t.Context(), cli, api.NewKey{Merchant: merchantB, Label: "quagga-till"})
	must(t, err)
	s.hashB = made.Hash
	for group, name := range map[string]string{groupA: merchantA, groupB: merchantB} {
		e := webhook.Endpoint{ID: "ep_" + strings.TrimSuffix(group, "group"), URL: "https://" + group + "-hooks.example/in", Description: "for " + group}
		_, err = s.Admin.AddEndpoint(t.Context(), cli, name, e)
		must(t, err)
	}
	event, err := s.Admin.Hooks.NewEvent(merchantB, api.EventCompleted, recordB, s.Now.Add(-time.Minute), json.RawMessage(`{"id": "`+recordB+`"}`))
	must(t, err)
	must(t, s.DB.PutEvent(t.Context(), *event))
	s.eventB = event.ID
	s.addGroupRecords()
	s.unknown = map[string]string{
		merchantB: "Xylofon Instruments", otherShop: "Xylo Shop", groupB: "xylofongroup", recordB: "4d4d4d4d-0000-4000-8000-000000000d01",
		refusedB: "4d4d4d4d-0000-4000-8000-000000000d02", foreignID: "4d4d4d4d-0000-4000-8000-000000000d03", hookB: "ep_xylofo",
		foreignHookID: "ep_9", s.hashB: s.hashB[:2] + strings.Repeat("d4", len(s.hashB)/2-1), s.eventB: "evt_4d4d4d4d-0000-4000-8000-000000000d04",
		"quagga-order-77": "xylofo-order-77", "QUAGGA-ACS": "XYLOFO-ACS", last4B: "9131", cardB: "4000000000009137",
		"operator-of-" + groupB: "operator-of-xylofongroup", "passkey:operator-of-" + groupB: "passkey:operator-of-xylofongroup",
	}
	return s
}

// addPerson adds a person who has logged in, and a token of the same name.
func (s *groupSite) addPerson(name string, role operator.Role, group string) {
	s.Helper()
	u := &operator.User{Name: name, Role: role, Group: group}
	must(s.TB, s.Admin.Operators.AddUser(s.Context(), u))
	s.logIn(name)
	made, err := s.Admin.CreateToken(s.Context(), cli, api.NewToken{Name: name, Role: string(role), Group: group})
	must(s.TB, err)
	s.tokens[name] = made.Token
}

func (s *groupSite) logIn(name string) {
	s.Helper()
	u, err := s.Admin.Operators.FindUser(s.Context(), name)
	must(s.TB, err)
	s.people[name], err = s.Admin.Operators.StartSession(s.Context(), &u, nil, 100*time.Hour)
	must(s.TB, err)
}

// addGroupRecords adds an authentication of each group, and a refused request of group B that names its own.
func (s *groupSite) addGroupRecords() {
	s.Helper()
	r := recordOf(recordA)
	r.Created, r.Merchant, r.Reference, r.ACS = s.Now.Add(-3*time.Minute), merchantA, "acme-order-5", "ACME-ACS"
	s.add(journal.Answered, r, journal.Step{Step: "areq", At: r.Created, Node: nodeName})
	r.ID, r.Merchant, r.Reference, r.ACS, r.Amount, r.Currency = recordB, merchantB, "quagga-order-77", "QUAGGA-ACS", "98765432", "978"
	r.Card.Last4, r.Unkept = last4B, []journal.Rule{{Element: "email|homePhone", Rule: "require"}}
	_, err := s.Journal.Write(s.Context(), []journal.Entry{
		{Kind: journal.Answered, Record: r, Steps: []journal.Step{stepOf("areq", r.Created)}, CardHash: s.Keys.CardHash(cardB)},
	})
	must(s.TB, err)
	r.ID, r.Status, r.Result, r.NamedID, r.ErrorCode = refusedB, journal.RefusedRequest, "", recordB, "203"
	s.add(journal.Refused, r, stepOf("request", r.Created))
}

// canaries are the texts of group B and of the installation that nobody of group A may see, each as a pattern.
func (s *groupSite) canaries() map[string]*regexp.Regexp {
	all := map[string]*regexp.Regexp{last4B: regexp.MustCompile(`\b` + last4B + `\b`)}
	for _, text := range []string{
		merchantB, groupB, recordB, refusedB, foreignID, hookB, foreignHookID, s.hashB, s.eventB, s.Events[otherShop], "quagga-till",
		"quagga-order-77", "QUAGGA-ACS", "98765432", "98,765,432", "987,654.32", otherShop, "order-19", "till 2", "2.shop.example",
		"Stolen API keys", "operator-of-" + groupB, "viewer-of-", // other people
		nodeName, "node-1 10.0.0.1", "node-2", "ds.visa.example", "/etc/threeds", "3ds.example", "first.example", "Connection refused", "Fjord",
	} {
		all[text] = regexp.MustCompile(regexp.QuoteMeta(text))
	}
	return all
}

// sessionOf returns the session of a person as the login finds it for a request.
func (s *groupSite) sessionOf(name string) (operator.Session, error) {
	session, _, _, err := s.Admin.Operators.FindSession(s.Context(), s.people[name], 0)
	return session, err
}

// visit asks for a page as a person. Dangerous acts are done without a confirmation, so that nothing but the rights of
// the person stops them.
func (s *groupSite) visit(name, method, at string, form url.Values) *httptest.ResponseRecorder {
	s.Helper()
	session, err := s.sessionOf(name)
	must(s.TB, err)
	session.Actor.IsPerson = false
	body := ""
	if form != nil {
		form.Set("csrf", session.FormToken())
		body = form.Encode()
	}
	r := httptest.NewRequest(method, at, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.Pages.ServeHTTP(w, r.WithContext(operator.WithSession(r.Context(), &session)))
	return w
}

// call asks the admin API with a token.
func (s *groupSite) call(name, method, at, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, admin.Prefix+at, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.tokens[name])
	w := httptest.NewRecorder()
	s.Admin.ServeHTTP(w, r)
	return w
}

// A question is a request of the walk, for a page or for an operation. typed is the identifier that stands in it.
type question struct {
	isPage     bool
	method, at string
	body       string     // what is sent to an operation
	form       url.Values // what is sent to a page
	typed      string
}

func (q *question) with(typed, other string) question {
	swap := func(text string) string { return strings.ReplaceAll(text, typed, other) }
	got := question{isPage: q.isPage, method: q.method, body: swap(q.body), typed: other}
	at, err := url.Parse(q.at)
	if err != nil {
		panic(err)
	}
	got.at = strings.ReplaceAll(q.at, url.PathEscape(typed), url.PathEscape(other))
	if at.RawQuery != "" {
		path, _, _ := strings.Cut(got.at, "?")
		got.at = path + "?" + strings.ReplaceAll(at.RawQuery, url.QueryEscape(typed), url.QueryEscape(other))
	}
	if q.form != nil {
		got.form = url.Values{}
		for name, values := range q.form {
			got.form.Set(name, swap(values[0]))
		}
	}
	return got
}

// ask returns the answer to a question, without what differs each time.
func (s *groupSite) ask(name string, q question) (status int, answer string) {
	s.Helper()
	var w *httptest.ResponseRecorder
	if q.isPage {
		w = s.visit(name, q.method, q.at, maps.Clone(q.form))
	} else {
		w = s.call(name, q.method, q.at, q.body)
	}
	answer = regexp.MustCompile(`name="csrf" value="[^"]*"|[0-9.]+ ms`).ReplaceAllString(w.Body.String(), "")
	return w.Code, answer + " to " + w.Header().Get("Location")
}

// identifiers are those of group B that stand in paths, forms and bodies: of each kind one.
func (s *groupSite) identifiers() []string {
	return []string{merchantB, recordB, hookB, s.hashB, s.eventB, "operator-of-" + groupB}
}

// identifiersFor are those that stand in one parameter of an address.
func (s *groupSite) identifiersFor(name string) []string {
	const cursor = "zzzzzzzz." + recordB
	return append([]string{merchantB, recordB}, map[string][]string{
		"acs": {"QUAGGA-ACS"}, "reference": {"quagga-order-77"}, "last4": {last4B}, "q": {"quagga-order-77", last4B}, "cursor": {cursor},
		"endpoint": {hookB, foreignHookID}, "after": {s.hashB, cursor}, "who": {"passkey:operator-of-" + groupB}, "id": {refusedB, foreignID},
		"authentication": {foreignID}, "merchant": {otherShop}, "group": {groupB}, "name": {groupB},
	}[name]...)
}

var inBraces = regexp.MustCompile(`\{[a-z$]+\}`)

// paths returns the paths of a pattern with each identifier in the place of each parameter, and one without.
func (s *groupSite) paths(pattern string) (all []question) {
	method, path, _ := strings.Cut(pattern, " ")
	path = strings.TrimSuffix(path, "{$}")
	parameters := inBraces.FindAllString(path, -1)
	if len(parameters) == 0 {
		return []question{{method: method, at: path}}
	}
	for _, id := range s.identifiers() {
		for _, own := range []string{id, merchantA, shop, recordA, "ep_acme", "visa"} { // in the other parameters
			at := strings.Replace(path, parameters[0], url.PathEscape(own), 1)
			at = inBraces.ReplaceAllString(at, url.PathEscape(id))
			if len(parameters) > 1 || own == id {
				all = append(all, question{method: method, at: at, typed: id})
			}
		}
	}
	return all
}

// formFields returns the names of all fields, and the values of all buttons, that the templates of the console have.
// Those of asked are in forms that come as addresses.
func formFields(t *testing.T) (names, asked, dos []string) {
	t.Helper()
	files, err := filepath.Glob("templates/*.html")
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		for form := range strings.SplitSeq(string(text), "<form") {
			for _, m := range regexp.MustCompile(`name="([a-z_.0-9]+)"`).FindAllStringSubmatch(form, -1) {
				if names = append(names, m[1]); !strings.Contains(form, `method="post"`) {
					asked = append(asked, m[1])
				}
			}
		}
		for _, m := range regexp.MustCompile(`name="do" value="([a-z]+)"`).FindAllStringSubmatch(string(text), -1) {
			dos = append(dos, m[1])
		}
	}
	slices.Sort(names)
	slices.Sort(dos)
	slices.Sort(asked)
	names, asked, dos = slices.Compact(names), slices.Compact(append(asked, linkNames...)), slices.Compact(dos)
	if len(names) < 30 || len(asked) < 20 || len(dos) < 10 {
		t.Fatalf("fields %q and %q, buttons %q", names, asked, dos)
	}
	return names, asked, dos
}

// linkNames are what links of pages have in addresses, in addition to fields of forms.
var linkNames = []string{"after", "beside", "by", "cursor", "done", "month", "new", "old", "prefix", "q", "step", "time"}

// questions returns all that the walk asks: each page and each operation, with each identifier of group B in each
// parameter of the path, of the address, of the form and of the body.
func (s *groupSite) questions(t *testing.T) (all []question) {
	t.Helper()
	names, asked, dos := formFields(t)
	of := func(q question, at, id string) question {
		q.at, q.typed = at, id
		return q
	}
	for _, pattern := range pages.Patterns() {
		for _, q := range s.paths(pattern) {
			q.isPage = true
			if q.method == http.MethodGet {
				all = append(all, q)
				isAllowed := s.isAllowed(q) // one that is refused is refused before all else
				for _, name := range asked {
					for _, id := range s.identifiersFor(name) {
						if q.typed == "" && (isAllowed || id == merchantB) {
							values := url.Values{"time": {"all"}}
							values.Set(name, id)
							all = append(all, of(q, q.at+"?"+values.Encode(), id))
						}
					}
				}
				continue
			}
			isAllowed := s.isAllowed(q)
			for _, do := range append(dos, "") {
				if do != "" && !isAllowed {
					continue
				}
				for _, id := range s.identifiers() {
					if q.typed != "" && q.typed != id {
						continue
					}
					q := of(q, q.at, id)
					q.form = url.Values{}
					for _, name := range names {
						q.form.Set(name, id)
					}
					for name, value := range map[string]string{"do": do, "sure": "1", "reason": "why", "url": "https://new.example/in", "from": "2027-02-01",
						"to": "", "expires": "", "allow": "", "in_flight": "", "version": "", "role": "admin", "label": "x"} {
						q.form.Set(name, value)
					}
					all = append(all, q)
				}
			}
		}
	}
	for _, o := range admin.Operations() {
		for _, q := range s.paths(o.Method + " " + o.Path) {
			for _, body := range s.bodies(&o, q.typed) {
				q := of(q, q.at, body.typed)
				q.body = body.text
				all = append(all, q)
			}
			for _, name := range o.Parameters {
				for _, id := range s.identifiersFor(name) {
					if q.typed == "" {
						all = append(all, of(q, q.at+"?"+url.Values{name: {id}}.Encode(), id))
					}
				}
			}
		}
	}
	return all
}

// isAllowed reports whether the walk gets further into a page than to the refusal of its act.
func (s *groupSite) isAllowed(q question) bool {
	if q.method == http.MethodPost {
		q.form = url.Values{}
	}
	status, _ := s.ask("admin-of-"+groupA, q)
	return status != http.StatusForbidden
}

// A body is one of an operation, with the identifier that stands in it.
type body struct{ text, typed string }

// bodies returns the bodies of an operation with each identifier in each of their texts, or with one that the path has.
func (s *groupSite) bodies(o *admin.Operation, typed string) (all []body) {
	if o.Body == nil {
		return []body{{"{}", typed}}
	}
	base := map[string]any{}
	of := reflect.TypeOf(o.Body)
	for name, value := range map[string]any{
		"reason": "why", "url": "https://new.example/in", "from": "2027-02-01T00:00:00Z", "role": "admin", "mcc": "5999", "label": "x",
	} {
		if hasMember(of, name) {
			base[name] = value
		}
	}
	text := func(name, value string) string {
		members := maps.Clone(base)
		if name != "" {
			members[name] = value
		}
		got, err := json.Marshal(members)
		must(s.TB, err)
		return string(got)
	}
	all = []body{{text("", ""), typed}}
	for _, name := range textMembers(of) {
		for _, id := range s.identifiers() {
			if typed == "" || typed == id {
				all = append(all, body{text(name, id), id})
			}
		}
	}
	return all
}

func hasMember(of reflect.Type, name string) bool { return slices.Contains(allMembers(of, ""), name) }

func textMembers(of reflect.Type) []string { return allMembers(of, "string") }

// allMembers returns the members of a type in JSON, those of one kind if it is named.
func allMembers(of reflect.Type, kind string) (names []string) {
	if of.Kind() != reflect.Struct {
		return nil
	}
	for field := range fieldsOf(of) {
		inside := field.Type
		if inside.Kind() == reflect.Pointer {
			inside = inside.Elem()
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if kind == "" || inside.Kind().String() == kind {
			names = append(names, name)
		}
	}
	return names
}

// fieldsOf yields the fields of a struct, and those of the structs that are embedded in it.
func fieldsOf(of reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for _, field := range reflect.VisibleFields(of) {
			if !field.Anonymous && field.Tag.Get("json") != "" && !yield(field) {
				return
			}
		}
	}
}

// stateOfB returns all that the store and the journal have of group B and of the installation.
func (s *groupSite) stateOfB() string {
	s.Helper()
	ctx, all := s.Context(), map[string]any{}
	isB := func(name string) bool { return name == merchantB || name == otherShop || name == "Fjord" }
	merchants, err := s.Admin.ListMerchants(ctx, cli)
	must(s.TB, err)
	all["merchants"] = slices.DeleteFunc(merchants, func(e merchant.Entry) bool { return !isB(e.Name) && e.Group != groupB })
	all["groups"], err = s.Admin.Merchants().Members(ctx, groupA)
	must(s.TB, err)
	keys, err := s.Admin.Keys(ctx, cli)
	must(s.TB, err)
	all["keys"] = slices.DeleteFunc(keys, func(k ops.Key) bool { return !isB(k.Merchant) })
	hooks, err := s.Admin.Endpoints(ctx, cli, "")
	must(s.TB, err)
	all["hooks"] = slices.DeleteFunc(hooks, func(e api.MerchantEndpoint) bool { return !isB(e.Merchant) })
	for _, name := range []string{merchantB, otherShop} {
		events, _, err := s.Admin.EventLines(ctx, cli, ops.EventQuery{Merchant: name, Limit: ops.MaxEvents})
		must(s.TB, err)
		all["events of "+name] = events
		page, err := s.Journal.Search(ctx, journal.Query{Merchant: name, Limit: 1000})
		must(s.TB, err)
		all["records of "+name] = page.Records
	}
	all["tokens"], err = s.Admin.Tokens(ctx, cli)
	must(s.TB, err)
	all["operators"], err = s.Admin.ListOperators(ctx, cli)
	must(s.TB, err)
	certificates, err := s.Admin.Certificates.Status(ctx, "visa")
	must(s.TB, err)
	all["certificates"] = certificates.Summary()
	text, err := json.MarshalIndent(all, "", " ")
	must(s.TB, err)
	return string(text)
}

// hide replaces an identifier in an answer, in each form that it may have there.
func hide(answer, id string) string {
	query := url.QueryEscape(id)
	for _, form := range []string{id, url.PathEscape(id), query, strings.ReplaceAll(query, "+", "&#43;")} {
		answer = strings.ReplaceAll(answer, form, "IT")
	}
	return answer
}

// TestGroupSeesNothingOfAnother walks over every page and every operation as an admin of group A. Identifiers of group B
// are in every place. No answer has anything of group B or of the installation, each is the one that an identifier gets
// which is none, and nothing of group B changes.
func TestGroupSeesNothingOfAnother(t *testing.T) {
	t.Parallel()
	s := newGroups(t)
	before := s.stateOfB()
	const who = "admin-of-" + groupA
	canaries := s.canaries()
	asked, answered := 0, map[int]int{}
	for _, q := range s.questions(t) {
		status, answer := s.ask(who, q)
		asked, answered[status] = asked+1, answered[status]+1
		if status >= 500 {
			t.Errorf("%s %s %s: %d %.300s", q.method, q.at, q.body, status, answer)
		}
		for text, pattern := range canaries {
			if text == q.typed || strings.Contains(q.typed, text) || text == groupB && strings.Contains(q.typed, groupB) {
				continue // the answer may repeat it
			}
			if at := pattern.FindStringIndex(answer); at != nil {
				t.Errorf("%s %s %s has %q: …%s…", q.method, q.at, q.body, text, answer[max(0, at[0]-100):min(len(answer), at[1]+60)])
			}
		}
		if unknown := s.unknown[q.typed]; unknown != "" && status != http.StatusForbidden {
			other := q.with(q.typed, unknown)
			status2, answer2 := s.ask(who, other)
			answer, answer2 := hide(answer, q.typed), hide(answer2, unknown)
			if status != status2 || q.method == http.MethodGet && answer != answer2 {
				at := 0
				for at < min(len(answer), len(answer2)) && answer[at] == answer2[at] {
					at++
				}
				t.Errorf("%s %s %s: %d and %d, or not in the same words: …%.100s…\n%.100s…", q.method, q.at, q.body, status, status2,
					answer[max(0, at-50):], answer2[max(0, at-50):])
			}
		}
		if t.Failed() && asked%400 == 0 {
			t.FailNow()
		}
	}
	if after := s.stateOfB(); after != before {
		t.Errorf("something of group B has changed:\n%s\nwas\n%s", after, before)
	}
	t.Logf("%d questions, by status %v", asked, answered)
	if asked < 1500 || answered[200] < 200 || answered[404] < 200 || answered[403] < 200 {
		t.Errorf("%d questions, by status %v", asked, answered)
	}
}

// TestWalkOfGroupsFindsCanaries: who sees all merchants finds each canary on the way, so that the walk above would notice
// it. Who is of a group finds what is of the group.
func TestWalkOfGroupsFindsCanaries(t *testing.T) {
	t.Parallel()
	s := newGroups(t)
	missing := s.canaries()
	own := map[string]bool{merchantA: true, recordA: true, "acme-order-5": true, "acme-hooks": true, shop: true, "acme-origin": true}
	for _, q := range append(s.questions(t), question{isPage: true, method: http.MethodGet, at: "/webhooks/" + foreignHookID}) {
		if q.method != http.MethodGet || strings.Contains(q.at, "?") && !strings.Contains(q.at, "authentications?") {
			continue
		}
		_, answer := s.ask("admin-of-", q)
		for text, pattern := range missing {
			if pattern.MatchString(answer) {
				delete(missing, text)
			}
		}
		_, answer = s.ask("viewer-of-"+groupA, q)
		for text := range own {
			if strings.Contains(answer, text) {
				delete(own, text)
			}
		}
	}
	for _, only := range []string{"98,765,432", "987,654.32", "98765432"} { // one of these forms is that of pages
		delete(missing, only)
	}
	if len(missing) > 0 || len(own) > 0 {
		t.Errorf("nobody finds %v, and the group does not find %v", slices.Sorted(maps.Keys(missing)), own)
	}
}

// secondNode returns the admin API of another node with the same store.
func (s *groupSite) secondNode() *admin.Handler {
	first := s.Admin.Merchants()
	registry := &merchant.Registry{
		Store: first.Store, Ring: first.Ring, InFile: first.InFile, Schemes: first.Schemes, CheckProfile: first.CheckProfile,
	}
	people := &operator.Service{
		Store: s.DB, Sealer: s.Admin.Operators.Sealer, Now: s.Admin.Now, Keys: s.Keys, Members: registry.Members,
	}
	return &admin.Handler{Log: s.Admin.Log, Journal: s.Journal, JournalKeys: s.Keys, Acts: &ops.Acts{
		Operators: people, Store: s.DB, Now: s.Admin.Now, Ring: s.Admin.Ring, Hooks: s.Admin.Hooks,
		Merchants: func() *merchant.Registry { return registry },
	}}
}

// TestMovedMerchantIsSeenByItsNewGroupOnly: from the next request on, on all nodes, by people and tokens.
func TestMovedMerchantIsSeenByItsNewGroupOnly(t *testing.T) {
	t.Parallel()
	s := newGroups(t)
	nodes := []*admin.Handler{s.Admin, s.secondNode()}
	check := func(who string, want bool) {
		t.Helper()
		for n, node := range nodes {
			by, err := node.Operators.FindActor(t.Context(), s.tokens["viewer-of-"+who])
			must(t, err)
			_, err = node.ShowRecord(t.Context(), by, recordA)
			page, failed := node.FindRecords(t.Context(), by, admin.RecordQuery{})
			must(t, failed)
			isListed := slices.ContainsFunc(page.Data, func(r journal.Record) bool { return r.ID == recordA })
			session, _, _, failed := node.Operators.FindSession(t.Context(), s.people["viewer-of-"+who], 0)
			must(t, failed)
			_, gone := node.Merchant(t.Context(), session.Actor, merchantA)
			if (err == nil) != want || isListed != want || (gone == nil) != want {
				t.Errorf("node %d, group %q: %v, listed %t, %v; want %t", n, who, err, isListed, gone, want)
			}
		}
	}
	check(groupA, true)
	check(groupB, false)
	was, err := nodes[1].Merchant(t.Context(), cli, merchantA)
	must(t, err)
	_, err = nodes[1].ChangeMerchant(t.Context(), cli, merchantA, was.Version, func(m *account.Merchant) error {
		m.Group = groupB
		return nil
	})
	must(t, err)
	check(groupA, false)
	check(groupB, true)
	check("", true)
}

// TestChangeOfGroupBindsImmediately: the sessions of a person whose group has changed have ended on all nodes. The next
// one sees the new group.
func TestChangeOfGroupBindsImmediately(t *testing.T) {
	t.Parallel()
	s := newGroups(t)
	const who = "admin-of-" + groupA
	for _, group := range []string{groupB, "", groupA} {
		_, now, err := s.Admin.ChangeRole(t.Context(), cli, who, api.RoleChange{Role: "admin", Group: &group})
		must(t, err)
		if now.Group != group {
			t.Fatalf("the group is %q, want %q", now.Group, group)
		}
		for _, people := range []*operator.Service{s.Admin.Operators, s.secondNode().Operators} {
			if session, _, _, err := people.FindSession(t.Context(), s.people[who], 0); err == nil {
				t.Errorf("the session of before is good still, as %+v", session.Actor)
			}
		}
		s.logIn(who)
		for id, want := range map[string]bool{recordA: group != groupB, recordB: group != groupA} {
			if w := s.visit(who, http.MethodGet, "/authentications/"+id, nil); (w.Code == 200) != want {
				t.Errorf("of group %q, %s: %d", group, id, w.Code)
			}
		}
	}
	_, _, err := s.Admin.ChangeRole(t.Context(), cli, who, api.RoleChange{Role: "viewer"})
	must(t, err)
	if u, err := s.Admin.Operators.FindUser(t.Context(), who); err != nil || u.Group != groupA {
		t.Errorf("a change of the role alone left the group %q, %v", u.Group, err)
	}
}

// personOf returns a person of a group as an actor who has confirmed an act.
func (s *groupSite) personOf(name string, confirmed operator.Intent) operator.Actor {
	s.Helper()
	session, err := s.sessionOf(name)
	must(s.TB, err)
	session.Actor.Confirmed = operator.Confirmation{Intent: confirmed, By: "passkey"}
	return session.Actor
}

// TestFourEyesAreNotCrossedBetweenGroups: what a person of a group asks for is allowed by another person of the same
// group, or by one who sees all merchants, and by no others. People of a group know of nothing else that waits. That
// holds for each dangerous act that people of a group may do.
func TestFourEyesAreNotCrossedBetweenGroups(t *testing.T) {
	t.Parallel()
	var dangerous []string
	for _, act := range ops.Table() {
		if act.IsForGroups && act.Danger != "" && act.Danger != "approvals" {
			dangerous = append(dangerous, act.Name)
		}
	}
	if want := []string{"key revoke", "merchant enable"}; !slices.Equal(slices.Sorted(slices.Values(dangerous)), want) {
		t.Errorf("people of groups may do the dangerous acts %q, want %q", dangerous, want)
	}
	for _, name := range dangerous {
		t.Run(name, func(t *testing.T) {
			s := newGroups(t)
			s.Admin.FourEyes = ops.Groups
			object := merchantA
			if name == "key revoke" {
				made, err := s.Admin.CreateKey(t.Context(), cli, api.NewKey{Merchant: merchantA, Label: "till"})
				must(t, err)
				object = made.Hash
			} else {
				_, err := s.Admin.DisableMerchant(t.Context(), s.bound(t.Context(), "operator-of-"+groupA), merchantA, "test")
				must(t, err)
			}
			s.checkFourEyes(t, name, object)
		})
	}
}

// checkFourEyes walks a dangerous act on an object of group A through its approvals.
func (s *groupSite) checkFourEyes(t *testing.T, act, object string) {
	t.Helper()
	ctx := t.Context()
	do := func(by operator.Actor) error {
		_, err := ops.Find(act).Do(s.Admin.Acts, ctx, by, object)
		return err
	}
	wanted, ok := errors.AsType[*ops.ConfirmError](do(s.personOf("operator-of-"+groupA, operator.Intent{})))
	if !ok {
		t.Fatal("it is done without a confirmation")
	}
	what := wanted.Intent
	if err := do(s.bound(ctx, "operator-of-"+groupA)); err == nil || !strings.Contains(err.Error(), "console.four_eyes") {
		t.Errorf("a token of the group does it: %v", err)
	}
	allow := operator.Intent{Act: "approval allow", Object: what.Act + ": " + what.Object}
	ask := func(who string) string {
		t.Helper()
		by := s.personOf(who, what)
		if _, ok := errors.AsType[*ops.ApprovalError](do(by)); !ok {
			t.Fatal("it was done without a second person")
		}
		must(t, s.Admin.AskApproval(ctx, by, what, "/x", url.Values{}, nil))
		all, err := s.Admin.Approvals(ctx, cli)
		must(t, err)
		isAsked := func(w operator.Approval) bool { return w.Intent == what && w.Asker == by.Identity }
		return all[slices.IndexFunc(all, isAsked)].ID
	}
	sees := func(who string) (ids []string) {
		t.Helper()
		all, err := s.Admin.Approvals(ctx, s.personOf(who, allow))
		must(t, err)
		for i := range all {
			ids = append(ids, all[i].ID)
		}
		return ids
	}
	take := func(who, id string) (operator.Actor, error) {
		_, by, err := s.Admin.TakeApproval(ctx, s.personOf(who, what), id,
			func(*operator.Approval) error { return nil })
		return by, err
	}
	id := ask("operator-of-" + groupA)
	for _, who := range []string{"operator-of-" + groupB, "admin-of-" + groupB} {
		unknown := s.Admin.AllowApproval(ctx, s.personOf(who, allow), "ffffffffffffffff")
		err := s.Admin.AllowApproval(ctx, s.personOf(who, allow), id)
		if err == nil || err.Error() != unknown.Error() || len(sees(who)) > 0 {
			t.Errorf("%s: %v, want %v, and sees %q", who, err, unknown, sees(who))
		}
		if err := s.Admin.RefuseApproval(ctx, s.personOf(who, allow), id); err == nil || err.Error() != unknown.Error() {
			t.Errorf("%s refuses it: %v", who, err)
		}
		if _, err := take(who, id); err == nil || err.Error() != unknown.Error() {
			t.Errorf("%s carries it out: %v", who, err)
		}
	}
	if err := s.Admin.AllowApproval(ctx, s.personOf("operator-of-"+groupA, allow), id); err == nil {
		t.Error("who has asked allows it")
	}
	if got := sees("admin-of-" + groupA); !slices.Equal(got, []string{id}) || !slices.Contains(sees("admin-of-"), id) {
		t.Errorf("who may allow it does not see it, or sees more: %q", got)
	}
	must(t, s.Admin.AllowApproval(ctx, s.personOf("admin-of-"+groupA, allow), id))
	move := func(who, group string) {
		t.Helper()
		_, _, err := s.Admin.Operators.ChangeUser(ctx, who, func(u *operator.User) error { u.Group = group; return nil })
		must(t, err)
		s.logIn(who)
	}
	move("admin-of-"+groupA, groupB)
	if _, err := take("operator-of-"+groupA, id); err == nil {
		t.Error("it was carried out though who allowed it is of another group by now")
	}
	move("admin-of-"+groupA, groupA)
	move("operator-of-"+groupA, "")
	if _, err := take("operator-of-"+groupA, id); err == nil {
		t.Error("it was carried out by somebody who is of no group by now")
	}
	move("operator-of-"+groupA, groupA)
	by, err := take("operator-of-"+groupA, id)
	must(t, err)

	id = ask("operator-of-")
	if got := sees("admin-of-" + groupA); len(got) > 0 {
		t.Errorf("a person of a group sees what somebody of none has asked for: %q", got)
	}
	if err := s.Admin.AllowApproval(ctx, s.personOf("admin-of-"+groupA, allow), id); err == nil {
		t.Error("a person of a group allows what somebody of none has asked for")
	}
	must(t, do(by))
}

// TestOperatorKeepsDisabledWhatAGroupHasDisabled: a group that disables its merchant first cannot keep it from being
// disabled by the operator of the server.
func TestOperatorKeepsDisabledWhatAGroupHasDisabled(t *testing.T) {
	t.Parallel()
	s := newGroups(t)
	ctx, own := t.Context(), s.bound(t.Context(), "operator-of-"+groupA)
	at := "/merchants/" + url.PathEscape(merchantA)
	_, err := s.Admin.DisableMerchant(ctx, own, merchantA, "closed for a week")
	must(t, err)
	const form = `value="disable"`
	if page := s.visit("operator-of-"+groupA, http.MethodGet, at, nil).Body.String(); strings.Contains(page, form) {
		t.Error("people of the group are shown a form that is refused to them")
	}
	if page := s.visit("operator-of-", http.MethodGet, at, nil).Body.String(); !strings.Contains(page, form) {
		t.Error("the operator of the server cannot disable what a group has disabled")
	}
	if _, err = s.Admin.DisableMerchant(ctx, own, merchantA, "again"); !errors.Is(err, merchant.ErrDisabled) {
		t.Errorf("the group disables it twice: %v", err)
	}
	_, err = s.Admin.DisableMerchant(ctx, cli, merchantA, "fraud, case 12")
	must(t, err)
	if _, err := ops.Find("merchant enable").Do(s.Admin.Acts, ctx, own, merchantA); err == nil {
		t.Error("the group enables what the operator of the server has disabled")
	}
	if e, err := s.Admin.Merchant(ctx, own, merchantA); err != nil || e.Disabled == nil || e.Disabled.Reason != "" {
		t.Errorf("the group is told %+v, %v", e.Disabled, err)
	}
	if _, err := s.Admin.DisableMerchant(ctx, cli, merchantA, "fraud"); !errors.Is(err, merchant.ErrDisabled) {
		t.Errorf("the operator of the server disables it twice: %v", err)
	}
}

// A movingStore moves an operator to a group while an entry is appended to the audit trail.
type movingStore struct {
	operator.Store
	move func()
}

func (st *movingStore) AppendAudit(ctx context.Context, e store.AuditEntry) error {
	if move := st.move; move != nil {
		st.move = nil
		move()
	}
	return st.Store.AppendAudit(ctx, e)
}

// TestChangeOfRoleLeavesTheGroup: a change of the role alone does not undo a change of the group at the same time.
func TestChangeOfRoleLeavesTheGroup(t *testing.T) {
	t.Parallel()
	s := newGroups(t)
	ctx, st := t.Context(), &movingStore{Store: s.Admin.Operators.Store}
	s.Admin.Operators.Store = st
	const who = "viewer-of-"
	st.move = func() {
		_, _, err := s.Admin.Operators.ChangeUser(ctx, who, func(u *operator.User) error { u.Group = groupA; return nil })
		must(t, err)
	}
	_, now, err := s.Admin.ChangeRole(ctx, cli, who, api.RoleChange{Role: "operator"})
	if must(t, err); now.Group != groupA || now.Role != operator.Operator {
		t.Errorf("the operator is %s of the group %q", now.Role, now.Group)
	}
}

// TestGroupEnablesOnlyWhatItHasDisabled: what the operator of the server has disabled stays so, and the reason is not
// told. The group has its own reasons.
func TestGroupEnablesOnlyWhatItHasDisabled(t *testing.T) {
	t.Parallel()
	s := newGroups(t)
	ctx := t.Context()
	by := func() operator.Actor { return s.bound(ctx, "operator-of-"+groupA) }
	enable := func() error {
		_, err := ops.Find("merchant enable").Do(s.Admin.Acts, ctx, by(), merchantA)
		return err
	}
	_, err := s.Admin.DisableMerchant(ctx, cli, merchantA, "fraud, case 12")
	must(t, err)
	e, err := s.Admin.Merchant(ctx, by(), merchantA)
	if must(t, err); e.Disabled == nil || e.Disabled.Reason+e.Disabled.By+e.Disabled.Group != "" {
		t.Errorf("the group is told %+v", e.Disabled)
	}
	if err := enable(); err == nil {
		t.Error("the group enables what the operator of the server has disabled")
	}
	_, err = ops.Find("merchant enable").Do(s.Admin.Acts, ctx, cli, merchantA)
	must(t, err)
	_, err = s.Admin.DisableMerchant(ctx, by(), merchantA, "closed for a week")
	must(t, err)
	e, err = s.Admin.Merchant(ctx, by(), merchantA)
	if must(t, err); e.Disabled == nil || e.Disabled.Reason != "closed for a week" {
		t.Errorf("the group is not told its own reason: %+v", e.Disabled)
	}
	must(t, enable())
}

// bound returns a token of the site as an actor.
func (s *groupSite) bound(ctx context.Context, name string) operator.Actor {
	s.Helper()
	by, err := s.Admin.Operators.FindActor(ctx, s.tokens[name])
	must(s.TB, err)
	return by
}

// TestGroupCannotMoveItsMerchants: a person of a group changes the settings of its merchants, and neither the group nor
// the limits. The trail names the person and the group.
func TestGroupCannotMoveItsMerchants(t *testing.T) {
	t.Parallel()
	s := newGroups(t)
	ctx, by := t.Context(), s.bound(t.Context(), "operator-of-"+groupA)
	e, err := s.Admin.Merchant(ctx, cli, merchantA)
	must(t, err)
	e, err = s.Admin.ChangeMerchant(ctx, cli, merchantA, e.Version, func(m *account.Merchant) error {
		m.InFlight = 50
		return json.Unmarshal([]byte(`"20/s"`), &m.Rate)
	})
	must(t, err)
	for _, group := range []string{"", groupB} {
		_, err := s.Admin.ChangeMerchant(ctx, by, merchantA, e.Version, func(m *account.Merchant) error { m.Group = group; return nil })
		if err == nil {
			t.Errorf("the group has given its merchant to %q", group)
		}
	}
	if w := s.visit("operator-of-"+groupA, http.MethodPost, "/merchants/"+url.PathEscape(merchantA),
		url.Values{"do": {"change"}, "version": {e.Version}, "mcc": {"5812"}, "group": {groupB}, "in_flight": {"900"},
			"rate": {""}}); w.Code != 303 {
		t.Errorf("change: %d %s", w.Code, w.Body)
	}
	now, err := s.Admin.Merchant(ctx, cli, merchantA)
	if must(t, err); now.MCC != "5812" || now.Group != groupA || now.InFlight != 50 || now.Rate != e.Rate {
		t.Errorf("the merchant is %+v", now.Merchant)
	}
	for name, change := range map[string]func(m *account.Merchant){
		"in_flight": func(m *account.Merchant) { m.InFlight = 900 }, "rate": func(m *account.Merchant) { m.Rate = account.Rate{} },
	} {
		_, err := s.Admin.ChangeMerchant(ctx, by, merchantA, now.Version, func(m *account.Merchant) error { change(m); return nil })
		if err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("the group has changed %s, which protects others: %v", name, err)
		}
	}
	trail, err := s.Admin.Operators.Search(ctx, operator.Query{Action: "merchant.change", Limit: 1})
	if must(t, err); len(trail) != 1 || trail[0].Group != groupA || trail[0].Who != "passkey:operator-of-"+groupA {
		t.Errorf("the trail has %+v", trail)
	}
}

// TestActorOfAGroupWithoutMembersSeesNothing: nothing is seen before the members of the group were looked up, or when
// there are none.
func TestActorOfAGroupWithoutMembersSeesNothing(t *testing.T) {
	t.Parallel()
	s := newGroups(t)
	s.addPerson("lone", operator.Admin, "nobodysgroup")
	for _, by := range []operator.Actor{
		{Who: "token:x", Role: operator.Admin, Group: groupA}, s.bound(t.Context(), "lone"), {Role: operator.Admin, Group: groupA, Merchant: shop},
	} {
		merchants, err := s.Admin.ListMerchants(t.Context(), by)
		if err == nil && len(merchants) > 0 || by.CanSee(merchantA) || by.CanSee("") {
			t.Errorf("%+v sees %d merchants, %v", by, len(merchants), err)
		}
		page, err := s.Admin.FindRecords(t.Context(), by, admin.RecordQuery{})
		if err == nil && len(page.Data) > 0 {
			t.Errorf("%+v finds %d records", by, len(page.Data))
		}
	}
}

// TestGroupHasALimit: a group takes no more merchants than a search can look for.
func TestGroupHasALimit(t *testing.T) {
	t.Parallel()
	s := newGroups(t)
	registry := s.Admin.Merchants()
	for len(registry.InFile) < ops.MaxGroup+1 {
		registry.InFile = append(registry.InFile, account.Merchant{Name: "M" + time.Duration(len(registry.InFile)).String(), Group: "full"})
	}
	_, err := s.Admin.AddMerchant(t.Context(), cli, account.Merchant{Name: "One more", Group: "full"})
	must(t, err)
	_, err = s.Admin.AddMerchant(t.Context(), cli, account.Merchant{Name: "Too many", Group: "full"})
	if err == nil || !strings.Contains(err.Error(), "the maximum") {
		t.Errorf("one more than the limit: %v", err)
	}
}
