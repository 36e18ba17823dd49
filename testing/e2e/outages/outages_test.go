package outages

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// noticedWithin is how long after the first failure of an outage its notice begins at the latest.
const noticedWithin = time.Minute

// ownDelay is how long a server takes by itself until its metrics show what is wrong: it looks at its parts every 5 s.
// This time does not pass faster here.
const ownDelay = 10 * time.Second

// An outage is something that goes wrong with one installation.
type outage struct {
	name        string
	of          *installation
	begin, mend func()
	notice      string   // the title of its notice
	words       []string // further words of the notice
	hasNoPages  bool     // the console has no pages meanwhile, so that its notice is there afterwards
	alert       string   // the alert that says what is wrong
	labels      map[string]string
	// within is how soon the alert fires, with the rules as they are: after the longest range of its expression, and
	// after the time that it waits.
	within time.Duration
	// others are alerts that may fire as well: those about what follows from it.
	others []string
}

// budgets are the alerts about what merchants are promised. They may fire after an outage, too.
var budgets = []string{"ThreedsAnsweredBudgetFast", "ThreedsAnsweredBudgetSlow", "ThreedsLatencyBudgetFast", "ThreedsLatencyBudgetSlow"}

// TestSixOutages: each is a notice of the overview within a minute, and the right alert in its time; nothing fires for the
// other installation; and both are over when it is mended.
func TestSixOutages(t *testing.T) {
	if os.Getenv("OUTAGES") == "" {
		t.Skip("NOT TESTED: six outages with a real Prometheus: go -C testing run ./long outages does it")
	}
	speed := rig.ReadCount(t, "OUTAGES", 15)
	database := pgtest.Start(t)
	prod := install(t, "prod/threeds", rig.Plan{})
	test := install(t, "threeds-test", rig.Plan{
		Store:    fmt.Sprintf("store: {url: %q}\nkeys: keys.json", database.URL()),
		Sections: "webhooks: {allow: [127.0.0.1/32], http: true}",
	})
	hooks := newHookReceiver(t)
	if code, made := test.Post("/webhook-endpoints", rig.Object{"url": hooks.URL}); code != http.StatusCreated {
		t.Fatalf("no endpoint: %d %v", code, made)
	}
	p := startPrometheus(t, speed, map[string]string{
		prod.job: rig.HostOf(t, prod.ConsoleURL), test.job: rig.HostOf(t, test.ConsoleURL),
	})
	release := make(chan struct{})
	answer := sync.OnceFunc(func() { close(release) })
	t.Cleanup(answer)
	config := test.ConfigText()
	change := func(text string) {
		rig.WriteFile(t, test.ConfigFile, []byte(text))
		test.HangUp()
	}
	both := map[string]*installation{prod.job: test, test.job: prod}
	for _, o := range []outage{
		{
			name: "the directory of one scheme refuses everything", of: prod,
			begin:  func() { prod.master.SetAnswer(refuse) },
			mend:   func() { prod.master.SetAnswer(nil) },
			notice: "mastercard: refused by the directory", words: []string{"the directory refused", "error 303"},
			alert: "ThreedsDirectoryRefuses", labels: map[string]string{"scheme": mastercard, "severity": "critical"},
			within: 2 * time.Minute,
			others: []string{"ThreedsAuthRefused", "ThreedsFewAuthenticated"},
		},
		{
			name: "the configuration on disk is one that a start refuses", of: test,
			begin:  func() { change(strings.Replace(config, "per_key", "per_kee", 1) + "\nlimitz: {}\n") },
			mend:   func() { change(config) },
			notice: "The configuration on disk is refused, and the next start would fail", words: []string{"threeds.yaml:", "limitz"},
			alert: "ThreedsConfigurationRefused", labels: map[string]string{"severity": "warning"},
			within: 5*time.Minute + 30*time.Second,
		},
		{
			name: "most requests of one merchant are refused", of: prod,
			begin:  func() { prod.isSpoilt.Store(true) },
			mend:   func() { prod.isSpoilt.Store(false) },
			notice: "Other: most requests are refused", words: []string{"This server refused", "error 203", "deviceChannel"},
			alert: "ThreedsAuthRefused", labels: map[string]string{"component": "S", "severity": "warning"},
			within: 25 * time.Minute,
		},
		{
			name: "the database is away", of: test, hasNoPages: true,
			begin:  func() { rig.Must(t, database.Halt()) },
			mend:   func() { rig.Must(t, database.Start()) },
			notice: "The store cannot be reached", words: []string{"Every /auth is refused"},
			alert: "ThreedsNoNodeReady", labels: map[string]string{"severity": "critical"},
			within: 45 * time.Second,
			others: []string{
				"ThreedsAuthFailing", "ThreedsStoreFailing", "ThreedsStoreSlow", "ThreedsNodeNotReady", "ThreedsJournalFailing",
			},
		},
		{
			name: "a directory does not answer", of: prod,
			begin: func() {
				prod.Directory.Play(func(http.ResponseWriter, rig.Object) { <-release })
			},
			mend: func() {
				prod.Directory.Play(nil)
				answer()
			},
			notice: "visa: no usable answer from the directory", words: []string{"without a usable answer"},
			alert: "ThreedsAuthFailing", labels: map[string]string{"scheme": visa, "severity": "critical"},
			within: 7 * time.Minute,
			others: []string{"ThreedsDirectoryFailing", "ThreedsFewAuthenticated"},
		},
		{
			name: "the webhooks of a merchant fail", of: test,
			begin:  func() { hooks.fails.Store(true) },
			mend:   func() { hooks.fails.Store(false) },
			notice: "Webhooks of Shop fail at one endpoint", words: []string{"No delivery has succeeded since"},
			alert: "ThreedsWebhooksFailing", labels: map[string]string{"severity": "warning"},
			within: 40 * time.Minute,
		},
	} {
		t.Run(o.name, func(t *testing.T) { o.play(t, p.in(t), both[o.of.job]) })
	}
}

