package journal

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestD126JournalThatIsAwayIsCountedAndSaid: while the database of the journal is down the server stays ready and
// authenticates. The metrics count what failed and what waits, /readyz names the journal, and the log warns. Once the
// database is back all of it is written, and nothing is said any more.
func TestD126JournalThatIsAwayIsCountedAndSaid(t *testing.T) {
	t.Parallel()
	database := pgtest.Start(t)
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: fmt.Sprintf("journal: {url: %q, keys: journal-keys.json}", database.URL())})
	of := func(outcome string) float64 {
		return s.Metric(`threeds_journal_records_total{outcome="` + outcome + `"}`)
	}
	s.WantAuthentication()
	waittest.Until(t, "an entry of the journal", func() bool { return of("written") > 0 && s.Metric("threeds_journal_waiting") == 0 })
	written, failed := of("written"), of("failed") // a first batch may be too slow on a busy machine, and is tried again
	rig.Must(t, database.Halt())
	s.WantAuthentication()
	waittest.Until(t, "the failure to be counted", func() bool { return of("failed") > failed })
	s.WantAuthentication() // waits behind the batch that is tried again
	waittest.Until(t, "what waits", func() bool { return s.Metric("threeds_journal_waiting") > 0 })
	code, status, problem := s.ReadyStatus("journal")
	if code != http.StatusOK || status != "degraded" || !strings.Contains(problem, "is not written") || s.Metric(`threeds_degraded{what="journal"}`) != 1 {
		t.Errorf("/readyz: %d %s, %q", code, status, problem)
	}
	if !strings.Contains(s.Log.String(), `"msg":"journal not written"`) {
		t.Error("the log does not warn")
	}
	rig.Must(t, database.Start())
	waittest.Until(t, "what waited to be written", func() bool { return s.Metric("threeds_journal_waiting") == 0 && of("written") > written })
	waittest.Until(t, "the end of the problem", func() bool { return s.Readiness() == `{"status":"ready"}` })
	if n := of("dropped"); n != 0 {
		t.Errorf("%v entries were dropped", n)
	}
}
