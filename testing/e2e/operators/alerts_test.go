package operators

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// A label is one that a metric has, and the values that were seen of it.
type label map[string]bool

// exposition is what the program shows, by name of metric and of label.
type exposition map[string]map[string]label

var (
	seriesLine = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? \S+$`)
	labelPair  = regexp.MustCompile(`([a-z_]+)(=|!=|=~|!~)"([^"]*)"`)
)

// add reads what /metrics says.
func (e exposition) add(text string) {
	for _, m := range seriesLine.FindAllStringSubmatch(text, -1) {
		if e[m[1]] == nil {
			e[m[1]] = map[string]label{"instance": {}, "job": {"threeds": true}} // which Prometheus adds
		}
		for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
			if e[m[1]][pair[1]] == nil {
				e[m[1]][pair[1]] = label{}
			}
			e[m[1]][pair[1]][pair[3]] = true
		}
	}
}

// exposed is all that a server may show: what one does after a challenge, and what
// only shows after a fault, or with another store.
func exposed(t *testing.T) exposition {
	t.Helper()
	e := exposition{"up": {"instance": {}, "job": {"threeds": true}}}
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: rig.NewCollector(t).Section("1")})
	s.Through(s.Request("2.2.0"))
	areq, answer := s.Challenged("2.2.0")
	s.Result(rig.Marshal(rig.RReq(areq, answer, "Y")))
	s.Postauth(answer.Text("threeDSServerTransID"))
	shown := func(s *rig.Site) string {
		t.Helper()
		res, err := http.Get(s.ConsoleURL + "/metrics")
		rig.Must(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		rig.Must(t, err)
		return string(text)
	}
	e.add(shown(s))

	// A journal that is not empty has a head from the start on.
	rig.Must(t, s.Stop())
	again := rig.StartSite(t, ca, s.Directory, rig.Plan{Beside: s})
	waittest.Until(t, "the head of the journal", func() bool { return strings.Contains(shown(again), "threeds_journal_head_info{") })
	e.add(shown(again))

	m := obs.NewMetrics()
	for _, code := range []message.Code{message.TransientFailure, message.PermanentFailure, message.ConnectionFailure} {
		m.Observe("auth", "visa", code.String(), "D", 0)
		m.Observe("rreq", "visa", code.String(), "S", 0)
	}
	for _, op := range [][2]string{{"auth", "A"}, {"auth", "D"}, {"auth", "internal"}, {"rreq", "erro"}, {"preauth", "305"},
		{"auth", "overload"}, {"auth", "in_flight"}, {"auth", "no_ranges"}, {"auth", "key_not_judged"}} {
		m.Observe(op[0], "visa", op[1], "A", 0)
	}
	m.Degraded(func() map[string]bool {
		return map[string]bool{"directory visa": true, "v1 visa": true, "api": true, "results": true, "browser": true, "console": true, "keys": true}
	})
	m.HelperKeys(func() map[string]bool { return map[string]bool{"visa-2026": true} })
	m.RulesChecked("Shop", "visa", []obs.BrokenRule{{Element: "mcc", Rule: "require", InForce: true}})
	m.Lists(map[string]time.Time{"directories[0].crls": time.Now()}, func(string) string { return "visa" })
	m.Open("visa", "AReq", true)
	m.BrowserRequest("begin", http.StatusNotFound)
	for kind := directory.Timeout; kind <= directory.Proxy; kind++ {
		m.Request("visa", "AReq", kind.String())
	}
	for _, why := range []api.Refusal{api.Overload, api.InFlight, api.RateLimit, api.Connections} {
		m.Refused("auth", string(why))
	}
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/nobody") // connects when it is used
	rig.Must(t, err)
	defer pool.Close()
	server.RegisterPoolMetrics(m, pool.Stat)
	e.add(metricsOf(m))
	return e
}

var (
	selector  = regexp.MustCompile(`([a-z0-9_:]+)\{((?:[^"}]|"[^"]*")*)\}`)
	quoted    = regexp.MustCompile(`"[^"]*"`)
	lists     = regexp.MustCompile(`\b(?:by|on|without|ignoring)\s*\(([^)]*)\)`)
	name      = regexp.MustCompile(`\bjob:[a-z0-9_:]+|\b(?:threeds|process|go)_[a-z_]+\b|\bup\b`)
	inBraces  = regexp.MustCompile(`\{[^}]*\}`)
	variables = strings.NewReplacer(`"$scheme"`, `".*"`, `"$job"`, `".*"`, "$__rate_interval", "5m")
)

// check holds an expression, and the labels that its text shows, against what there is.
func (e exposition) check(t *testing.T, where, expr string, shown []string) {
	t.Helper()
	expr = variables.Replace(expr)
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
			values, there := e[m[1]][pair[1]]
			if !there {
				t.Errorf("%s: %s has no label %s", where, m[1], pair[1])
				continue
			}
			pattern := regexp.QuoteMeta(pair[3])
			if strings.HasSuffix(pair[2], "~") {
				pattern = pair[3]
			}
			for one := range strings.SplitSeq(pattern, "|") {
				match, err := regexp.Compile("^(?:" + one + ")$")
				if err != nil || !slices.ContainsFunc(slices.Collect(maps.Keys(values)), match.MatchString) {
					t.Errorf("%s: %s of %s is never %s (%v)", where, pair[1], m[1], one, err)
				}
			}
		}
	}
	plain := inBraces.ReplaceAllString(quoted.ReplaceAllString(expr, ""), "")
	names := name.FindAllString(plain, -1)
	if len(names) == 0 {
		t.Errorf("%s: %s asks for nothing", where, expr)
	}
	for _, n := range names {
		if e[n] == nil {
			t.Errorf("%s: there is no metric %s", where, n)
		}
	}
	for _, m := range lists.FindAllStringSubmatch(plain, -1) {
		for l := range strings.SplitSeq(m[1], ",") {
			shown = append(shown, strings.TrimSpace(l))
		}
	}
	for _, l := range shown {
		if !slices.ContainsFunc(names, func(n string) bool { return e[n][l] != nil }) {
			t.Errorf("%s: none of %v has a label %s", where, names, l)
		}
	}
}

