package admin_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/journal"
)

// Authentications of a day, in the journal of every site.
const (
	passedID    = "00000000-0000-4000-8000-000000000001" // The shop has it: a challenge that was passed.
	lostID      = "00000000-0000-4000-8000-000000000002" // The shop has it: a challenge without an RReq.
	foreignID   = "00000000-0000-4000-8000-000000000003" // The other shop has it: it was frictionless.
	journalCard = "4000000000000103"
)

var journalDay = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// addJournal gives a site a journal with these authentications.
func (s *site) addJournal() {
	s.Helper()
	dir := s.TempDir()
	keys, err := journal.LoadOrCreateKeys(filepath.Join(dir, "journal-keys.json"))
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
	s.handler.Journal = st
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
		"authentications?from=today", "reports", "reports?by=colour", "reports?by=day&to=tomorrow",
	} {
		if w := s.call("viewer", "GET", path, ""); w.Code != 400 {
			t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestD146LooksAreInTheAuditTrail: who has searched and looked at what, and never the card that was typed.
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
		Abandonment, RReqLoss, MedianMS              float64
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
	if got.ChallengeRate != 1 || got.SuccessRate != 0.5 || got.Abandonment != 0.5 || got.RReqLoss != 0.5 || got.MedianMS < 95 || got.MedianMS > 110 {
		t.Errorf("%+v", got)
	}
	if rows[1].FrictionlessRate != 1 || rows[1].SuccessRate != 0 {
		t.Errorf("%+v", rows[1])
	}
}

// TestAdminAPIWithoutJournal says that there is none.
func TestAdminAPIWithoutJournal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.handler.Journal = nil
	for _, path := range []string{"authentications", "authentications/" + passedID, "reports?by=day"} {
		if w := s.call("viewer", "GET", path, ""); w.Code != 404 || !strings.Contains(w.Body.String(), "journal is off") {
			t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
	}
}
