package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/edge/pages/consoletest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// TestK1AttacksInChromium: what others wrote into a record, and what is typed into a field or an address of the
// console, runs nothing in a real browser, and makes no element and no address.
func TestK1AttacksInChromium(t *testing.T) {
	s := consoletest.New(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session := &operator.Session{Actor: consoletest.Actor("admin"), CSRF: consoletest.CSRF}
		s.Pages.ServeHTTP(w, r.WithContext(operator.WithSession(r.Context(), session)))
	}))
	defer server.Close()
	tab := browsertest.NewBrowser(t)
	trap := browsertest.NewTrap(t, tab)
	inputs := 0
	check := func(at string, texts int) {
		t.Helper()
		if err := chromedp.Do(tab, chromedp.Navigate(server.URL+at)); err != nil {
			t.Fatal(err)
		}
		inputs += texts
		trap.Check(at)
	}

	// A record for each attack, which the search shows together, and one that has all attacks in each text.
	joined := strings.Join(browsertest.Attacks, " ")
	for i, attack := range append([]string{joined}, browsertest.Attacks...) {
		r := consoletest.RecordOf(fmt.Sprintf("20000000-0000-4000-8000-%012d", i))
		r.Created = s.Now.Add(-1e9)
		r.Merchant, r.Reference, r.ACS, r.TransStatus, r.TransStatusReason, r.ECI, r.ErrorCode, r.Amount, r.Currency, r.Operation, r.MessageVersion =
			attack, attack, attack, attack, attack, attack, attack, attack, attack, attack, attack
		r.Elements, r.Card.Scheme, r.Card.Last4, r.Result, r.Status = []string{attack}, attack, attack, attack, attack
		text, _ := json.Marshal(attack)
		m := fmt.Appendf(nil, `{"messageType": "ARes", "messageVersion": "2.2.0", %s: %[1]s, "transStatus": %[1]s}`, text)
		s.Add(journal.Answered, r, journal.Step{Step: "ares", At: r.Created, Message: m, Findings: []string{attack}},
			journal.Step{Step: attack, At: r.Created.Add(1e9), Findings: []string{attack}})
	}
	shows := func(at string) {
		t.Helper()
		is, err := chromedp.Run(tab, chromedp.Evaluate[bool](`document.body.innerText.includes("onerror=xss()")`))
		if err != nil || !is {
			t.Errorf("%s does not show the texts: %v", at, err)
		}
	}
	check("/authentications?time=all", 16*len(browsertest.Attacks))
	shows("the search")
	const id = "20000000-0000-4000-8000-000000000000"
	check("/authentications/"+id, 18*len(browsertest.Attacks))
	shows("the timeline")
	check("/authentications/"+id+"?step=ares", 20*len(browsertest.Attacks))
	check("/reports?by=merchant&time=all", len(browsertest.Attacks))

	for path, names := range map[string][]string{
		"/authentications": {"q", "merchant", "scheme", "result", "status", "acs", "reason", "id",
			"reference", "last4", "from", "to", "time", "cursor"},
		"/authentications/" + consoletest.PassedID: {"step", "beside"},
		"/audit":   {"who", "action", "object", "from", "cursor"},
		"/reports": {"by", "time"},
	} {
		query := url.Values{}
		for _, name := range names {
			query.Set(name, joined)
		}
		check(path+"?"+query.Encode(), len(names)*len(browsertest.Attacks))
	}
	for _, path := range []string{"/", "/merchants/", "/authentications/"} {
		check(path+url.PathEscape(joined), len(browsertest.Attacks))
	}
	t.Logf("%d inputs", inputs)
}