// TestMonitoring holds the rules for Prometheus and the dashboard for Grafana against what
// the program shows, and the rules against the page that says what to do.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	e := exposed(t)
	t.Run("manual", e.manual)
	t.Run("rules", e.rules)
	t.Run("dashboard", e.dashboard)
}

// manual: what the rules are held against is all that the manual has.
func (e exposition) manual(t *testing.T) {
	_, table, _ := strings.Cut(string(rig.ReadFile(t, "../../../docs/operating/metrics.md")), "\n## Metrics\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, m := range regexp.MustCompile("`(threeds_[a-z_]+)`").FindAllStringSubmatch(table, -1) {
		if e[m[1]] == nil && e[m[1]+"_bucket"] == nil {
			t.Errorf("%s was not seen", m[1])
		}
	}
}

func (e exposition) rules(t *testing.T) {
	var file struct {
		Groups []struct {
			Name, Interval string
			Rules          []struct {
				Alert, Record, Expr, For string
				Labels, Annotations      map[string]string
			}
		}
	}
	rig.Must(t, yaml.UnmarshalWithOptions(rig.ReadFile(t, rig.DeployDir+"/prometheus/threeds.rules.yaml"), &file, yaml.Strict()))
	const docs = "https://github.com/openthreeds/threeds/blob/main/docs/operating/"
	var told []string
	page, first := map[string]string{}, map[string]string{} // by alert: where it is explained, and what of the console to open
	console := string(rig.ReadFile(t, "../../../internal/edge/pages/pages.go"))
	head := regexp.MustCompile(`(?m)^### (\w+)\n\n(?:Console: ` + "`(/[a-z]*)`" + `\.)?`)
	for _, name := range []string{"alerts.md", "alerts-state.md", "objectives.md"} {
		for _, m := range head.FindAllStringSubmatch(string(rig.ReadFile(t, "../../../docs/operating/"+name)), -1) {
			told, page[m[1]], first[m[1]] = append(told, m[1]), docs+name+"#", m[2]
			if pattern := strings.Replace(`"GET `+m[2]+`"`, `/"`, `/{$}"`, 1); m[2] == "" || !strings.Contains(console, pattern) {
				t.Errorf("%s: what is said of %s does not begin with a page of the console, but with %q", name, m[1], m[2])
			}
		}
	}
	inSummary := regexp.MustCompile(`\$labels\.([a-z]+)`)
	var alerts []string
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				e.check(t, r.Record, r.Expr, nil)
				e[r.Record] = map[string]label{"job": {"threeds": true}}
				continue
			}
			alerts = append(alerts, r.Alert)
			var shown []string
			for _, m := range inSummary.FindAllStringSubmatch(r.Annotations["summary"]+r.Annotations["console"], -1) {
				shown = append(shown, m[1])
			}
			if opened, _, _ := strings.Cut(r.Annotations["console"], "?"); strings.Split(opened, "#")[0] != first[r.Alert] {
				t.Errorf("%s opens %q of the console, and the manual begins with %q", r.Alert, r.Annotations["console"], first[r.Alert])
			}
			e.check(t, r.Alert, r.Expr, shown)
			if r.Annotations["summary"] == "" || r.Annotations["runbook_url"] != page[r.Alert]+strings.ToLower(r.Alert) {
				t.Errorf("%s leads to %q, and says %q", r.Alert, r.Annotations["runbook_url"], r.Annotations["summary"])
			}
			if s := r.Labels["severity"]; s != "critical" && s != "warning" {
				t.Errorf("%s has the severity %q", r.Alert, s)
			}
			if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
		}
	}
	if !slices.Equal(alerts, told) || len(alerts) < 20 {
		t.Errorf("the rules are\n%v\nand the manual has\n%v", alerts, told)
	}
}

func (e exposition) dashboard(t *testing.T) {
	type at struct{ X, Y, W, H int }
	var file struct {
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     at
			Targets     []struct{ Expr, LegendFormat string }
		}
		Templating struct{ List []struct{ Name string } }
	}
	rig.Must(t, json.Unmarshal(rig.ReadFile(t, rig.DeployDir+"/grafana/threeds.json"), &file))
	label := regexp.MustCompile(`\{\{([a-z]+)\}\}`)
	ids, taken, queries := map[int]bool{}, map[[2]int]string{}, 0
	for _, p := range file.Panels {
		if ids[p.ID] {
			t.Errorf("%s has the id of another panel", p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies on %q, or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if (len(p.Targets) == 0) != (p.Type == "row") {
			t.Errorf("%s, a %s, has %d queries", p.Title, p.Type, len(p.Targets))
		}
		for _, q := range p.Targets {
			queries++
			var shown []string
			for _, m := range label.FindAllStringSubmatch(q.LegendFormat, -1) {
				shown = append(shown, m[1])
			}
			e.check(t, p.Title, q.Expr, shown)
		}
	}
	if queries < 15 || len(file.Templating.List) != 3 {
		t.Errorf("%d queries, and the variables %v", queries, file.Templating.List)
	}
}

// metricsOf is what metrics expose.
func metricsOf(m *obs.Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}
