package admin_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// Authentications of a day, in the journal of every site.
const (
	passedID    = "00000000-0000-4000-8000-000000000001" // Of the shop: a challenge that was passed.
	lostID      = "00000000-0000-4000-8000-000000000002" // Of the shop: a challenge without an RReq.
	foreignID   = "00000000-0000-4000-8000-000000000003" // Of the other shop: it was frictionless.
	journalCard = "4000000000000103"
)

var journalDay = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// addJournal gives a site a journal with these authentications.
func (s *site) addJournal() {
	s.Helper()
	dir := s.TempDir()
	keys, err := journal.LoadOrCreateKeys(filepath.Join(dir, "journal-keys.json"), "")
	if err != nil {
		s.Fatal(err)
	}
	st, err := journal.OpenFiles(dir, keys)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = st.Close() })
	for _, r := range []journal.Record{
		{ID: passedID, Merchant: shop, Status: "completed", Result: "authenticated", TransStatus: "Y", Challenged: true, DurationMS: 100},
		{ID: lostID, Merchant: shop, Status: "expired", Result: "abandoned", TransStatus: "C", Challenged: true, DurationMS: 1000},
		{ID: foreignID, Merchant: otherShop, Status: "completed", Result: "not_authenticated", TransStatus: "N", DurationMS: 100},
	} {
		r.Created, r.Updated, r.API = journalDay, journalDay, "emv"
		r.Card = journal.Card{Scheme: "visa", BIN: "40000000", Last4: "0103"}
		step := journal.Step{Step: "areq", At: journalDay}
		e := journal.Entry{Kind: journal.Answered, Record: r, Steps: []journal.Step{step}, CardHash: keys.CardHash(journalCard)}
		if _, err := st.Write(s.Context(), []journal.Entry{e}); err != nil {
			s.Fatal(err)
		}
	}
	s.handler.Journal, s.handler.JournalKeys, s.handler.Operators.Keys = st, keys, keys
}

// idsOf returns the ids in the answer of a search.
func idsOf(t *testing.T, body []byte) []string {
	t.Helper()
	var list struct{ Data []struct{ ID string } }
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	ids := []string{}
	for _, r := range list.Data {
		ids = append(ids, r.ID)
	}
	return ids
}

