package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/store/postgres/pgtest"
)

// TestD126JournalThatIsAwayIsCountedAndSaid: while the database of the journal is down the server stays ready and
// authenticates. The metrics count what failed and what waits, /readyz names the journal, and the log warns. Once the
// database is back all of it is written, and nothing is said any more.
func TestD126JournalThatIsAwayIsCountedAndSaid(t *testing.T) {
	t.Parallel()
	database := pgtest.Start(t)
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca), plan{sections: fmt.Sprintf("journal: {url: %q, keys: journal-keys.json}", database.URL())})
	of := func(outcome string) float64 {
		return s.metric(`threeds_journal_records_total{outcome="` + outcome + `"}`)
	}
	s.wantAuthentication()
	waitFor(t, "an entry of the journal", func() bool { return of("written") > 0 && s.metric("threeds_journal_waiting") == 0 })
	written, failed := of("written"), of("failed") // a first batch may be too slow on a busy machine, and is tried again
	must(t, database.Halt())
	s.wantAuthentication()
	waitFor(t, "the failure to be counted", func() bool { return of("failed") > failed })
	s.wantAuthentication() // waits behind the batch that is tried again
	waitFor(t, "what waits", func() bool { return s.metric("threeds_journal_waiting") > 0 })
	code, status, problem := s.readyStatus("journal")
	if code != http.StatusOK || status != "degraded" || !strings.Contains(problem, "is not written") || s.metric(`threeds_degraded{what="journal"}`) != 1 {
		t.Errorf("/readyz: %d %s, %q", code, status, problem)
	}
	if !strings.Contains(s.log.String(), `"msg":"journal not written"`) {
		t.Error("the log does not warn")
	}
	must(t, database.Start())
	waitFor(t, "what waited to be written", func() bool { return s.metric("threeds_journal_waiting") == 0 && of("written") > written })
	waitFor(t, "the end of the problem", func() bool { return s.readiness() == `{"status":"ready"}` })
	if n := of("dropped"); n != 0 {
		t.Errorf("%v entries were dropped", n)
	}
}
