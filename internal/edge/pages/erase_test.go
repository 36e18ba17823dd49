package pages_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// proofOn returns what a page has in place of what was typed.
func (s *site) proofOn(w *httptest.ResponseRecorder) string {
	s.Helper()
	m := regexp.MustCompile(`name="proof" value="([^"]*)"`).FindStringSubmatch(w.Body.String())
	if m == nil {
		s.Fatalf("there is nothing to confirm: %d %s", w.Code, w.Body)
	}
	return m[1]
}

// authentications counts what the journal has of a query.
func (s *site) authentications(q journal.Query) int {
	s.Helper()
	page, err := s.Journal.Search(s.Context(), q)
	must(s.TB, err)
	return len(page.Records)
}

// TestJ6EraseOfACardIsConfirmed: the page says what would be erased, asks for the number again, erases, and says how
// much was erased. The number is on no page, in no address, no line of the log and no entry of the audit trail.
func TestJ6EraseOfACardIsConfirmed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var log bytes.Buffer
	s.Pages.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.Admin.Log = s.Pages.Log
	before := s.authentications(journal.Query{Card: card})
	s.want(s.get("admin", "/erase"), 200, "Only its keyed hash is looked for", `href="/erase" aria-current="page"`)
	asked := s.post("admin", "/erase", url.Values{"card": {"4000 0000 0000 0103"}})
	s.want(asked, 200, "Erase the card ending in 0103?", "The journal has 4 authentications, the newest of", "This cannot be undone", "What stays", "once more")
	pages := []*httptest.ResponseRecorder{asked}
	for name, form := range map[string]url.Values{
		"no number":                  {"do": {"erase"}, "proof": {s.proofOn(asked)}},
		"no proof":                   {"do": {"erase"}, "card": {card}},
		"another number":             {"do": {"erase"}, "card": {"4000000000000111"}, "proof": {s.proofOn(asked)}},
		"a number as proof":          {"do": {"erase"}, "card": {card}, "proof": {card}},
		"a number of a merchant":     {"merchant": {"4000-0000-0000-0103"}},
		"a card and a merchant":      {"card": {card}, "merchant": {shop}},
		"a number that is too short": {"card": {"400000000103"}},
	} {
		w := s.post("admin", "/erase", form)
		if w.Code != 400 || !strings.Contains(w.Body.String(), "Nothing was erased") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		pages = append(pages, w)
	}
	if w := s.post("operator", "/erase", url.Values{"do": {"erase"}, "card": {card}, "proof": {s.proofOn(asked)}}); w.Code != 403 {
		t.Errorf("as operator: %d", w.Code)
	}
	if n := s.authentications(journal.Query{Card: card}); n != before {
		t.Fatalf("%d authentications are left of %d, though nothing was confirmed", n, before)
	}
	done := s.post("admin", "/erase", url.Values{"do": {"erase"}, "card": {card}, "proof": {s.proofOn(asked)}})
	s.want(done, 200, `role="status"`, ">Erased<", `<td class="num" data-l="How many">4</td>`)
	if n := s.authentications(journal.Query{Card: card}); n != 0 || done.Header().Get("Location") != "" {
		t.Errorf("%d authentications are left", n)
	}
	s.want(s.post("admin", "/erase", url.Values{"card": {card}}), 200, "The journal has no authentication.")
	s.checkTrail("journal.erase", "passkey:admin")
	trail := s.get("admin", "/audit.jsonl")
	s.want(trail, 200, `"object":"card"`)
	for _, w := range append(pages, done, trail, s.get("admin", "/audit"), s.get("admin", "/erase")) {
		if body := w.Body.String(); hasCard(body) || strings.Contains(body, "4000000000000111") {
			t.Errorf("a card number is on a page: %s", body)
		}
	}
	if hasCard(log.String()) {
		t.Errorf("a card number is in the log: %s", &log)
	}
}

// TestJ6EraseOfAMerchantIsConfirmed: by its name, typed twice; the other merchant's records stay.
func TestJ6EraseOfAMerchantIsConfirmed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	asked := s.post("admin", "/erase", url.Values{"merchant": {shop}})
	s.want(asked, 200, "Erase "+shop+"?", "The journal has 3 authentications")
	s.want(s.post("admin", "/erase", url.Values{"do": {"erase"}, "merchant": {otherShop}, "proof": {s.proofOn(asked)}}), 400, "Nothing was erased")
	s.want(s.post("admin", "/erase", url.Values{"do": {"erase"}, "merchant": {shop}, "proof": {s.proofOn(asked)}}), 200, ">Erased<")
	if own, others := s.authentications(journal.Query{Merchant: shop}), s.authentications(journal.Query{Merchant: otherShop}); own != 0 || others != 1 {
		t.Errorf("%d of the shop are left, %d of the other one", own, others)
	}
	s.want(s.get("admin", "/audit.jsonl"), 200, `"object":"merchant `+shop)
}

// TestD142EraseWantsCSRF: without it the page asks for no confirmation, and erases nothing.
func TestD142EraseWantsCSRF(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	proof := s.proofOn(s.post("admin", "/erase", url.Values{"merchant": {shop}}))
	for _, given := range []string{"", "x"} {
		form := url.Values{"csrf": {given}, "merchant": {shop}, "proof": {proof}, "do": {"erase"}}
		r := httptest.NewRequest("POST", "/erase", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if w := s.serve("admin", r); w.Code != 403 {
			t.Errorf("csrf %q: %d", given, w.Code)
		}
	}
	if n := s.authentications(journal.Query{Merchant: shop}); n != 3 {
		t.Errorf("%d authentications are left", n)
	}
}

// TestD146EraseWithoutAJournal: the page says that there is none, and the trail has no erasure.
func TestD146EraseWithoutAJournal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Admin.Journal = nil
	s.want(s.post("admin", "/erase", url.Values{"card": {card}}), 404, "The journal is off")
	if entries, err := s.Admin.Operators.Search(t.Context(), operator.Query{Limit: 9}); err != nil || len(entries) != 0 {
		t.Errorf("in the audit trail: %v, %v", entries, err)
	}
}
