package pages_test

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/state/cluster"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestK3DirectoriesPage: what is configured, and how each directory is.
func TestK3DirectoriesPage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(s.get("viewer", "/directories"), 404, "There are no directories here.")
	n := s.AddNode()
	n.Directories[1].Breaker = admin.Breaker{State: admin.BreakerOpen, Since: &s.Now, Fault: "Connection refused", Refused: 1234}
	n.Problems["directory mastercard"] = "directories[1].client_cert.cert: the certificate has expired"
	w := s.get("viewer", "/directories")
	s.want(w, 200, "https://ds.visa.example/areq", "https://ds.mastercard.example/preq", "https://results.example/results", "2.1.0, 2.2.0", "CN=3ds.example",
		"CN=Scheme root", "ds.visa.example", "1,204, confirmed", "3 requests, 100.0\u00a0% answered, median", "Lets through", "Holds back", "Connection refused",
		"1,234 requests were refused", "the certificate has expired", ">12 min<", "122 days", `class="spark"`)
	if strings.Count(w.Body.String(), "the certificate has expired") != 1 {
		t.Error("a problem of one directory is at another")
	}
	s.PutStatus("visa", directory.RefreshStatus{Generation: 3, Ranges: 1204, Loaded: s.Now.Add(-26 * time.Hour), Fault: "HTTP status 503", Held: 4, HeldRanges: 2})
	s.want(s.get("viewer", "/directories"), 200, ">26 h<", `<span class="tw b">old</span>`, "HTTP status 503", "2 are held back")
	s.Admin.Journal = nil
	s.want(s.get("viewer", "/directories"), 200, "the journal is off")
}

// TestK3NodesPage: each node with its state, and what is not well with it or was not.
func TestK3NodesPage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(s.get("viewer", "/nodes"), 404)
	n := s.AddNode()
	w := s.get("viewer", "/nodes")
	s.want(w, 200, "node-1 10.0.0.1:8080", "Ready", "7 s ago", "v1.2.3", "c0ffee12", "69913c56", "journal 1f2e3d4c")
	if body := w.Body.String(); strings.Contains(body, "differ") || strings.Contains(body, "not well") {
		t.Error("something is wrong with one good node")
	}
	silent := n.Members[0]
	silent.Name, silent.State, silent.Config, silent.Seen = "node-2", cluster.Silent, "decade", s.Now.Add(-5*time.Minute)
	n.Members[0].Problems = []cluster.Problem{{Part: "journal", Text: "is not written", Since: s.Now.Add(-time.Hour)}}
	n.Members[0].Past = []cluster.Problem{{Part: "store", Text: "cannot be reached", Since: s.Now.Add(-2 * time.Hour), Over: s.Now.Add(-time.Hour)}}
	n.Members = append(n.Members, silent)
	s.want(s.get("viewer", "/nodes"), 200, "Silent", "5 min ago", "Node node-2 has been silent since 1 Mar 11:55:00 UTC.",
		"What is not well with node-1", "is not written", "cannot be reached", "over since 1 Mar 11:00:00")
	s.want(s.get("viewer", "/"), 200, "Node node-2 has been silent since", `href="/nodes"`)
	if strings.Contains(s.get("own-viewer", "/").Body.String(), "node-2") {
		t.Error("the shop's own people see nodes")
	}
}

// TestK3ConfigurationPage: what is in use stands there with its place, defaults apart; of a secret only its file; and
// what the file would change, or why a start with it would fail.
func TestK3ConfigurationPage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(s.get("operator", "/configuration"), 404)
	n := s.AddNode()
	s.want(s.get("operator", "/configuration"), 200, "The file says what is in use", "directories[visa].areq_url", "https://ds.visa.example/areq",
		">threeds.yaml:12</td>", ">store</td>", "set, in /etc/threeds/proxy", "1 key without a value of its own")
	n.Configuration.Changes = []admin.SettingChange{
		{Key: "store.url", Before: "file:a", After: "file:b", NeedsRestart: true}, {Key: "log.level", Before: "info", After: "debug"},
	}
	s.want(s.get("operator", "/configuration"), 200, "What the file would change", "file:b", "a restart", "debug", "a reload")
	n.Configuration.Faults = []string{"threeds.yaml:4: stor: no such key (did you mean store?)"}
	w := s.get("operator", "/configuration")
	s.want(w, 200, "The next start would fail", "did you mean store?")
	if strings.Contains(w.Body.String(), "What the file would change") {
		t.Error("a file that cannot be used would change something")
	}
	s.want(s.get("viewer", "/configuration"), 403)
}

