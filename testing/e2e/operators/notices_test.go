package operators

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// pay sends one authentication of a directory, and returns the HTTP status of its /auth.
func (v *visitor) pay(scheme string) int {
	v.T.Helper()
	code, crd := v.Post("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN, "ds": scheme})
	if code != http.StatusOK {
		v.T.Fatalf("/preauth: %d %v", code, crd)
	}
	code, _ = v.Post("/auth", rig.BrowserRequest("2.2.0", rig.EnrolledPAN, crd.Text("threeDSServerTransID"), "U"))
	return code
}

// attention returns what the overview says needs attention, and what is over.
func (v *visitor) attention() (open, over string) {
	_, part, _ := strings.Cut(v.read("/"), "Needs attention")
	part, _, _ = strings.Cut(part, "Over time")
	open, over, _ = strings.Cut(part, "Over in the last day")
	return open, over
}

// awaitOver waits until something no longer needs attention, and the overview says that it is over. Before each
// look it does something.
func (v *visitor) awaitOver(title string, before func()) {
	v.T.Helper()
	waittest.Until(v.T, "the end of "+title, func() bool {
		before()
		open, over := v.attention()
		return open != "" && !strings.Contains(open, title) && strings.Contains(over, title) && strings.Contains(over, "over since")
	})
}

// TestNoticeOfADirectoryThatRefuses: when the directory of one scheme refuses every AReq, the overview says so, for
// that scheme alone, with the code and a link to the requests. When it answers again the notice is over, and neither a
// restart nor another node loses it.
func TestNoticeOfADirectoryThatRefuses(t *testing.T) {
	t.Parallel()
	ca, ca2 := rig.NewAuthority(t), rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Console: withConsole, Master: rig.NewWire(t, ca2)})
	jo := visit(t, s, operator.User{Name: "jo", Role: operator.Viewer})
	jo.await("/", "Now", "Refused by directories")
	for range 21 {
		if code := jo.pay("mastercard"); code != http.StatusOK {
			t.Fatalf("an /auth of mastercard: %d", code)
		}
	}
	s.Directory.SetAnswer(func(areq rig.Object) (int, []byte) {
		return http.StatusOK, rig.Marshal(rig.Object{
			"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "303", "errorComponent": "D", "errorDescription": "no access",
			"errorDetail": "merchantName", "errorMessageType": "AReq", "threeDSServerTransID": areq["threeDSServerTransID"],
		})
	})
	for range 19 {
		if code := jo.pay("visa"); code != http.StatusBadRequest {
			t.Fatalf("an /auth that the directory refuses: %d", code)
		}
	}
	jo.await("/", "Requests 40", "Refused by directories 19") // all is in the journal by now
	if open, _ := jo.attention(); strings.Contains(open, "visa: ") {
		t.Errorf("19 requests are enough for a notice: %s", open)
	}
	jo.pay("visa")
	page := jo.await("/", "visa: refused by the directory", "the directory refused 20", "error 303", "Since ")
	if strings.Contains(page, "mastercard: ") || strings.Contains(page, "most requests are refused") {
		t.Errorf("the overview blames others: %s", page)
	}
	jo.await("/authentications?scheme=visa&status=failed&time=15m", "error 303")
	own := visit(t, s, operator.User{Name: "own", Role: operator.Viewer, Merchant: "Shop"})
	if page := own.read("/"); page == "" || strings.Contains(page, "refused by the directory") {
		t.Errorf("people of a merchant see: %s", page)
	}
	jo.AwaitKeptNotice("directory visa")
	s.Directory.SetAnswer(nil)
	jo.awaitOver("visa: refused by the directory", func() { jo.pay("visa") })
	rig.Must(t, s.Stop())
	again := rig.StartSite(t, ca, s.Directory, rig.Plan{Beside: s})
	(&visitor{again, jo.session}).awaitOver("visa: refused by the directory", func() {})
}