// refuse answers every AReq as a directory server that does not know this 3DS Server.
func refuse(areq rig.Object) (status int, body []byte) {
	return http.StatusOK, rig.Marshal(rig.Object{
		"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "303", "errorComponent": "D", "errorDescription": "no access",
		"errorDetail": "merchantName", "errorMessageType": "AReq", "threeDSServerTransID": areq["threeDSServerTransID"],
	})
}

// A hookReceiver is the endpoint of a merchant for webhooks, which may fail.
type hookReceiver struct {
	*httptest.Server
	fails atomic.Bool
}

func newHookReceiver(t *testing.T) *hookReceiver {
	t.Helper()
	r := &hookReceiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if r.fails.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// play has the outage happen, and checks what operators see of it.
func (o *outage) play(t *testing.T, p *prometheus, other *installation) {
	of := o.of
	waittest.Until(t, "the end of alerts about the outage before", rig.Unhurried(func() bool {
		for _, job := range []string{of.job, other.job} {
			for name := range p.alerts(job) {
				if !slices.Contains(budgets, name) {
					return false
				}
			}
		}
		return true
	}))
	before := p.alerts(other.job)
	mend := sync.OnceFunc(o.mend)
	defer mend()
	began := time.Now()
	o.begin()
	var seen time.Time
	if !o.hasNoPages {
		var n admin.Notice
		n, seen = of.awaitNotice(t, o.notice, o.words...)
		if !strings.HasPrefix(n.Key, "node ") { // what a node knows of itself it remembers itself
			of.In(t).AwaitKeptNotice(n.Key) // as it is before an alert fires when time passes as usual
		}
	}
	var fires alert
	waittest.Until(t, o.alert+" to fire", rig.Unhurried(func() bool {
		fires = p.alerts(of.job)[o.alert]
		return fires.State == "firing"
	}))
	for name, want := range o.labels {
		if fires.Labels[name] != want {
			t.Errorf("the %s of %s is %q, want %q", name, o.alert, fires.Labels[name], want)
		}
	}
	mended := time.Now()
	mend()
	notice := of.awaitOver(t, o.notice)
	waittest.Until(t, "the end of "+o.alert, rig.Unhurried(func() bool { return p.alerts(of.job)[o.alert].State == "" }))

	o.checkNotice(t, &notice, began, seen, mended)
	history := p.history(began)
	o.checkAlerts(t, p, history, began, before, other.job)
	o.report(t, p.speed, began, seen, mended, fires, history[of.job])
}

// checkNotice checks when the notice began, when it was there, and what the history of the overview has of it.
func (o *outage) checkNotice(t *testing.T, n *admin.Notice, began, seen, mended time.Time) {
	t.Helper()
	// A notice about requests begins with the minute of the first one.
	if n.Since.Before(began.Truncate(time.Minute)) || n.Since.Sub(began) > noticedWithin {
		t.Errorf("the notice says since %v, and the outage began at %v", n.Since, began)
	}
	if !o.hasNoPages && seen.Sub(began) > noticedWithin {
		t.Errorf("the notice was there at %v, and the outage began at %v", seen, began)
	}
	if n.Over.Before(mended.Truncate(time.Second)) || !hasAll(n.Title+n.Text, o.words) {
		t.Errorf("mended at %v, and the history has %+v", mended, n)
	}
}

// checkAlerts checks that the right alert waited and fired in its time, and that no other fired that does not follow from
// the outage. before are alerts of the other job that there were before it.
func (o *outage) checkAlerts(
	t *testing.T, p *prometheus, history map[string]map[string]firing, began time.Time, before map[string]alert, other string,
) {
	t.Helper()
	right, held := history[o.of.job][o.alert], p.held(o.alert)
	if waited := right.firing.Sub(right.pending); right.pending.IsZero() || waited < held || waited > held+2*p.interval() {
		t.Errorf("%s was pending at %v and fired at %v, which should take %v", o.alert, right.pending, right.firing, held)
	}
	if took := right.firing.Sub(began); took > o.within/p.speed+ownDelay {
		t.Errorf("%s fired after %v, want at most %v and %v of the server", o.alert, took, o.within/p.speed, ownDelay)
	}
	expected := slices.Concat([]string{o.alert}, o.others, budgets)
	for job, all := range history {
		for name, f := range all {
			_, wasThere := before[name]
			isRight := job == o.of.job && slices.Contains(expected, name) || job == other && wasThere
			if !f.firing.IsZero() && !isRight {
				t.Errorf("%s fires for %q", name, job)
			}
		}
	}
}

// report prints what an operator saw, and when. With the rules as they are the times of alerts are longer.
func (o *outage) report(
	t *testing.T, speed time.Duration, began, seen, mended time.Time, fires alert, all map[string]firing,
) {
	after := func(at time.Time) string {
		if at.IsZero() {
			return "never"
		}
		return at.Sub(began).Round(100 * time.Millisecond).String()
	}
	right := all[o.alert]
	t.Logf("notice seen after %s; %s pending after %s, fired after %s; mended after %s, last fired after %s (%d times faster than with the rules as they are)",
		after(seen), o.alert, after(right.pending), after(right.firing), after(mended), after(right.last), speed)
	t.Logf("summary: %s\nconsole: %s\nrunbook: %s", fires.Annotations["summary"], fires.Annotations["console"],
		fires.Annotations["runbook_url"])
	for name, f := range all {
		if name != o.alert {
			t.Logf("also %s: pending after %s, fired after %s", name, after(f.pending), after(f.firing))
		}
	}
}