// TestK3OverviewSaysWhatNeedsAttention: in words, the most urgent first, and to a merchant's own people what is theirs.
func TestK3OverviewSaysWhatNeedsAttention(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	n := s.AddNode()
	s.want(s.get("viewer", "/"), 200, "All clear.", "<h2 id=\"dt\">Directories</h2>")
	n.Endings = map[string]time.Time{
		"directories[0].client_cert.cert": s.Now.Add(13 * 24 * time.Hour), "directories[1].client_cert.cert": s.Now.Add(-time.Hour),
		"api.tls.cert": s.Now.Add(29 * 24 * time.Hour), "results.tls.cert": s.Now.Add(31 * 24 * time.Hour),
	}
	since := s.Now.Add(-time.Hour)
	n.Members[0].Problems = []cluster.Problem{
		{Part: "journal", Text: "is not written: look for it in the log", Since: since},
		{Part: "store", Text: "writes fail: database or disk is full", Since: since},
		{Part: "way to visa", Text: "Connection refused", Since: since},
		{Part: "ranges of mastercard", Text: "none", Since: since}, // the same on all nodes, so it is said once
	}
	n.Problems = map[string]string{
		"directory mastercard": "directories[1].client_cert.cert: the certificate has expired",
		"ranges of mastercard": "none: its cards count as not enrolled",
	}
	s.PutStatus("visa", directory.RefreshStatus{Generation: 3, Ranges: 1204, Loaded: s.Now.Add(-9 * time.Hour), Fault: "HTTP status 503", Held: 4, HeldRanges: 2})
	n.Troubled = []admin.TroubledEndpoint{
		{ID: "ep_1", Merchant: shop, Failing: since}, {ID: "ep_2", Merchant: otherShop, IsDisabled: true},
		{ID: "ep_3", Merchant: otherShop, Failing: s.Now.Add(-time.Second)}, // the next attempt may succeed
	}
	w := s.get("viewer", "/")
	s.want(w, 200, "A certificate ends in 13 days: visa", "A certificate has expired: mastercard", "A certificate ends in 29 days: api.tls.cert",
		"The directory server of visa cannot be reached", "Connection refused", "Since 1 Mar 11:00:00.", "The card ranges of visa are 9 h old",
		"HTTP status 503", "New card ranges of visa are held back",
		"mastercard has no card ranges", "The journal is not written", "The store refuses writes: database or disk is full",
		"Webhooks of "+shop+" fail at one endpoint", `href="/webhooks/ep_1"`, otherShop+" gets no webhooks")
	body := w.Body.String()
	if strings.Contains(body, "results.tls") || strings.Contains(body, "well with directory mastercard") ||
		strings.Contains(body, "All clear.") || strings.Contains(body, "ep_3") {
		t.Error("something is said twice, or too early")
	}
	if strings.Index(body, "ends in 29 days") < strings.Index(body, "The journal is not written") {
		t.Error("what is less urgent stands first")
	}
	own := s.get("own-viewer", "/").Body.String()
	for _, text := range []string{"visa cannot", "certificate", otherShop, "held back", "journal"} {
		if strings.Contains(own, text) {
			t.Errorf("the shop's own people see %q", text)
		}
	}
	if !strings.Contains(own, "Webhooks of "+shop+" fail") {
		t.Error("the shop's own people do not see their endpoint")
	}
}

// TestK3ChartOfResults: each result has its part of the right bar, and the list next to it has the numbers.
func TestK3ChartOfResults(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.get("viewer", "/")
	s.want(w, 200, "<b>33.3\u00a0%</b>Authenticated after a challenge", "<b>33.3\u00a0%</b>Abandoned by the shopper",
		"<b>33.3\u00a0%</b>Not authenticated", "<b>0.0\u00a0%</b>Attempted",
		`<rect class="f2" x=`, `<rect fill="url(#h4)" x=`, `<rect class="f5" x=`, "<span>now</span>")
	if strings.Contains(w.Body.String(), `<rect class="f1" x=`) {
		t.Error("a result that nothing has is drawn")
	}
	for from, bars := range map[time.Time]int{s.Now.Add(-24 * time.Hour): 24, s.Now.AddDate(0, 0, -7): 28, time.Unix(0, 0): 1} {
		o, err := s.Admin.Overview(t.Context(), actor("own-viewer"), from, time.Time{})
		must(t, err)
		last := o.Chart[len(o.Chart)-1]
		if len(o.Chart) != bars || last.Counts[1] != 1 || last.Counts[4] != 1 || last.Counts[3] != 0 || o.Directories != nil {
			t.Errorf("from %s: %d bars, want %d: %+v", from, len(o.Chart), bars, last)
		}
	}
	for i := range 400 { // over more than a year: a bar has several days
		if i%40 == 0 {
			r := recordOf("40000000-0000-4000-8000-0000000000" + string(rune('0'+i/40/10)) + string(rune('0'+i/40%10)))
			r.Created = s.Now.AddDate(0, 0, -i-1)
			s.add(journal.Answered, r, stepOf("areq", r.Created))
		}
	}
	o, err := s.Admin.Overview(t.Context(), actor("viewer"), time.Unix(0, 0), time.Time{})
	must(t, err)
	var counted int64
	for _, bar := range o.Chart {
		for _, n := range bar.Counts {
			counted += n
		}
	}
	if len(o.Chart) > 62 || counted != 13 {
		t.Errorf("%d bars count %d", len(o.Chart), counted)
	}
}