// TestNoticeOfAMerchantWhoseRequestsAreRefused: 40 of 40 requests of one merchant are refused. The overview names it,
// and says it to its own people and not to those of another merchant.
func TestNoticeOfAMerchantWhoseRequestsAreRefused(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Console: withConsole})
	jo := visit(t, s, operator.User{Name: "jo", Role: operator.Viewer})
	own := visit(t, s, operator.User{Name: "own", Role: operator.Viewer, Merchant: "Shop"})
	foreign := visit(t, s, operator.User{Name: "foreign", Role: operator.Viewer, Merchant: "Other"})
	for range 40 {
		if code, got := s.Post("/auth", s.Request("2.2.0").With(rig.Object{"deviceChannel": "09"})); code != http.StatusBadRequest {
			t.Fatalf("/auth with a wrong element: %d %v", code, got)
		}
	}
	const title = "Shop: most requests are refused"
	page := jo.await("/", title, "This server refused 40 of 40 requests", "error 203", "deviceChannel", "Refused by us 40")
	if strings.Contains(page, "Other: ") || strings.Contains(page, "visa: ") {
		t.Errorf("the overview blames others: %s", page)
	}
	own.await("/", title)
	if page := foreign.read("/"); page == "" || strings.Contains(page, "Shop") || !strings.Contains(page, "Requests 0") {
		t.Errorf("people of another merchant see: %s", page)
	}
	jo.await("/authentications?merchant=Shop&status=refused&time=15m", "deviceChannel")
	jo.AwaitKeptNotice("merchant Shop")
	jo.awaitOver(title, func() { jo.pay("") })
}

// TestNoticeOfAConfigurationThatAStartWouldRefuse: a fault in the file is a problem in /readyz, which stays 200, and a
// notice with its line. A change that waits for a restart is another one. Both are over when the file is good.
func TestNoticeOfAConfigurationThatAStartWouldRefuse(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Console: withConsole})
	jo := visit(t, s, operator.User{Name: "jo", Role: operator.Viewer})
	good := s.ConfigText()
	for _, change := range []struct{ text, problem string }{
		{strings.Replace(good, "per_key", "per_kee", 1) + "\nlimitz: {}\n", "is refused, and the next start would fail"},
		{strings.Replace(good, "wait: 1m", "wait: 30s", 1), "is not in use until a restart"},
	} {
		rig.WriteFile(t, s.ConfigFile, []byte(change.text))
		s.HangUp()
		waittest.Until(t, "the problem in /readyz", func() bool {
			code, status, problem := s.ReadyStatus("configuration")
			return code == http.StatusOK && status == "degraded" && strings.Contains(problem, change.problem) && strings.Contains(problem, "threeds.yaml:")
		})
		title := "The configuration on disk " + change.problem
		jo.await("/", title, filepath.Base(s.ConfigFile)+":", "Since ")
		jo.await("/nodes", "configuration : "+change.problem)
		rig.WriteFile(t, s.ConfigFile, []byte(good))
		s.HangUp()
		jo.awaitOver(title, func() {})
		if got := s.Readiness(); got != `{"status":"ready"}` {
			t.Errorf("/readyz with the good file: %s", got)
		}
	}
}

// TestTraceOfADatabaseThatWasAway: while the database is away the console has no pages, and says why, since when, and
// what follows. Afterwards the overview says that the node had no store, from when to when, and how many requests this
// server refused.
func TestTraceOfADatabaseThatWasAway(t *testing.T) {
	t.Parallel()
	database := pgtest.Start(t)
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Console: withConsole, Store: fmt.Sprintf("store: {url: %q}\nkeys: keys.json", database.URL())})
	jo := visit(t, s, operator.User{Name: "jo", Role: operator.Viewer})
	jo.pay("")
	jo.await("/", "Requests 1")
	ids := []string{s.NewTransactionID(), s.NewTransactionID(), s.NewTransactionID()}
	rig.Must(t, database.Halt())
	for _, id := range ids {
		if code, got := s.Post("/auth", rig.BrowserRequest("2.2.0", rig.EnrolledPAN, id, "U")); code == http.StatusOK {
			t.Errorf("an /auth without a database: %d %v", code, got)
		}
	}
	waittest.Until(t, "the node to notice", func() bool {
		return strings.Contains(s.Log.String(), `"msg":"a part of the node is not well","part":"store"`)
	})
	waittest.Until(t, "the console to say why it has no pages", func() bool {
		status, words := jo.visitPage("/")
		return status == http.StatusServiceUnavailable && strings.Contains(words, "The store cannot be reached, since ") &&
			strings.Contains(words, "Every /auth is refused until the server can write transactions.")
	})
	rig.Must(t, database.Start())
	jo.awaitOver("The store cannot be reached", func() {})
	jo.await("/", "Refused by us 3", "Requests 4")
	jo.await("/nodes", "store: cannot be reached", "over since")
}