// TestK4SearchByAdminAPI: by every way of asking, and what belongs to another merchant is not there.
func TestK4SearchByAdminAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for caller, want := range map[string]int{"viewer": 3, "own-viewer": 2} {
		if got := idsOf(t, s.call(caller, "GET", "authentications?last4=0103", "").Body.Bytes()); len(got) != want {
			t.Errorf("%s finds %q", caller, got)
		}
		w := s.call(caller, "POST", "authentications/search", fmt.Sprintf(`{"acctNumber": %q}`, journalCard))
		if got := idsOf(t, w.Body.Bytes()); len(got) != want {
			t.Errorf("%s finds %q by card", caller, got)
		}
		if got := idsOf(t, s.call(caller, "GET", "authentications?merchant=Other%20Shop&status=completed", "").Body.Bytes()); len(got) != 1 {
			t.Errorf("%s finds %q of another merchant", caller, got)
		}
	}
	if got := idsOf(t, s.call("own-viewer", "GET", "authentications?merchant=Other%20Shop&status=completed", "").Body.Bytes()); got[0] != passedID {
		t.Errorf("another merchant's record is found: %q", got)
	}
	unknown := s.call("own-viewer", "GET", "authentications/00000000-0000-4000-8000-00000000000f", "")
	if w := s.call("own-viewer", "GET", "authentications/"+foreignID, ""); w.Code != 404 || w.Body.String() != unknown.Body.String() {
		t.Errorf("%d %s; want %s", w.Code, w.Body, unknown.Body)
	}
	if w := s.call("own-viewer", "GET", "authentications/"+passedID, ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"step":"areq"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, path := range []string{
		"authentications?acctNumber=" + journalCard, "authentications?limit=101", "authentications?limit=many", "authentications?colour=red",
		"authentications?from=today", "authentications?from=2026-02-02T00:00:00Z&to=2026-02-01T00:00:00Z", "reports",
		"reports?by=colour", "reports?by=day&to=tomorrow", "billing?from=soon", "billing?to=2026-13", "billing?from=2026-03&to=2026-02",
	} {
		if w := s.call("viewer", "GET", path, ""); w.Code != 400 {
			t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestD126PersonalDataIsShownWithItsStep: only operators who may see the messages of a record see it. The access is in
// the audit trail.
func TestD126PersonalDataIsShownWithItsStep(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := journal.Entry{Kind: journal.Resulted, Record: journal.Record{
		ID: passedID, Merchant: shop, Created: journalDay, Updated: journalDay, API: "emv", Status: "completed",
	}, Steps: []journal.Step{{Step: "rreq", At: journalDay, Personal: json.RawMessage(`{"email":"ann@shop.example"}`)}}}
	if _, err := s.handler.Journal.Write(t.Context(), []journal.Entry{e}); err != nil {
		t.Fatal(err)
	}
	for caller, want := range map[string]int{"viewer": 200, "own-viewer": 200, "nobody": 401} {
		w := s.call(caller, "GET", "authentications/"+passedID, "")
		if isShown := strings.Contains(w.Body.String(), `"personal":{"email":"ann@shop.example"}`); w.Code != want || isShown != (want == 200) {
			t.Errorf("%s: %d %s", caller, w.Code, w.Body)
		}
		if body := s.call(caller, "GET", "authentications?id="+passedID, "").Body.String(); strings.Contains(body, "ann@") {
			t.Errorf("a list for %s has them: %s", caller, body)
		}
	}
	if trail := s.call("admin", "GET", "audit", "").Body.String(); !strings.Contains(trail, "record.view") || strings.Contains(trail, "ann@") {
		t.Errorf("the audit trail is %s", trail)
	}
}

// TestD146LooksAreInTheAuditTrail: the trail says who searched for and looked at what, and never has the card that was
// typed.
func TestD146LooksAreInTheAuditTrail(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.call("viewer", "POST", "authentications/search", fmt.Sprintf(`{"acctNumber": %q}`, journalCard))
	s.call("viewer", "GET", "authentications/"+passedID, "")
	trail := s.call("admin", "GET", "audit", "").Body.String()
	for _, want := range []string{"record.search", "record.view", passedID, "token:viewer"} {
		if !strings.Contains(trail, want) {
			t.Errorf("no %s in %s", want, trail)
		}
	}
	if strings.Contains(trail, journalCard) || strings.Contains(trail, journalCard[6:]) {
		t.Errorf("a card in %s", trail)
	}
}

// TestD147ReportsCountByValue: rates are fractions, and one merchant's people see theirs.
func TestD147ReportsCountByValue(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	type row struct {
		Value                                        string
		All                                          int64
		ChallengeRate, FrictionlessRate, SuccessRate float64
		Abandonment, RReqLoss, MedianMS, P95MS       float64
	}
	ask := func(caller, by string) []row {
		t.Helper()
		w := s.call(caller, "GET", "reports?by="+by+"&from=2026-03-01T00:00:00Z&to=2026-03-02T00:00:00Z", "")
		var list struct{ Data []row }
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return list.Data
	}
	for by, value := range map[string]string{"scheme": "visa", "issuer": "40000000", "day": "2026-03-01", "version": "", "acs": "", "reason": ""} {
		if rows := ask("viewer", by); len(rows) != 1 || rows[0].Value != value || rows[0].All != 3 {
			t.Errorf("by %s: %+v", by, rows)
		}
	}
	rows := ask("viewer", "merchant")
	if len(rows) != 2 || rows[0].Value != shop || rows[1].Value != otherShop || len(ask("own-viewer", "merchant")) != 1 {
		t.Fatalf("%+v", rows)
	}
	got := rows[0]
	if got.ChallengeRate != 1 || got.SuccessRate != 0.5 || got.Abandonment != 0.5 || got.RReqLoss != 0.5 || got.MedianMS < 95 || got.MedianMS > 110 ||
		got.P95MS < 950 || got.P95MS > 1100 {
		t.Errorf("%+v", got)
	}
	if rows[1].FrictionlessRate != 1 || rows[1].SuccessRate != 0 {
		t.Errorf("%+v", rows[1])
	}
}

// TestK5ReportOfMandatesIsOrderedByUrgency: rules that a scheme has in force come first, then future rules, then
// advice, then rules that have ended. Each row has the share of the merchant's requests at that scheme, and its last
// record.
func TestK5ReportOfMandatesIsOrderedByUrgency(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.handler.Now = func() time.Time { return journalDay.AddDate(0, 0, 9) }
	rule := func(element, kind string, after, until int) journal.Rule {
		r := journal.Rule{Element: element, Rule: kind}
		if after != 0 {
			r.Since = journalDay.AddDate(0, 0, after).Format(time.DateOnly)
		}
		if until != 0 {
			r.Until = journalDay.AddDate(0, 0, until).Format(time.DateOnly)
		}
		return r
	}
	rare := []journal.Rule{rule("rare", "require", 0, 0), rule("later", "format", 40, 0), rule("soon", "require", 10, 0)}
	often := []journal.Rule{rule("often", "require", 9, 9), rule("advice", "advise", 0, 0), rule("over", "require", 0, 8)}
	for n, unkept := range [][]journal.Rule{often, slices.Concat(rare, often)} {
		r := journal.Record{
			ID: fmt.Sprintf("50000000-0000-4000-8000-%012d", n), Merchant: shop, API: "emv", Status: "completed", TransStatus: "Y",
			Created: journalDay.Add(time.Duration(n) * time.Minute), Card: journal.Card{Scheme: "visa"}, Unkept: unkept,
		}
		if _, err := s.handler.Journal.Write(t.Context(), []journal.Entry{{Kind: journal.Answered, Record: r}}); err != nil {
			t.Fatal(err)
		}
	}
	type row struct {
		Merchant, Scheme, Element, Example string
		Requests, All                      int64
		Share                              float64
		InForce, HasEnded                  bool
	}
	for caller, want := range map[string][]string{
		"viewer":     {"often", "rare", "soon", "later", "advice", "over"},
		"own-viewer": {"often", "rare", "soon", "later", "advice", "over"},
	} {
		w := s.call(caller, "GET", "reports/mandates", "")
		var list struct{ Data []row }
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 || len(list.Data) != len(want) {
			t.Fatalf("%s: %d %s", caller, w.Code, w.Body)
		}
		for n, r := range list.Data {
			if r.Element != want[n] || r.InForce != (n < 2 || r.Element == "advice") || r.HasEnded != (r.Element == "over") {
				t.Errorf("%s: row %d is %+v, want %s", caller, n, r, want[n])
			}
		}
		first := row{shop, "visa", "often", "50000000-0000-4000-8000-000000000001", 2, 4, 0.5, true, false}
		if list.Data[0] != first {
			t.Errorf("%s: %+v, want %+v", caller, list.Data[0], first)
		}
	}
	r := journal.Record{
		ID: foreignID, Merchant: otherShop, API: "emv", Status: "completed", Created: journalDay,
		Card: journal.Card{Scheme: "visa"}, Unkept: rare[:1],
	}
	if _, err := s.handler.Journal.Write(t.Context(), []journal.Entry{{Kind: journal.Resulted, Record: r}}); err != nil {
		t.Fatal(err)
	}
	for caller, isSeen := range map[string]bool{"viewer": true, "own-viewer": false} {
		if w := s.call(caller, "GET", "reports/mandates", ""); strings.Contains(w.Body.String(), otherShop) != isSeen {
			t.Errorf("%s: the other shop is seen or not: %s", caller, w.Body)
		}
	}
	if w := s.call("viewer", "GET", "reports/mandates?from=2026-04-01T00:00:00Z&to=2026-04-02T00:00:00Z", ""); !strings.Contains(w.Body.String(), `"data":[]`) {
		t.Errorf("a time without records: %s", w.Body)
	}
	if w := s.call("viewer", "GET", "reports/mandates?from=today", ""); w.Code != 400 {
		t.Errorf("a time that is none: %d", w.Code)
	}
}

// TestK5BillingCountsMonths: those that are asked for, from the first to the last, and one
// merchant's people see theirs.
func TestK5BillingCountsMonths(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ask := func(caller, query string) (all []journal.BillingCount, sum int64) {
		t.Helper()
		w := s.call(caller, "GET", "billing"+query, "")
		var list struct{ Data []journal.BillingCount }
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		for _, c := range list.Data {
			sum += c.Count
		}
		return list.Data, sum
	}
	if all, sum := ask("viewer", "?from=2026-02&to=2026-03"); sum != 3 || all[0].Month != "2026-03" || all[0].Merchant != shop {
		t.Errorf("%+v", all)
	}
	all, sum := ask("own-viewer", "?from=2026-03&to=2026-03")
	for _, c := range all {
		if c.Merchant != shop {
			t.Errorf("%+v", c)
		}
	}
	if sum != 2 {
		t.Errorf("%+v", all)
	}
	for _, query := range []string{"?to=2026-02", "?from=2026-04&to=2026-05"} {
		if all, sum := ask("viewer", query); sum != 0 || all == nil {
			t.Errorf("%s: %+v", query, all)
		}
	}
}

// TestAdminAPIWithoutJournal says that there is none.
func TestAdminAPIWithoutJournal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.handler.Journal = nil
	for _, path := range []string{"authentications", "authentications/" + passedID, "reports?by=day", "billing"} {
		if w := s.call("viewer", "GET", path, ""); w.Code != 404 || !strings.Contains(w.Body.String(), "journal is off") {
			t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
	}
}