// TestK8RangesByPrefix: what the server would do with the cards of each range, and no whole card number in the address.
func TestK8RangesByPrefix(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.AddNode()
	s.TwoRanges()
	s.want(s.get("viewer", "/ranges"), 200, "2 ranges, generation 2", "1 range is held back", "12 min old", "1 and 2")
	w := s.get("viewer", "/ranges?prefix=4000+001")
	s.want(w, 200, "4000001000000000–4000001999999999", "2.2.0, 2.1.0</td>", "is run in the browser first",
		"https://ds.visa.example/areq, then https://second.visa.example/areq",
		"2.2.0 https://acs.bank.example/method", "in none of 0 ranges")
	if strings.Contains(w.Body.String(), "4000002000000000") {
		t.Error("a range of other cards is there")
	}
	s.want(s.get("viewer", "/ranges?prefix=4111"), 200, "Visa: in none of 2 ranges")
	s.want(s.get("viewer", "/ranges?prefix=4000001234560"), 400, "whole card number")
	s.want(s.get("viewer", "/ranges?prefix=400000123456"), 200, "4000001000000000–4000001999999999") // as long as a prefix may be
	for typed, want := range map[string]string{
		card: "whole card number", "4000+0000+0000+0103": "whole card number", "4000x": "want 1 to 12 digits",
	} {
		w := s.get("viewer", "/ranges?prefix="+typed)
		s.want(w, 400, want)
		if hasCard(w.Body.String()) {
			t.Errorf("%s is shown again", typed)
		}
	}
	if _, err := s.Admin.FindRanges(t.Context(), actor("viewer"), "visa", card); err == nil || strings.Contains(err.Error(), card) {
		t.Errorf("a card asked of the API: %v", err)
	}
}

// TestK8AcceptIsAsked: the page compares what is held back. An operator who may do so accepts it, only as it was seen,
// and the audit trail has a line about it.
func TestK8AcceptIsAsked(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.AddNode()
	s.TwoRanges()
	s.want(s.get("viewer", "/ranges/visa/diff?old=2&new=held"), 200, "0 added, 1 removed, 0 changed", "4000002000000000–4000002999999999")
	s.want(s.get("viewer", "/ranges/visa/diff?old=1&new=2"), 200, "1 added, 0 removed, 1 changed", "→ ", "https://acs.bank.example/method")
	s.want(s.get("viewer", "/ranges/visa/diff"), 200, "what is held back")
	for _, at := range []string{"/ranges/visa/diff?old=9", "/ranges/visa/diff?new=-1", "/ranges/visa/diff?new=x", "/ranges/mastercard/diff?new=held"} {
		s.want(s.get("viewer", at), 400, "the number of a generation")
	}
	s.want(s.get("viewer", "/ranges/nobody/diff"), 404)
	if body := s.get("viewer", "/ranges/visa/diff?new=held").Body.String() + s.get("viewer",
		"/ranges").Body.String(); strings.Contains(body, `action="/ranges/visa`) {
		t.Error("a viewer has a form")
	}
	s.want(s.get("operator", "/ranges/visa/diff?new=held"), 200, `name="held" value="7"`)
	s.want(s.post("operator", "/ranges/visa/accept", url.Values{"held": {"6"}}), 409)
	s.want(s.post("operator", "/ranges/mastercard/accept", url.Values{}), 409)
	if request, err := directory.ReadRefreshRequest(t.Context(), s.DB, "visa", directory.RefreshStatus{}); err != nil || !request.At.IsZero() {
		t.Errorf("a refused form asked for %+v, %v", request, err)
	}
	if w := s.post("operator", "/ranges/visa/accept", url.Values{"held": {"7"}}); w.Code != 303 || w.Header().Get("Location") != "/ranges?done=accept" {
		t.Errorf("accept: %d %s", w.Code, w.Header().Get("Location"))
	}
	if w := s.post("operator", "/ranges/visa/refresh", url.Values{}); w.Code != 303 {
		t.Errorf("refresh: %d", w.Code)
	}
	request, err := directory.ReadRefreshRequest(t.Context(), s.DB, "visa", directory.RefreshStatus{})
	if err != nil || request.Accept != 7 || !request.Refresh {
		t.Errorf("asked for %+v, %v", request, err)
	}
	s.want(s.get("operator", "/ranges?done=accept"), 200, "What was held back is accepted", "Accepted. A node that serves")
	s.checkTrail("ranges.accept", "passkey:operator")
	s.checkTrail("ranges.refresh", "passkey:operator")
}

