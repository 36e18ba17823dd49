package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/edge/admin"
	edgeapi "github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/edge/pages"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/local"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// The merchant of these tests, and what a session's forms bring.
const (
	actsMerchant = "Corner Shop"
	actsCSRF     = "csrf-of-the-session"
)

// doors are the four doors to one store: three that HTTP serves, and the command line.
type doors struct {
	*testing.T
	acts  *ops.Acts
	db    store.Store
	file  string // the configuration
	admin http.Handler
	pages http.Handler
	api   http.Handler
	token string
	hook  string // the address of a receiver of events
	made  int    // names that were made
}

// oneKey knows one API key, that of the merchant.
type oneKey struct{}

func (oneKey) Authenticate(context.Context, string) (*account.Account, error) {
	return &account.Account{Merchant: &account.Merchant{Name: actsMerchant}, KeyID: "0123456789ab"}, nil
}

func newDoors(t *testing.T) *doors {
	t.Helper()
	dir := t.TempDir()
	d := &doors{T: t, file: filepath.Join(dir, "threeds.yaml")}
	writeFile(t, d.file, fmt.Appendf(nil, `
store: {url: %[1]q}
keys: %[2]q
console: {url: "https://console.example/"}
results:
  url: https://3ds.acquirer.example/results
  tls: {cert: not-looked-at.pem, key: not-looked-at.key}
server: {reference_number: 3DS_LOA_SER_0002}
merchants: [{name: %[3]s}]
webhooks: {allow: [127.0.0.0/8], http: true}
directories:
  - scheme: visa
    areq_url: https://ds.visa.example/
    preq_url: https://ds.visa.example/
    versions: [2.2.0]
    client_cert: managed
    server_ca: not-looked-at.pem
    client_ca: not-looked-at.pem
`, "file:"+filepath.Join(dir, "store"), filepath.Join(dir, "keys.json"), actsMerchant))
	c, err := config.ReadForWebhooks(d.file, time.Now())
	must(t, err)
	d.db, err = server.OpenStore(t.Context(), c.Store.URL)
	must(t, err)
	t.Cleanup(func() { _ = d.db.Close() })
	ring, err := server.LoadOrCreateKeyRing(t.Context(), c, d.db)
	must(t, err)
	log := slog.New(slog.DiscardHandler)
	d.acts = local.NewActs(c, d.db, ring)
	d.acts.IsCommandLine = false
	d.acts.Hooks = server.NewWebhooks(t.Context(), c, d.db, ring, log)
	d.acts.PasskeyURL = func() string { return "https://console.example" }
	d.acts.Keeper = d.db
	d.acts.Certificates = &clientcert.Service{Store: d.db, Sealer: ring, Now: time.Now}
	st, _, err := server.OpenJournal(t.Context(), c)
	must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	d.acts.LegalHolds = st
	d.acts.Erase = func(context.Context, journal.Query) (ops.Erased, error) { return ops.Erased{}, nil }
	handler := &admin.Handler{Acts: d.acts, Log: log}
	handler.Node = &admin.Node{
		Directories: func() []admin.Directory { return []admin.Directory{{Scheme: "visa", ResultsURL: c.Results.URL}} },
		Problems:    func() map[string]string { return nil },
	}
	d.admin = handler
	d.pages = &pages.Handler{Admin: handler, Acts: d.acts, Now: time.Now, Log: log}
	d.api = &edgeapi.Handler{Acts: d.acts, Keys: oneKey{}, Log: log}
	d.token, err = d.acts.Operators.CreateToken(t.Context(), operator.Token{Name: "ci", Role: operator.Admin})
	must(t, err)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(receiver.Close)
	d.hook = receiver.URL
	return d
}

// newName returns a name that no other thing has.
func (d *doors) newName() string {
	d.made++
	return fmt.Sprintf("name-%d", d.made)
}

