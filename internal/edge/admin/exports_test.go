package admin_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestK11JournalIsExportedAndErased: an export is what a command would write, and can be verified. Nothing is found of
// an erased card. Both acts are in the audit trail, and the card is not.
func TestK11JournalIsExportedAndErased(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	verify := func(want int) {
		t.Helper()
		if err := s.handler.Journal.Sign(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		w := s.call("operator", "GET", "journal/export", "")
		got, err := journal.Verify(w.Body, s.handler.JournalKeys.PublicKey())
		if err != nil || got.Records != want || w.Header().Get("Content-Disposition") != `attachment; filename="journal.jsonl"` {
			t.Errorf("export: %+v, %v, %v; want %d records", got, err, w.Header(), want)
		}
	}
	before, err := s.handler.Journal.Search(t.Context(), journal.Query{})
	if err != nil || len(before.Records) == 0 {
		t.Fatalf("%d records, %v", len(before.Records), err)
	}
	verify(len(before.Records))
	if csv := s.call("operator", "GET", "journal/export?format=csv", ""); csv.Code != 200 || !strings.HasPrefix(csv.Body.String(), "id,created,") {
		t.Errorf("CSV: %d %.80s", csv.Code, csv.Body)
	}
	for query, want := range map[string]string{"format=xml": "format: want jsonl or csv.", "from=never": "from: want a date"} {
		if w := s.call("operator", "GET", "journal/export?"+query, ""); w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	for _, body := range []string{
		`{}`, `{"acctNumber": "12"}`, `{"acctNumber": "4000000000000103", "merchant": "Corner Shop"}`, `{"card": "x"}`,
		`{"merchant": "4000-0000 0000.0103"}`, `{"merchant": "4000000000000103"}`,
	} {
		if w := s.call("admin", "POST", "journal/erase", body); w.Code != 400 {
			t.Errorf("erase %s: %d %s", body, w.Code, w.Body)
		}
	}
	w := s.call("admin", "POST", "journal/erase", fmt.Sprintf(`{"acctNumber": %q}`, journalCard))
	if w.Code != 200 || strings.Contains(w.Body.String(), `"authentications":0`) {
		t.Errorf("erase: %d %s", w.Code, w.Body)
	}
	if page, err := s.handler.Journal.Search(t.Context(), journal.Query{Card: journalCard}); err != nil || len(page.Records) != 0 {
		t.Errorf("after the erasure %d records are found, %v", len(page.Records), err)
	}
	trail := s.call("admin", "GET", "audit", "").Body.String()
	if !strings.Contains(trail, "journal.erase") || !strings.Contains(trail, "journal.export") ||
		strings.Contains(trail, journalCard) || strings.Contains(trail, "0103") {
		t.Errorf("the audit trail: %s", trail)
	}
	s.handler.JournalKeys = nil
	for _, path := range []string{"journal/export", "audit/export"} {
		if w := s.call("admin", "GET", path, ""); w.Code != 503 {
			t.Errorf("%s without keys: %d %s", path, w.Code, w.Body)
		}
	}
}

// A slowReader takes nothing of an answer until it is released.
type slowReader struct {
	*httptest.ResponseRecorder
	begun   chan<- bool
	release <-chan bool
}

func (w slowReader) Write(piece []byte) (int, error) {
	w.begun <- true
	<-w.release
	return w.ResponseRecorder.Write(piece)
}

// TestAnOperatorCannotHoldAllExports: if one operator reads exports slowly, the others still get theirs. One export too
// many is refused with a reason, and is possible again once another has ended.
func TestAnOperatorCannotHoldAllExports(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"operator", "admin"} {
		for _, path := range []string{"journal/export", "journal/export?format=csv", "audit/export"} {
			if bad == "operator" && path == "audit/export" {
				continue // is for admins
			}
			s := newSite(t)
			other := map[string]string{"operator": "admin", "admin": "operator"}[bad]
			begun, release := make(chan bool, 100), make(chan bool)
			var held sync.WaitGroup
			start := func(caller string) {
				r := httptest.NewRequest("GET", admin.Prefix+path, nil)
				r.Header.Set("Authorization", "Bearer "+s.tokens[caller])
				held.Go(func() { s.handler.ServeHTTP(slowReader{httptest.NewRecorder(), begun, release}, r) })
				<-begun
			}
			start(bad)
			start(bad)
			w := s.call(bad, "GET", "journal/export", "")
			if w.Code != 429 || !strings.Contains(w.Body.String(), "You have 2 exports under way") {
				t.Errorf("%s: a third export of the %s: %d %.200s", path, bad, w.Code, w.Body)
			}
			if w := s.call(other, "GET", "journal/export", ""); w.Code != 200 {
				t.Errorf("%s: an export of the %s beside those of the %s: %d %.200s", path, other, bad, w.Code, w.Body)
			}
			if w := s.call("viewer", "GET", "authentications", ""); w.Code != 200 {
				t.Errorf("%s: a search beside exports: %d %.200s", path, w.Code, w.Body)
			}
			close(release)
			held.Wait()
			if w := s.call(bad, "GET", "journal/export", ""); w.Code != 200 {
				t.Errorf("%s: afterwards an export of the %s: %d %.200s", path, bad, w.Code, w.Body)
			}
		}
	}
}

// TestD146NumberInAnotherFieldIsNotInTheTrail: an operator who puts a card number into another field finds nothing, or
// gets the list of words that the field may have, and the number is stored nowhere.
func TestD146NumberInAnotherFieldIsNotInTheTrail(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{"id", "reference", "last4", "merchant", "scheme", "acs", "status", "result", "reason"} {
		want := 200
		if name == "status" || name == "result" || name == "merchant" || name == "scheme" {
			want = 400
		}
		for _, w := range []*httptest.ResponseRecorder{
			s.call("viewer", "GET", "authentications?"+name+"=4000+0000-0000.0103", ""),
			s.call("viewer", "POST", "authentications/search", fmt.Sprintf(`{%q: %q}`, name, journalCard)),
		} {
			if w.Code != want || strings.Contains(w.Body.String(), "0103") {
				t.Errorf("%s: %d %s, want %d without the number", name, w.Code, w.Body, want)
			}
		}
	}
	s.call("viewer", "GET", "authentications?reference=order-17", "")
	trail := s.call("admin", "GET", "audit", "").Body.String()
	if strings.Contains(trail, "0103") || !strings.Contains(trail, `"***"`) || !strings.Contains(trail, "order-17") {
		t.Errorf("the audit trail: %s", trail)
	}
}