// TestK8MatrixIsExact gets and sends each page of directories and card ranges as each role, and without csrf.
func TestK8MatrixIsExact(t *testing.T) {
	t.Parallel()
	withRanges := func() *site {
		s := newSite(t)
		s.AddNode()
		s.TwoRanges()
		return s
	}
	changesNothing := withRanges()
	for at, want := range map[string][6]int{
		"GET /nodes": {200, 200, 200, 403, 403, 403}, "GET /configuration": {403, 200, 200, 403, 403, 403},
		"GET /directories": {200, 200, 200, 403, 403, 403}, "GET /ranges": {200, 200, 200, 403, 403, 403},
		"GET /ranges?prefix=4000": {200, 200, 200, 403, 403, 403}, "GET /ranges/visa/diff": {200, 200, 200, 403, 403, 403},
		"POST /ranges/visa/accept": {403, 303, 303, 403, 403, 403}, "POST /ranges/visa/refresh": {403, 303, 303, 403, 403, 403},
		"POST /ranges/visa/remove": {403, 404, 404, 403, 403, 403},
	} {
		method, path, _ := strings.Cut(at, " ")
		for i, caller := range callers() {
			s := changesNothing
			if method == "POST" && want[i] < 400 {
				s = withRanges()
			}
			w := s.get(caller, path)
			if method == "POST" {
				if w := s.serve(caller, httptest.NewRequest(method, path, nil)); w.Code != 403 {
					t.Errorf("%s as %s without csrf: %d", at, caller, w.Code)
				}
				w = s.post(caller, path, url.Values{})
			}
			if w.Code != want[i] {
				t.Errorf("%s as %s: %d, want %d", at, caller, w.Code, want[i])
			}
		}
	}
}

// TestK1AttacksInDirectoriesAreText: in what is typed, in what a directory server wrote, and in the configuration.
func TestK1AttacksInDirectoriesAreText(t *testing.T) {
	t.Parallel()
	for _, attack := range attacks {
		s := newSite(t)
		n := s.AddNode()
		d := &n.Directories[0]
		d.AReqURL, d.PReqURL, d.ResultsURL, d.Proxy, d.OperatorID, d.Versions, d.ClientNames = attack, attack, attack, attack,
			attack, []string{"2.2.0", attack}, []string{attack}
		d.Certificate.Subject, d.Breaker = attack, admin.Breaker{State: admin.BreakerOpen, Fault: attack}
		n.Problems["directory visa"], n.Problems["ranges of jcb"], n.Endings[attack] = attack, attack, s.Now
		n.Troubled = []admin.TroubledEndpoint{{ID: attack, Merchant: attack, IsDisabled: true}}
		m := &n.Members[0]
		m.Name, m.Release, m.Config, m.KeyFile, m.JournalKeys = attack, attack, attack, attack, attack
		m.Problems = []cluster.Problem{{Part: "configuration", Text: attack, Since: s.Now}, {Part: attack, Text: attack}}
		m.Past = []cluster.Problem{{Part: "store", Text: attack, Since: s.Now, Over: s.Now}}
		n.Members = append(n.Members, cluster.Member{Name: "other"})
		n.Configuration = admin.Configuration{
			File: attack, Settings: []admin.Setting{{Key: attack, Value: attack, Source: attack}, {SecretFile: attack, Source: "file", Line: 1}},
			Changes: []admin.SettingChange{{Key: attack, Before: attack, After: attack}},
		}
		pair := [2]string{"4000001000000000", "4000001999999999"}
		s.UseRanges(newGeneration(t, "", pair), newGeneration(t, attack, pair), newGeneration(t, "", pair))
		s.PutStatus("visa", directory.RefreshStatus{
			Generation: 2, Ranges: 1, Loaded: s.Now.Add(-48 * time.Hour), Fault: attack, Serial: attack, Version: attack,
			Held: 7, HeldRanges: 1,
		})
		for _, at := range []string{
			"/", "/nodes", "/configuration", "/directories", "/ranges", "/ranges?prefix=4000", "/ranges/visa/diff",
			"/ranges?prefix=" + url.QueryEscape(attack), "/ranges?done=" + url.QueryEscape(attack),
			"/ranges/visa/diff?old=" + url.QueryEscape(attack), "/ranges/" + url.PathEscape(attack) + "/diff",
		} {
			if body := s.get("admin", at).Body.String(); isHarmful(body, attack) {
				t.Errorf("%s: %q is on the page", at, attack)
			}
		}
	}
}
