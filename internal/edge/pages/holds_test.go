package pages_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestA2TheTrailNamesAHoldThatTheJournalLacks: the newest seals are gone, with the hold in them.
func TestA2TheTrailNamesAHoldThatTheJournalLacks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	by := operator.Actor{Who: "passkey:admin", Role: operator.Admin}
	for _, name := range []string{"case 1", "case 2", "case 3"} {
		asked := api.HoldRequest{Name: name, Merchant: shop, Reason: "a dispute"}
		if _, err := s.Admin.AddHold(t.Context(), by, asked); err != nil {
			t.Fatal(err)
		}
	}
	s.want(s.post("admin", "/holds/case%201/lift", url.Values{}), 303)
	for _, want := range []string{"[]", "[case 2]"} {
		if got, err := s.Admin.MissingHolds(t.Context(), by); err != nil || fmt.Sprint(got) != want {
			t.Errorf("missing are %v, %v; want %s", got, err, want)
		}
		_ = s.Journal.LiftHold(t.Context(), "case 2", "cli:jo") // the trail does not know of it
	}
}

// TestJ6AHoldOnThePageKeepsWhatAnErasureAsksFor: an admin sets a hold on a card at a merchant. The page says how much it
// holds. The page of erasures says what stays, before and after. An operator sees the hold, and cannot change it. After
// it is lifted, what was left out goes. The card number is on no page and in no entry of the audit trail.
func TestJ6AHoldOnThePageKeepsWhatAnErasureAsksFor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	all := s.authentications(journal.Query{Card: card})
	held := s.authentications(journal.Query{Card: card, Merchant: shop})
	if all != 4 || held == 0 || held == all {
		t.Fatalf("the card has %d authentications, %d of them at the shop", all, held)
	}
	form := func(more ...string) url.Values {
		f := url.Values{"name": {"case 17"}, "reason": {"a dispute"}}
		for i := 0; i < len(more); i += 2 {
			f.Set(more[i], more[i+1])
		}
		return f
	}
	s.want(s.get("admin", "/holds"), 200, "There is none.", `href="/holds" aria-current="page"`, "New hold")
	var pages []*httptest.ResponseRecorder
	for name, wrong := range map[string]struct {
		form url.Values
		want string
	}{
		"nothing is held":       {form(), "Say what is held"},
		"no merchant":           {form("merchant", "Shpo"), "the journal has no record of it"},
		"a card as merchant":    {form("merchant", card), "may be a whole card number"},
		"a card as name":        {form("name", card, "merchant", shop), "name:"},
		"a card as reason":      {form("reason", "see 4111 1111 1111 1111", "merchant", shop), "reason:"},
		"a card that is short":  {form("card", "400000"), "13 to 19 digits"},
		"a card of blanks":      {form("card", "- -", "merchant", shop), "13 to 19 digits"},
		"a card in a merchant":  {form("merchant", "Shop 4111 1111 1111 1111"), "merchant: has what looks like a card number"},
		"a merchant with a NUL": {form("merchant", "a\x00b"), "merchant: want text"},
		"no letters":            {form("merchant", "a\xffb"), "merchant: want text"},
		"a merchant of 10 kB":   {form("merchant", strings.Repeat("a", 10_000)), "the journal has no record of it"},
		"a name of 10 kB":       {form("name", strings.Repeat("a", 10_000), "merchant", shop), "name:"},
		"a card of 12 digits":   {form("card", "400000000000"), "13 to 19 digits"},
		"no reason":             {form("reason", "", "merchant", shop), "reason:"},
		"a day that is none":    {form("from", "2026-13-01"), "from: want a day"},
		"days in wrong order":   {form("from", "2026-03-02", "to", "2026-03-01"), "to: is before from"},
		"a name with a slash":   {form("name", "a/b", "merchant", shop), "name:"},
		"a name of dots":        {form("name", "..", "merchant", shop), "name:"},
		"a name that is a line": {form("name", "a\nb", "merchant", shop), "name:"},
	} {
		w := s.post("admin", "/holds", wrong.form)
		if w.Code != 400 || !strings.Contains(w.Body.String(), wrong.want) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		pages = append(pages, w)
	}
	set := s.post("admin", "/holds", form("card", "4000 0000 0000 0103", "merchant", shop))
	s.want(set, 200, `role="status"`, "The hold case 17 is set.", "a card, merchant "+shop, "passkey:admin", "Lift it")
	if w := s.post("admin", "/holds", form("merchant", shop)); w.Code != 400 {
		t.Errorf("a second hold of the name: %d", w.Code)
	}
	seen := s.get("operator", "/holds")
	s.want(seen, 200, "case 17")
	if strings.Contains(seen.Body.String(), "<form action=\"/holds") || s.get("viewer", "/holds").Code != 403 ||
		s.post("operator", "/holds", form("merchant", shop)).Code != 403 || s.post("operator", "/holds/case%2017/lift", url.Values{}).Code != 403 {
		t.Error("others than an admin may change holds, or viewers see them")
	}

	asked := s.post("admin", "/erase", url.Values{"card": {card}})
	s.want(asked, 200, "for the legal hold case 17.")
	done := s.post("admin", "/erase", url.Values{"do": {"erase"}, "card": {card}, "proof": {s.proofOn(asked)}})
	s.want(done, 200, ">Erased<", "for the legal hold case 17.", "goes when the hold is lifted")
	if n := s.authentications(journal.Query{Card: card}); n != held {
		t.Errorf("%d authentications of the card stay, want %d", n, held)
	}
	waiting := s.get("admin", "/holds")
	s.want(waiting, 200, "1 erasure left something out")
	s.want(s.post("admin", "/holds/case%2017/lift", url.Values{}), 303)
	s.want(s.get("admin", "/holds"), 200, "There is none.")
	if _, err := s.Journal.EraseDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.authentications(journal.Query{Card: card}); n != 0 {
		t.Errorf("%d authentications of the card stay after the hold was lifted", n)
	}
	s.checkTrail("journal.hold", "passkey:admin")
	s.checkTrail("journal.lift", "passkey:admin")
	for _, w := range append(pages, set, seen, asked, done, waiting, s.get("admin", "/audit.jsonl"), s.get("admin", "/audit")) {
		if hasCard(w.Body.String()) {
			t.Errorf("a card number is on a page: %s", w.Body)
		}
	}
}