// ask serves a request, and fails the test unless it succeeds.
func (d *doors) ask(h http.Handler, r *http.Request) []byte {
	d.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code >= 400 {
		d.Errorf("%s %s: %d %s", r.Method, r.URL.Path, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// askAPI asks the merchants' API or the admin API, by a route such as "POST keys", and returns the
// members of the answer.
func (d *doors) askAPI(door ops.Door, route, body string) map[string]any {
	d.Helper()
	method, path, _ := strings.Cut(route, " ")
	h, prefix := d.api, "/"
	if door == ops.Admin {
		h, prefix = d.admin, admin.Prefix
	}
	r := httptest.NewRequest(method, prefix+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("APIKey", "00000000-0000-0000-0000-000000000000")
	r.Header.Set("Authorization", "Bearer "+d.token)
	var answer map[string]any
	_ = json.Unmarshal(d.ask(h, r), &answer) // an act may answer with nothing
	return answer
}

// post sends a form of the console, name and value by turns.
func (d *doors) post(path string, members ...string) []byte {
	d.Helper()
	session := &operator.Session{
		Actor: operator.Actor{Who: "passkey:jo", Role: operator.Admin, From: "192.0.2.1"}, CSRF: actsCSRF, Key: []byte("key of the session"),
	}
	form := url.Values{"csrf": {session.FormToken()}}
	for pair := range slices.Chunk(members, 2) {
		form.Add(pair[0], pair[1])
	}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return d.ask(d.pages, r.WithContext(operator.WithSession(r.Context(), session)))
}

// command runs a command and returns what it prints.
func (d *doors) command(args ...string) string {
	d.Helper()
	var stdout, stderr bytes.Buffer
	flags := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") })
	if flags < 0 {
		flags = max(2, len(args)-1) // before the last argument
	}
	args = slices.Insert(slices.Clone(args), flags, "--config", d.file)
	if status := run(d.Context(), args, strings.NewReader(""), &stdout, &stderr); status != 0 {
		d.Errorf("threeds %s: status %d: %s", strings.Join(args, " "), status, &stderr)
	}
	return strings.TrimSpace(stdout.String())
}

// lastEntry returns the number of the last entry of the audit trail.
func (d *doors) lastEntry() int64 {
	d.Helper()
	rows, err := d.db.AuditEntries(d.Context(), store.AuditQuery{Limit: 1})
	must(d.T, err)
	if len(rows) == 0 {
		return 0
	}
	return rows[0].Seq
}

// newest returns the entries of the audit trail after one of a number, the oldest first.
func (d *doors) newest(after int64) []operator.Entry {
	d.Helper()
	all, err := d.acts.Operators.Search(d.Context(), operator.Query{Limit: 100})
	must(d.T, err)
	all = slices.DeleteFunc(all, func(e operator.Entry) bool { return e.Seq <= after })
	slices.Reverse(all)
	return all
}

// setUp is who makes what an act is done to.
var setUp = operator.Actor{Who: "cli:set-up", Role: operator.Admin}

// newEndpoint adds an endpoint of the merchant and returns its id.
func (d *doors) newEndpoint() string {
	d.Helper()
	e, err := d.acts.AddEndpoint(d.Context(), setUp, actsMerchant, webhook.Endpoint{URL: d.hook})
	must(d.T, err)
	return e.ID
}

// endpoint returns the id of the merchant's only endpoint.
func (d *doors) endpoint() string {
	d.Helper()
	all, err := d.acts.Hooks.Endpoints(d.Context(), actsMerchant)
	must(d.T, err)
	return all[0].ID
}

// removeEndpoints removes all endpoints of the merchant, which may have a few only.
func (d *doors) removeEndpoints() {
	d.Helper()
	all, err := d.acts.Hooks.Endpoints(d.Context(), actsMerchant)
	must(d.T, err)
	for _, e := range all {
		must(d.T, d.acts.Hooks.Remove(d.Context(), actsMerchant, e.ID))
	}
}

// newEvent stores an event for an endpoint and returns its id.
func (d *doors) newEvent(endpoint string) string {
	d.Helper()
	must(d.T, d.acts.Hooks.Refresh(d.Context()))
	at := time.Now().Add(-time.Second)
	e, err := d.acts.Hooks.NewEvent(actsMerchant, api.EventCompleted, "00000000-0000-4000-8000-000000000001", at, json.RawMessage(`{}`))
	must(d.T, err)
	e.Endpoints = []string{endpoint}
	must(d.T, d.db.PutEvent(d.Context(), *e))
	return e.ID
}

// newKey makes a key of the merchant and returns its hash.
func (d *doors) newKey() string {
	d.Helper()
	k, err := d.acts.CreateKey(d.Context(), setUp, api.NewKey{Merchant: actsMerchant})
	must(d.T, err)
	return k.Hash
}

// newMerchant adds a merchant to the store and returns its name.
func (d *doors) newMerchant() string {
	d.Helper()
	e, err := d.acts.AddMerchant(d.Context(), setUp, account.Merchant{Name: d.newName()})
	must(d.T, err)
	return e.Name
}

// newDisabledMerchant adds a merchant that is disabled, and returns its name.
func (d *doors) newDisabledMerchant() string {
	d.Helper()
	name := d.newMerchant()
	_, err := d.acts.DisableMerchant(d.Context(), setUp, name, "stolen keys")
	must(d.T, err)
	return name
}

// newHold sets a legal hold and returns its name.
func (d *doors) newHold() string {
	d.Helper()
	added, err := d.acts.AddHold(d.Context(), setUp, api.HoldRequest{Name: d.newName(), Merchant: actsMerchant, Reason: "a dispute"})
	must(d.T, err)
	return added.Name
}

// version returns the version of a merchant.
func (d *doors) version(name string) string {
	d.Helper()
	e, err := d.acts.Merchant(d.Context(), setUp, name)
	must(d.T, err)
	return e.Version
}

// newToken makes a token and returns its name.
func (d *doors) newToken() string {
	d.Helper()
	made, err := d.acts.CreateToken(d.Context(), setUp, api.NewToken{Name: d.newName(), Role: "viewer"})
	must(d.T, err)
	return made.Name
}

// newOperator adds an operator of the console and returns the name.
func (d *doors) newOperator() string {
	d.Helper()
	u := operator.User{Name: d.newName(), Role: operator.Viewer}
	must(d.T, d.acts.Operators.AddUser(d.Context(), &u))
	return u.Name
}

// holdRanges stores that a generation of card ranges is held back, and returns its scheme.
func (d *doors) holdRanges() string {
	d.Helper()
	status, err := json.Marshal(directory.RefreshStatus{Generation: 3, Held: 4, HeldRanges: 1})
	must(d.T, err)
	lease, err := d.db.Acquire(d.Context(), "test", "test", time.Minute)
	must(d.T, err)
	must(d.T, d.db.PutState(d.Context(), "ranges/visa", status, lease))
	must(d.T, d.db.Release(d.Context(), lease))
	return "visa"
}

// textOf returns a member of an answer.
func textOf(answer map[string]any, name string) string {
	text, _ := answer[name].(string)
	return text
}

// A way does an act through a door. It returns the object that the audit trail must have; "" means
// that the entry says it.
type way func(d *doors, on string) string

// An actTest prepares what an act is done to, and does it through each of its doors.
type actTest struct {
	prepare func(d *doors) string // returns its name
	ways    map[ops.Door]way
}

// onEndpoint does an act on an endpoint for which no more than its id is needed, through every door. It knows of no
// such act by itself: one that is added to the table is tried as well.
func onEndpoint(act *ops.Act) actTest {
	word := strings.TrimPrefix(act.Name, "webhook ")
	byRoute := func(door ops.Door) way {
		return func(d *doors, id string) string {
			d.askAPI(door, strings.Replace(act.Route, "{id}", id, 1), "")
			return id
		}
	}
	return actTest{(*doors).newEndpoint, map[ops.Door]way{
		ops.Merchants: byRoute(ops.Merchants), ops.Admin: byRoute(ops.Admin),
		ops.Console: func(d *doors, id string) string { d.post("/webhooks/"+id, "do", word); return id },
		ops.Command: func(d *doors, id string) string {
			d.command("webhook", word, "--merchant", actsMerchant, id)
			return id
		},
	}}
}

// byAPI does an act by a route, in which ID stands for what prepare has returned. object is the member of the answer
// that is the object of the entry; "" means that it is ID.
func byAPI(door ops.Door, route, body, object string) way {
	return func(d *doors, on string) string {
		answer := d.askAPI(door, strings.ReplaceAll(route, "ID", on), strings.ReplaceAll(body, "ID", on))
		if object == "" {
			return on
		}
		return textOf(answer, object)
	}
}

// byForm does an act by a form of the console.
func byForm(path string, members ...string) way {
	return func(d *doors, on string) string {
		members := slices.Clone(members)
		for i := range members {
			members[i] = strings.ReplaceAll(members[i], "ID", on)
		}
		d.post(strings.ReplaceAll(path, "ID", on), members...)
		return on
	}
}

// byCommand does an act by a command.
func byCommand(args ...string) way {
	return func(d *doors, on string) string {
		args := slices.Clone(args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "ID", on)
		}
		d.command(args...)
		return on
	}
}

// unnamed is a way after which the entry itself says what the object is: the thing was made by the act.
func unnamed(w way) way {
	return func(d *doors, on string) string { w(d, on); return "" }
}

// actTests returns the tests of acts, by name.
func actTests() map[string]actTest {
	const hook = "http://127.0.0.1:1/hooks"
	nothing := func(*doors) string { return "" }
	scheme := func(*doors) string { return "visa" }
	tests := map[string]actTest{
		"webhook add": {nothing, map[ops.Door]way{
			ops.Merchants: byAPI(ops.Merchants, "POST webhook-endpoints", `{"url": "`+hook+`"}`, "id"),
			ops.Admin:     byAPI(ops.Admin, "POST webhook-endpoints", `{"merchant": "`+actsMerchant+`", "url": "`+hook+`"}`, "id"),
			ops.Console:   unnamed(byForm("/webhooks", "merchant", actsMerchant, "url", hook, "type", string(api.EventCompleted))),
			ops.Command:   unnamed(byCommand("webhook", "add", "--merchant", actsMerchant, hook)),
		}},
		"webhook change": {(*doors).newEndpoint, map[ops.Door]way{
			ops.Merchants: byAPI(ops.Merchants, "PATCH webhook-endpoints/ID", `{"description": "till"}`, ""),
			ops.Admin:     byAPI(ops.Admin, "PATCH webhook-endpoints/ID", `{"description": "till"}`, ""),
			ops.Console:   byForm("/webhooks/ID", "do", "change", "url", hook, "type", string(api.EventCompleted)),
		}},
		"key create": {nothing, map[ops.Door]way{
			ops.Admin:   byAPI(ops.Admin, "POST keys", `{"merchant": "`+actsMerchant+`", "label": "till"}`, "hash"),
			ops.Console: unnamed(byForm("/keys", "merchant", actsMerchant, "label", "till")),
			ops.Command: unnamed(byCommand("key", "create", "--name", actsMerchant)),
		}},
		"key revoke": {(*doors).newKey, map[ops.Door]way{
			ops.Admin: byAPI(ops.Admin, "DELETE keys/ID", "", ""), ops.Console: byForm("/keys/ID/revoke"), ops.Command: byCommand("key", "revoke", "ID"),
		}},
		"merchant add": {(*doors).newName, map[ops.Door]way{
			ops.Admin: byAPI(ops.Admin, "POST merchants", `{"name": "ID"}`, ""), ops.Console: byForm("/merchants", "name", "ID"),
			ops.Command: byCommand("merchant", "add", "--name", "ID"),
		}},
		"merchant set": {(*doors).newMerchant, map[ops.Door]way{
			ops.Admin: func(d *doors, name string) string {
				d.askAPI(ops.Admin, "PATCH merchants/"+name, `{"mcc": "5411", "version": "`+d.version(name)+`"}`)
				return name
			},
			ops.Console: func(d *doors, name string) string {
				d.post("/merchants/"+name, "mcc", "5411", "version", d.version(name))
				return name
			},
			ops.Command: byCommand("merchant", "set", "--name", "ID", "--mcc", "5411"),
		}},
		"merchant remove": {(*doors).newMerchant, map[ops.Door]way{
			ops.Admin: func(d *doors, name string) string {
				d.askAPI(ops.Admin, "DELETE merchants/"+name+"?version="+d.version(name), "")
				return name
			},
			ops.Console: func(d *doors, name string) string {
				d.post("/merchants/"+name, "do", "remove", "version", d.version(name))
				return name
			},
			ops.Command: byCommand("merchant", "remove", "--name", "ID"),
		}},
		"merchant import": {(*doors).newName, map[ops.Door]way{
			ops.Command: func(d *doors, name string) string {
				file := filepath.Join(d.TempDir(), "merchants.json")
				writeFile(d.T, file, []byte(`[{"name": "`+name+`"}]`))
				d.command("merchant", "import", file)
				return name
			},
		}},
		"merchant disable": {(*doors).newMerchant, map[ops.Door]way{
			ops.Admin:   byAPI(ops.Admin, "POST merchants/ID/disable", `{"reason": "stolen keys"}`, ""),
			ops.Console: byForm("/merchants/ID", "do", "disable", "reason", "stolen keys", "sure", "1"),
			ops.Command: byCommand("merchant", "disable", "--reason", "stolen keys", "ID"),
		}},
		"merchant enable": {(*doors).newDisabledMerchant, map[ops.Door]way{
			ops.Admin: byAPI(ops.Admin, "POST merchants/ID/enable", "", ""), ops.Console: byForm("/merchants/ID", "do", "enable"),
			ops.Command: byCommand("merchant", "enable", "ID"),
		}},
		"token create": {(*doors).newName, map[ops.Door]way{
			ops.Admin:   byAPI(ops.Admin, "POST tokens", `{"name": "ID", "role": "viewer"}`, ""),
			ops.Console: byForm("/tokens", "name", "ID", "role", "viewer"), ops.Command: byCommand("token", "create", "--name", "ID", "--role", "viewer"),
		}},
		"token revoke": {(*doors).newToken, map[ops.Door]way{
			ops.Admin: byAPI(ops.Admin, "DELETE tokens/ID", "", ""), ops.Console: byForm("/tokens/ID/revoke"), ops.Command: byCommand("token", "revoke", "ID"),
		}},
		"operator invite": {(*doors).newName, map[ops.Door]way{
			ops.Admin:   byAPI(ops.Admin, "POST operators", `{"name": "ID", "role": "viewer"}`, ""),
			ops.Console: byForm("/operators", "name", "ID", "role", "viewer"), ops.Command: byCommand("operator", "invite", "--name", "ID", "--role", "viewer"),
		}},
		"operator role": {(*doors).newOperator, map[ops.Door]way{
			ops.Admin: byAPI(ops.Admin, "PATCH operators/ID", `{"role": "operator"}`, ""), ops.Console: byForm("/operators/ID", "role", "operator"),
			ops.Command: byCommand("operator", "role", "ID", "operator"),
		}},
		"operator remove": {(*doors).newOperator, map[ops.Door]way{
			ops.Admin: byAPI(ops.Admin, "DELETE operators/ID", "", ""), ops.Console: byForm("/operators/ID", "do", "remove"),
			ops.Command: byCommand("operator", "remove", "ID"),
		}},
		"ranges accept": {(*doors).holdRanges, map[ops.Door]way{
			ops.Admin: byAPI(ops.Admin, "POST ranges/ID/accept", `{}`, ""), ops.Console: byForm("/ranges/ID/accept"), ops.Command: byCommand("ranges", "accept", "ID"),
		}},
		"ranges refresh": {scheme, map[ops.Door]way{
			ops.Admin: byAPI(ops.Admin, "POST ranges/ID/refresh", `{}`, ""), ops.Console: byForm("/ranges/ID/refresh"),
			ops.Command: byCommand("ranges", "refresh", "ID"),
		}},
		"cert request": {scheme, map[ops.Door]way{
			ops.Admin:   byAPI(ops.Admin, "POST certificates/ID/request", `{"curve": "P-256"}`, ""),
			ops.Console: byForm("/certificates/ID", "do", "request", "key", "p256"), ops.Command: byCommand("cert", "request", "ID", "--curve", "P-256"),
		}},
		"journal erase": {func(*doors) string { return "merchant Old Shop" }, map[ops.Door]way{
			ops.Admin:   byAPI(ops.Admin, "POST journal/erase", `{"merchant": "Old Shop"}`, ""),
			ops.Command: byCommand("journal", "erase", "--merchant", "Old Shop", "--yes"),
			ops.Console: byForm("/erase", "do", "erase", "merchant", "Old Shop", "proof", "Old Shop"),
		}},
		"journal hold add": {(*doors).newName, map[ops.Door]way{
			ops.Admin: byAPI(ops.Admin, "POST journal/holds",
				`{"name": "ID", "merchant": "`+actsMerchant+`", "reason": "a dispute"}`, ""),
			ops.Console: byForm("/holds", "name", "ID", "merchant", actsMerchant, "reason", "a dispute"),
			ops.Command: byCommand("journal", "hold", "add", "--name", "ID", "--merchant", actsMerchant, "--reason", "a dispute"),
		}},
		"journal hold lift": {(*doors).newHold, map[ops.Door]way{
			ops.Admin: byAPI(ops.Admin, "DELETE journal/holds/ID", "", ""), ops.Console: byForm("/holds/ID/lift"),
			ops.Command: byCommand("journal", "hold", "lift", "ID"),
		}},
		"webhook events EVENT": {func(d *doors) string { return d.newEvent(d.newEndpoint()) }, map[ops.Door]way{
			ops.Admin: byAPI(ops.Admin, "GET events/ID", "", ""), ops.Command: byCommand("webhook", "events", "--merchant", actsMerchant, "ID"),
		}},
		"webhook resend FROM": {func(d *doors) string { d.newEvent(d.newEndpoint()); return actsMerchant }, map[ops.Door]way{
			ops.Admin: byAPI(ops.Admin, "POST events/resend", `{"merchant": "ID", "from": "2020-01-01T00:00:00Z"}`, ""),
			ops.Console: unnamed(func(d *doors, _ string) string {
				d.post("/webhooks/"+d.endpoint(), "do", "resend", "from", "2020-01-01")
				return ""
			}),
			ops.Command: byCommand("webhook", "resend", "--merchant", "ID", "--from", "24h"),
		}},
		"webhook resend": {func(d *doors) string { return d.newEvent(d.newEndpoint()) }, map[ops.Door]way{
			ops.Merchants: byAPI(ops.Merchants, "POST events/ID/resend", "", ""), ops.Admin: byAPI(ops.Admin, "POST events/ID/resend", "", ""),
			ops.Console: byForm("/webhooks/any/events/ID/resend"), ops.Command: byCommand("webhook", "resend", "--merchant", actsMerchant, "ID"),
		}},
	}
	for _, act := range ops.Table() {
		if _, isThere := tests[act.Name]; !isThere && act.Do != nil && strings.Contains(act.Route, "webhook-endpoints/{id}") {
			tests[act.Name] = onEndpoint(&act)
		}
	}
	return tests
}

// triedElsewhere are acts with an entry in the audit trail that other tests try: they need a journal, a directory
// server or a second person.
var triedElsewhere = []string{
	"approval ask", "approval allow", "approval refuse", "journal search", "journal show", "journal export",
	"audit export", "ranges import", "cert install", "cert activate", "cert rollback",
}

// TestActsLeaveTheSameTrailAtEveryDoor does each act of the table through each of its doors. The audit trail has the
// same action and the same object for it, once, and names the actor. The test fails if an act has no way through one of
// its doors.
func TestActsLeaveTheSameTrailAtEveryDoor(t *testing.T) {
	t.Parallel()
	d := newDoors(t)
	who := map[ops.Door]string{ops.Merchants: "key:0123456789ab", ops.Admin: "token:ci", ops.Console: "passkey:jo", ops.Command: local.Actor().Who}
	tests, tried := actTests(), 0
	for _, act := range ops.Table() {
		if act.Action == "" || slices.Contains(triedElsewhere, act.Name) {
			continue
		}
		test, isThere := tests[act.Name]
		if !isThere {
			t.Errorf("nothing tries %q", act.Name)
			continue
		}
		for door := range test.ways {
			if !act.Has(door) && act.Do == nil {
				t.Errorf("%q has a way through the %s, of which the table does not know", act.Name, door)
			}
		}
		for _, door := range act.Doors {
			through, isThere := test.ways[door]
			if !isThere {
				t.Errorf("nothing tries %q through the %s", act.Name, door)
				continue
			}
			tried++
			d.removeEndpoints()
			on := test.prepare(d)
			last := d.lastEntry()
			object := through(d, on)
			entries := d.newest(last)
			if len(entries) == 0 {
				t.Errorf("%q through the %s leaves no trace", act.Name, door)
				continue
			}
			e := entries[0]
			if len(entries) != 1 || e.Action != act.Action || e.Who != who[door] || e.Role == "" || e.From == "" ||
				e.Object == "" || object != "" && e.Object != object {
				t.Errorf("%q on %q through the %s: the audit trail has %+v", act.Name, object, door, entries)
			}
		}
	}
	if tried < 20 {
		t.Errorf("%d ways were tried", tried)
	}
}

// TestEveryActOfTheCommandLineIsACommand: each act that the table gives to the command line is a
// command, by its own name.
func TestEveryActOfTheCommandLineIsACommand(t *testing.T) {
	t.Parallel()
	for _, act := range ops.Table() {
		words := slices.DeleteFunc(strings.Fields(act.Name), func(word string) bool { return word == strings.ToUpper(word) })
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), append(words, "--help"), strings.NewReader(""), &stdout, &stderr)
		if is := status == 0; is != act.Has(ops.Command) {
			t.Errorf("threeds %s: status %d, %s; the table says: %v", act.Name, status, &stderr, act.Doors)
		}
	}
}
